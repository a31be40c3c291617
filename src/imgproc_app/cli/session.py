"""What the global options give to every command."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from imgproc_app import event_loop
from imgproc_app.cli.output import Output
from imgproc_app.settings import Settings, load_settings

INTERRUPTED: Final = 130

Stop = asyncio.Event
"""Set by the first SIGINT or SIGTERM."""


@frozen
class Session:
    """One call of the command line."""

    output: Output
    given: Mapping[str, object]

    def settings(self, **more: object) -> Settings:
        """Read the environment under the options; raises `InvalidValue`."""
        return load_settings(os.environ, **{**self.given, **more})

    def under(self, option: str, value: object) -> "Session":
        """Return this session with one more option."""
        return evolve(self, given={**self.given, option: value})

    def in_json(self) -> "Session":
        return evolve(self, output=evolve(self.output, as_json=True))


def run_until_stopped(body: Callable[[Stop], Coroutine[Any, Any, int]]) -> int:
    """Run ``body``, which ends in order soon after the event is set; a second signal ends the process at once."""
    return event_loop.run(_signalled(body))


def run(body: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run ``body``; a signal cancels it, and the result is then 130."""

    async def cancelled_by(stop: Stop) -> int:
        task = asyncio.ensure_future(body())
        if await first_of(task, stop):
            return task.result()
        task.cancel()
        await asyncio.wait([task])
        return INTERRUPTED

    return run_until_stopped(cancelled_by)


async def first_of(work: Awaitable[Any], stop: Stop) -> bool:
    """Wait for ``work`` or for ``stop``; True if the work is done. A task is left running, a coroutine is cancelled."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if task is not work and not task.done():
            task.cancel()
    return task.done()


async def pause(seconds: float, stop: Stop) -> None:
    """Wait for a time, or for less if ``stop`` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def _signalled(body: Callable[[Stop], Coroutine[Any, Any, int]]) -> int:
    stop = Stop()

    def on_signal() -> None:
        if stop.is_set():
            # the embedded server and the model processes end with this one; leases cover what was under way
            os._exit(INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return await body(stop)
