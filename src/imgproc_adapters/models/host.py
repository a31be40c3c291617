"""Runs model calls in a process of its own: the event loop and the heartbeat never wait for a model.

The process is a fresh interpreter (never a fork), started by the first call and kept. It can be killed at any moment:
a call past its deadline, a cancelled call and a crash all end with the process gone and the next call starting
another. It dies with its owner (see `child`).
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from typing import Final, Self

import msgspec
from attrs import define, field

from imgproc_adapters.models.wire import (
    HEADER,
    MAX_MESSAGE,
    WARM,
    A,
    Answer,
    Call,
    Part,
    Problem,
    R,
    Setup,
    Task,
    framed,
)

_START_TIMEOUT: Final = 60.0
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class ModelCallFailed(Exception):
    """A call gave no result. Nothing of it is running any more."""


class ModelTimedOut(ModelCallFailed):
    """It was not done by its deadline; its process was killed if it had begun."""


class ModelCrashed(ModelCallFailed):
    """Its process died, or could not be started."""


class ModelProblem(ModelCallFailed):
    """The process answered that it cannot: `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.message}")
        self.problem = problem


@define(eq=False)
class ModelHost:
    """One model process and the queue before it. Calls run one at a time, in the order they came."""

    setup: Setup
    _turn: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _child: "_Child | None" = field(default=None, init=False)
    _dying: "list[_Child]" = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    async def run(self, task: Task[A, R], argument: A, within: timedelta) -> R:
        """The result of `task`. `within` covers waiting for a turn, starting the process, and the call.

        Raises:
            ModelTimedOut, ModelCrashed, ModelProblem: there is no result and nothing is running.
        """
        call = Call(task.name, msgspec.msgpack.encode(argument))
        try:
            async with asyncio.timeout(within.total_seconds()), self._turn:
                answer = await self._ask(call)
        except TimeoutError as error:
            raise ModelTimedOut(f"{task.name} was not done within {within.total_seconds():g} s") from error
        if answer.problem is not None:
            raise ModelProblem(answer.problem)
        return msgspec.msgpack.decode(answer.body, type=task.result)

    async def warm(self, *parts: Part) -> int:
        """Starts the process and loads `parts`; returns its process id. Raises as `run`."""
        return await self.run(WARM, list(parts), timedelta(seconds=_START_TIMEOUT))

    async def close(self) -> None:
        """Ends the process, also in the middle of a call; later calls raise `ModelCrashed`. Idempotent."""
        self._closed = True
        if self._child is not None:
            self._drop(self._child)
        for child in self._dying:
            await child.gone()
        self._dying.clear()

    async def _ask(self, call: Call) -> Answer:
        if self._closed:
            raise ModelCrashed("the model process was closed")
        child = self._child or await self._start()
        try:
            return await child.ask(call)
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            self._drop(child)
            raise ModelCrashed(f"the model process died {await child.gone()}") from error
        except BaseException:
            self._drop(child)
            raise

    async def _start(self) -> "_Child":
        child = self._child = await _Child.spawn()
        try:
            await child.greet(self.setup)
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            self._drop(child)
            raise ModelCrashed(f"the model process died while starting {await child.gone()}") from error
        except BaseException:
            self._drop(child)
            raise
        return child

    def _drop(self, child: "_Child") -> None:
        if self._child is child:
            self._child = None
        child.kill()
        # a cancelled caller must not wait for the kernel; the next start or the end reaps what is left
        self._dying = [other for other in self._dying if not other.reaped()]
        self._dying.append(child)


@define(eq=False)
class _Child:
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def spawn(cls) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - takes about 1 ms; our own interpreter and module
                [sys.executable, "-P", "-m", "imgproc_adapters.models.child", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env=_environment(),
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    async def greet(self, setup: Setup) -> None:
        self.writer.write(framed(setup))
        await self._receive()

    async def ask(self, call: Call) -> Answer:
        self.writer.write(framed(call))
        await self.writer.drain()
        return await self._receive()

    def kill(self) -> None:
        """Ends the process at once; safe to repeat."""
        self.process.kill()
        self.writer.close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def reaped(self) -> bool:
        return self.process.poll() is not None

    async def gone(self) -> str:
        """Waits until the killed process is reaped and says how it ended."""
        code = await asyncio.to_thread(self.process.wait)
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

    async def _receive(self) -> Answer:
        (length,) = HEADER.unpack(await self.reader.readexactly(HEADER.size))
        if length > MAX_MESSAGE:
            raise EOFError(f"an answer of {length} bytes")
        return msgspec.msgpack.decode(await self.reader.readexactly(length), type=Answer)


def _environment() -> dict[str, str]:
    # what its owner imports from where, the process must import from there, too
    path = os.pathsep.join(place for place in sys.path if place)
    return {**os.environ, **_ONE_THREAD, "PYTHONPATH": path}
