"""Hosts can reach each other until a cable is pulled, and nothing of them is left; a slow line is late and in order."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from chaos.hosts.network import SUBNET, Network, NetworkError, sweep, why_not
from chaos.hosts.relay import Delay, Relay

LISTEN = "import socket; s = socket.create_server(('', 4000)); print('listening', flush=True); {}"
SERVE = LISTEN.format("[s.accept()[0].close() for _ in range(9)]")
CALL = f"import socket; socket.create_connection(('{SUBNET}.2', 4000), timeout={{}})"
LATE = 0.15


def namespaces(run: int) -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"imgproc-hosts-{run}-*")]


@pytest.fixture
def network() -> Iterator[Network]:
    lacking = why_not()
    if lacking:
        pytest.skip(lacking)
    made = Network(os.getpid())
    try:
        made.open(["one", "two"])
    except NetworkError as error:
        made.close()
        pytest.skip(str(error))
    yield made
    made.close()


def reached(network: Network, patience: float) -> bool:
    command = network.inside("two", sys.executable, "-c", CALL.format(patience))
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def serving(network: Network) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody on the first host who answers calls."""
    with subprocess.Popen(network.inside("one", sys.executable, "-c", SERVE), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        yield process
        process.kill()


def test_a_host_is_out_of_reach_while_its_cable_is_pulled(network: Network, serving: subprocess.Popen[bytes]) -> None:
    assert reached(network, 30)
    network.cut("two")
    assert not reached(network, 0.5)
    network.mend("two")
    assert reached(network, 30)
    assert len(namespaces(network.run)) == 3
    network.close()
    assert namespaces(network.run) == []
    assert serving.wait(30) < 0


def test_what_a_killed_run_left_behind_is_taken_away_and_nothing_else(network: Network) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    left = Network(gone.pid)
    left.open(["one"])
    sweep()
    assert namespaces(left.run) == []
    assert len(namespaces(network.run)) == 3


@asynccontextmanager
async def echoing(delay: Delay) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a connection through a relay to somebody who says everything again."""
    over = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()
        await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        relay = Relay("127.0.0.1", server.sockets[0].getsockname()[1], delay)
        reader, writer = await asyncio.open_connection("127.0.0.1", await relay.start())
        yield reader, writer
        writer.close()
        await writer.wait_closed()
        await relay.close()
        await over.wait()


async def test_a_slow_line_is_late_by_its_delay_from_when_it_becomes_slow() -> None:
    delay, loop = Delay(), asyncio.get_running_loop()
    async with echoing(delay) as (reader, writer):
        writer.write(b"at once")
        assert await reader.readexactly(7) == b"at once"
        delay.seconds = LATE
        begun = loop.time()
        writer.write(b"late")
        assert await reader.readexactly(4) == b"late"
        assert loop.time() - begun >= LATE


async def test_a_slow_line_keeps_the_order_and_loses_nothing() -> None:
    said = [f"{number:04}".encode() for number in range(200)]
    async with echoing(Delay(0.01, 0.01)) as (reader, writer):
        for each in said:
            writer.write(each)
            await asyncio.sleep(0)
        writer.write_eof()
        assert await reader.read(-1) == b"".join(said)
