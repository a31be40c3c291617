"""A worker in a process of its own, told what to do over its standard input: ``python -m benchmarks.processes``.

It answers on its standard output, a JSON list a line: ``["ready"]`` when it may be started, ``["started"]``,
``["call", NAME, TIME]`` when the visual model is called with a picture (TIME is monotonic, the same clock in every
process), ``["ended", COUNT]`` whenever a job has ended, and ``["stopped", COUNT]`` with all that succeeded.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from attrs import define, field, frozen

from benchmarks import ROOT
from benchmarks.peers.common import DSN
from benchmarks.rig import Ended, open_rig
from imgproc_adapters.testing.ledger import Call, Phase
from imgproc_adapters.testing.models import VISUAL
from imgproc_app import event_loop
from imgproc_domain.events import Event

PATIENCE: Final = 60.0


@frozen
class WorkerProcess:
    """The side that tells."""

    process: asyncio.subprocess.Process

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, *, telling: bool = False) -> AsyncIterator[Self]:
        """Start the process and wait until it can begin at once; ``telling`` has it report each call and each end."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.processes", *(["--telling"] if telling else [])),
            cwd=ROOT,
            env={**os.environ, DSN: dsn},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            made = cls(process)
            await made.hear("ready")
            yield made
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def start(self) -> None:
        await self._tell("start")
        await self.hear("started")

    async def stop(self) -> int:
        """Let it end in order; returns how many jobs it has brought to success."""
        await self._tell("stop")
        return int((await self.hear("stopped"))[0])

    async def hear(self, kind: str) -> list[Any]:
        """Return what comes with the next answer of a kind; what comes before it is dropped.

        Raises:
            EOFError: it has ended.
            TimeoutError: it says nothing.
        """
        assert self.process.stdout is not None, "it was opened with a pipe"
        async with asyncio.timeout(PATIENCE):
            while line := await self.process.stdout.readline():
                said: list[Any] = json.loads(line)
                if said[0] == kind:
                    return said[1:]
        raise EOFError(f"the worker process ended before it said {kind!r}")

    async def _tell(self, word: str) -> None:
        assert self.process.stdin is not None, "it was opened with a pipe"
        self.process.stdin.write(f"{word}\n".encode())
        await self.process.stdin.drain()


def _say(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class TellingLedger:
    """Tells when the visual model is called, and keeps nothing."""

    def note(self, model: str, key: str, phase: Phase) -> None:
        if model == VISUAL and phase == "started":
            _say("call", key, time.monotonic())

    def calls(self) -> list[Call]:
        return []


@define
class TellingEnded(Ended):
    _told: int = field(default=0, init=False)

    def note(self, event: Event) -> None:
        super().note(event)
        if self.succeeded + len(self.failed) > self._told:
            self._told = self.succeeded + len(self.failed)
            _say("ended", self._told)


async def _serve(dsn: str, *, telling: bool) -> None:
    words = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    ended, ledger = (TellingEnded(), TellingLedger()) if telling else (Ended(), None)
    async with open_rig(dsn, ledger=ledger, ended=ended) as one:
        _say("ready")
        await words.readline()
        worker = one.worker()
        await worker.start()
        _say("started")
        # also when whoever started it is gone: the pipe ends then
        await words.readline()
        await worker.stop()
        _say("stopped", one.ended.succeeded)


if __name__ == "__main__":
    event_loop.run(_serve(os.environ[DSN], telling="--telling" in sys.argv[1:]))
