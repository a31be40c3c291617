"""The model process: it lives and dies as its owner needs, and never holds up the event loop."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_adapters.models.host import ModelCrashed, ModelHost, ModelProblem, ModelTimedOut
from imgproc_adapters.models.wire import EMBED_QUERY, PROBE, WARM, Part, Setup, Task
from imgproc_domain.ports.models import PictureInfo

LONG = timedelta(seconds=60)
DEADLINE = 30.0
# loads a model and so takes far longer than a tenth of a second
SLOW: list[Part] = ["reader", "text", "visual"]


async def gone(pid: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while alive(pid):  # noqa: ASYNC110 - the operating system sends no event for a process that is not our child
            await asyncio.sleep(0.01)


async def test_a_call_is_answered_by_another_process_with_its_own_type(setup: Setup, flag: Path) -> None:
    host = ModelHost(setup)
    assert await host.run(PROBE, str(flag), LONG) == PictureInfo("image/png", 64, 40, 1)
    pid = await host.warm()
    assert pid != os.getpid()
    await host.close()
    assert not alive(pid)


async def test_a_process_is_kept_for_the_next_call(setup: Setup) -> None:
    host = ModelHost(setup)
    assert await host.warm() == await host.warm()
    await host.close()


async def test_a_refused_picture_is_a_typed_problem_and_the_process_lives_on(setup: Setup, tmp_path: Path) -> None:
    words = tmp_path / "words.jpg"
    words.write_bytes(b"not an image")
    host = ModelHost(setup)
    pid = await host.warm()
    with pytest.raises(ModelProblem) as failure:
        await host.run(PROBE, str(words), LONG)
    assert (failure.value.problem.kind, failure.value.problem.code) == ("rejected", "unsupported_media")
    with pytest.raises(ModelProblem, match="no task named juggle"):
        await host.run(Task("juggle", str, str), "", LONG)
    assert await host.warm() == pid
    await host.close()


async def test_a_killed_process_fails_its_call_and_the_next_call_gets_another(setup: Setup, flag: Path) -> None:
    host = ModelHost(setup)
    pid = await host.warm()
    call = asyncio.create_task(host.run(WARM, SLOW, LONG))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ModelCrashed, match="SIGKILL"):
        await call
    assert (await host.run(PROBE, str(flag), LONG)).width == 64
    assert await host.warm() != pid
    await host.close()


async def test_a_call_past_its_deadline_is_killed(setup: Setup) -> None:
    host = ModelHost(setup)
    pid = await host.warm()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ModelTimedOut):
        await host.run(WARM, [], timedelta(milliseconds=50))
    await gone(pid)
    assert await host.warm() != pid
    await host.close()


async def test_a_cancelled_call_stops_the_local_execution(setup: Setup) -> None:
    host = ModelHost(setup)
    pid = await host.warm()
    os.kill(pid, signal.SIGSTOP)
    call = asyncio.create_task(host.warm())
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await gone(pid)
    await host.close()


async def test_a_call_that_waits_in_vain_for_its_turn_harms_nobody(setup: Setup) -> None:
    host = ModelHost(setup)
    pid = await host.warm()
    os.kill(pid, signal.SIGSTOP)
    first = asyncio.create_task(host.warm())
    await asyncio.sleep(0)
    with pytest.raises(ModelTimedOut):
        await host.run(WARM, [], timedelta(milliseconds=50))
    os.kill(pid, signal.SIGCONT)
    assert await first == pid
    await host.close()


async def test_the_event_loop_runs_on_while_a_model_works(setup: Setup) -> None:
    host = ModelHost(setup)
    await host.warm()
    call = asyncio.create_task(host.run(WARM, SLOW, LONG))
    turns = 0
    while not call.done():
        await asyncio.sleep(0.005)
        turns += 1
    await call
    assert turns > 10
    await host.close()


async def test_memory_beyond_the_limit_fails_the_call_alone(cache: Path, flag: Path) -> None:
    host = ModelHost(Setup(cache=str(cache), memory_bytes=150_000_000))
    with pytest.raises((ModelProblem, ModelCrashed)):
        await host.run(EMBED_QUERY, "text", LONG)
    assert (await host.run(PROBE, str(flag), LONG)).width == 64
    await host.close()


async def test_closing_in_the_middle_of_a_call_ends_it(setup: Setup) -> None:
    host = ModelHost(setup)
    pid = await host.warm()
    os.kill(pid, signal.SIGSTOP)
    call = asyncio.create_task(host.warm())
    await asyncio.sleep(0)
    await host.close()
    with pytest.raises(ModelCrashed):
        await call
    assert not alive(pid)
    with pytest.raises(ModelCrashed, match="closed"):
        await host.warm()


OWNER = """
import asyncio, signal, sys
from imgproc_adapters.models.host import ModelHost
from imgproc_adapters.models.wire import Setup

async def main():
    host = ModelHost(Setup(cache=sys.argv[1]))
    print(await host.warm(), flush=True)
    await asyncio.sleep(float(sys.argv[2]))

# a shell starts what it puts into the background with SIGINT ignored, and the tests may run there
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def owner(cache: Path, seconds: float) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(cache), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_process_dies_with_its_owner_however_that_dies(number: signal.Signals, cache: Path) -> None:
    process, pid = owner(cache, 600)
    assert alive(pid)
    process.send_signal(number)
    await gone(pid)
    process.communicate(timeout=DEADLINE)


async def test_ctrl_c_in_the_terminal_prints_no_traceback(cache: Path) -> None:
    process, pid = owner(cache, 600)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert out == "interrupted\n"
    assert "Traceback" not in err
    await gone(pid)


async def test_an_owner_that_forgets_to_close_still_exits(cache: Path) -> None:
    process, pid = owner(cache, 0)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "Traceback" not in err
    await gone(pid)
