"""The processes on the hosts: the database's, a nursery and its workers on each other one, and the slow line."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.hosts.network import SUBNET, WIDTH, Network
from chaos.hosts.plan import DATABASE, DELAY, HOSTS, JITTER, SLOW, WORKERS, Plan
from chaos.plan import ALLOW_ALL
from chaos.worker import Order
from imgproc_domain.attempt import Replay

LEDGERS: Final = ("agent.jsonl", "local.jsonl")
NAME: Final = "hosts"
_ADDRESS: Final = f"{SUBNET}.{2 + HOSTS.index(DATABASE)}"
_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 30.0


@define(eq=False)
class Crew:
    """Everything that runs on the hosts of ``network``. ``crashes`` says who ended as nobody asked it to."""

    plan: Plan
    network: Network
    folder: Path
    crashes: list[str] = field(factory=list)
    netem: bool = False
    _server: str = ""
    _relay: Process | None = None
    _relay_port: int = 0
    _processes: list[Process] = field(factory=list)
    _nurseries: list[Process] = field(factory=list)
    _workers: dict[int, str] = field(factory=dict)
    _listening: list[asyncio.Task[None]] = field(factory=list)
    _closing: bool = False

    async def start_database(self) -> None:
        # only the server's own folder is its owner's: everybody may pass through the one above it
        self.folder.chmod(0o755)
        network = f"{SUBNET}.0/{WIDTH}"
        process = await self._run(DATABASE, "chaos.hosts.database", str(self.folder), _ADDRESS, network)
        self._server = await _first_line(process, "the database")

    async def start_line(self) -> None:
        """Put the relay that can become slow before the host that will, where the kernel cannot delay."""
        self.netem = await asyncio.to_thread(self.network.slow, SLOW, 0.0, 0.0)
        if not self.netem:
            port = str(conninfo_to_dict(self._server)["port"])
            self._relay = await self._run(SLOW, "chaos.hosts.relay", _ADDRESS, port)
            self._relay_port = int(await _first_line(self._relay, "the relay"))

    def dsn(self, database: str, name: str, host: str | None = None) -> str:
        """Return the way to a database in somebody's name, as it is on ``host``."""
        way: dict[str, str | int] = {"sslmode": "disable", "gssencmode": "disable", "application_name": name}
        way["host"] = _ADDRESS
        if host == SLOW and self._relay is not None:
            way |= {"host": "127.0.0.1", "port": self._relay_port}
        return make_conninfo(self._server, dbname=database, **way)

    async def start_workers(self) -> None:
        for host in WORKERS:
            self._open_folder(host)
            nursery = await self._run(host, "chaos.nursery", "0")
            self._nurseries.append(nursery)
            await _first_line(nursery, f"the nursery of {host}")
            self._listening.append(asyncio.create_task(self._listen(nursery, host)))
            for number in range(self.plan.workers):
                assert nursery.stdin is not None, "it was opened with a pipe"
                nursery.stdin.write(self._order(host, number).to_json().encode() + b"\n")

    def _open_folder(self, host: str) -> None:
        """A host has a folder of its own, in which the ledgers are everybody's: they are the called side's memory."""
        own = self.folder / host
        own.mkdir()
        for name in LEDGERS:
            (own / name).symlink_to(self.folder / name)

    def _order(self, host: str, number: int) -> Order:
        name = f"{host}.{number}"
        seed = f"{self.plan.seed}/{name}"
        return Order(name, self.folder / host, self.dsn(NAME, name, host), ALLOW_ALL, Replay.LOOKUP, seed)

    async def slow_down(self) -> None:
        """Let everything that the slow host sends take longer."""
        seconds, jitter = DELAY.total_seconds(), JITTER.total_seconds()
        if self._relay is None:
            await asyncio.to_thread(self.network.slow, SLOW, seconds, jitter)
        else:
            assert self._relay.stdin is not None, "it was opened with a pipe"
            self._relay.stdin.write(f"{seconds} {jitter}\n".encode())

    async def stop_workers(self) -> None:
        """Let all workers end in order."""
        self._closing = True
        for pid in list(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while self._workers:  # noqa: ASYNC110 - processes send no event here
                    await asyncio.sleep(0.05)
        self.crashes += [f"{name} did not end at SIGTERM" for name in self._workers.values()]

    async def close(self) -> None:
        """End everything, the database last."""
        self._closing = True
        for process in reversed(self._processes):
            assert process.stdin is not None, "it was opened with a pipe"
            process.stdin.close()
            await process.wait()
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)

    async def _run(self, host: str, module: str, *arguments: str) -> Process:
        errors = os.open(self.folder / f"{host}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *self.network.inside(host, sys.executable, "-m", module, *arguments),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=_ROOT,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                # Ctrl-C is the run's alone: it ends the others in order
                start_new_session=True,
            )
        finally:
            os.close(errors)
        self._processes.append(process)
        return process

    async def _listen(self, nursery: Process, host: str) -> None:
        assert nursery.stdout is not None, "it was opened with a pipe"
        while line := await nursery.stdout.readline():
            what, pid, status = line.split()
            if what == b"born":
                self._workers[int(pid)] = f"{host}, process {int(pid)}"
            elif what == b"died":
                name = self._workers.pop(int(pid))
                if not self._closing or int(status):
                    self.crashes.append(f"{name} ended with {int(status)}")


async def _first_line(process: Process, whose: str) -> str:
    assert process.stdout is not None, "it was opened with a pipe"
    line = await asyncio.wait_for(process.stdout.readline(), _PATIENCE * 2)
    if not line:
        raise RuntimeError(f"{whose} did not start: see the files beside the database")
    return line.decode().strip()


def folders(folder: Path) -> Sequence[tuple[str, Path]]:
    return [(host, folder / host) for host in WORKERS]
