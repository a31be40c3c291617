"""What every peer's script does: ``python -m benchmarks.peers.NAME PHASE ...`` prints one JSON object.

The phases are those of our own engine: ``drain`` (empty, finished or queued table), ``single`` and ``pickup``;
``serve`` is the other process of ``pickup``. Submitting and working happen in one process, as with ours.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import psycopg
import uvloop
from attrs import define, field, frozen

from benchmarks.meter import read
from benchmarks.stats import percentiles_ms

DSN: Final = "IMGPROC_BENCH_DSN"
"""The variable with the database's address: it holds a password, which others could see among the arguments."""

STEPS: Final = (1, 2, 3)
LEAST_PAUSE: Final = 0.02
MOST_PAUSE: Final = 0.07
_PATIENCE: Final = 600.0
_LOOK_AGAIN: Final = 0.005
_WARM: Final = 10


@define
class Seen:
    """What the steps report, from any thread. ``telling`` prints it."""

    ended: int = 0
    telling: bool = False
    _lock: threading.Lock = field(factory=threading.Lock)

    def step(self, step: int, number: int) -> None:
        """Note that a step of a job is being executed: the first begins the job, the last ends it."""
        if step == STEPS[0] and self.telling:
            say("call", number, time.monotonic())
        if step == STEPS[-1]:
            with self._lock:
                self.ended += 1
            if self.telling:
                say("ended", number)


class Peer(Protocol):
    """An engine on the database of ``dsn``. A job is three steps, one after the other, and carries a number."""

    @property
    def settings(self) -> str:
        """What was chosen of its settings, for people."""
        ...

    async def install(self) -> None:
        """Make its tables."""
        ...

    async def submit_one(self, number: int) -> None: ...
    async def submit_many(self, jobs: int) -> None:
        """Submit jobs as fast as its interface allows."""
        ...

    def submitting(self) -> AbstractAsyncContextManager[None]:
        """Be connected so that jobs can be submitted."""
        ...

    def ready(self) -> AbstractAsyncContextManager[None]:
        """Do what has to be done before a worker can begin at once."""
        ...

    def working(self, concurrency: int) -> AbstractAsyncContextManager[None]:
        """Run a worker for the length of the block."""
        ...

    def live(self) -> str:
        """Return the query that counts what is queued or running."""
        ...

    def finished(self, rows: int) -> Sequence[str]:
        """Return statements that leave so many finished jobs of one step."""
        ...


Make = Callable[[str, Seen], Peer]


@frozen
class _Run:
    """One phase. ``jobs`` are measured; ``finished`` or ``queued`` ones are there before."""

    peer: Peer
    seen: Seen
    options: argparse.Namespace

    @property
    def dsn(self) -> str:
        return os.environ[DSN]

    async def drain(self) -> dict[str, object]:
        """Submit and work off jobs; beside a queue, only until so many or the time is reached."""
        await self.peer.install()
        if self.options.finished:
            await asyncio.to_thread(self._execute, self.peer.finished(self.options.finished))
        await asyncio.to_thread(self._settle)
        jobs = self.options.jobs
        before = read(self.dsn, self.options.postmaster)
        async with self.peer.submitting():
            begun = time.monotonic()
            await self.peer.submit_many(self.options.queued or jobs)
            submitting = time.monotonic() - begun
        spent = read(self.dsn, self.options.postmaster) - before
        await asyncio.to_thread(self._settle)
        async with self.peer.ready():
            before = read(self.dsn, self.options.postmaster, alone=False)
            begun = time.monotonic()
            async with self.peer.working(self.options.concurrency):
                await self._until(jobs, whole=not self.options.queued)
                seconds = time.monotonic() - begun
        spent += read(self.dsn, self.options.postmaster) - before
        if not self.options.queued and self.seen.ended != jobs:
            raise RuntimeError(f"{self.seen.ended} instead of {jobs} jobs ended")
        rates = {"jobs_per_s": self.seen.ended / seconds, "settings": self.peer.settings}
        if self.options.queued:
            return rates
        return {**rates, "bulk_submit_per_s": jobs / submitting, **spent.per_job(jobs)}

    async def single(self) -> dict[str, object]:
        await self.peer.install()
        async with self.peer.submitting():
            begun = time.monotonic()
            for number in range(self.options.jobs):
                await self.peer.submit_one(number)
            return {"submit_per_s": self.options.jobs / (time.monotonic() - begun)}

    async def pickup(self) -> dict[str, object]:
        """One job at a time, from just before it is submitted to the beginning of its first step elsewhere."""
        await self.peer.install()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *sys.orig_argv[1:3], "serve", *sys.argv[2:]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None, "it was opened with a pipe"
        pauses = random.Random(1)  # the same pauses in every run
        waits = []
        try:
            await _hear(process.stdout, "started")
            async with self.peer.submitting():
                for number in range(self.options.samples + _WARM):
                    await asyncio.sleep(pauses.uniform(LEAST_PAUSE, MOST_PAUSE))
                    begun = time.monotonic()
                    await self.peer.submit_one(number)
                    waits.append((await _hear(process.stdout, "call"))[1] - begun)
                    await _hear(process.stdout, "ended")
        finally:
            process.kill()
            await process.wait()
        p50, p99 = percentiles_ms(waits[_WARM:])
        return {"idle_pickup_ms_p50": p50, "idle_pickup_ms_p99": p99}

    async def serve(self) -> dict[str, object]:
        """Work until the standard input ends."""
        self.seen.telling = True
        async with self.peer.ready(), self.peer.working(self.options.concurrency):
            say("started")
            await asyncio.to_thread(sys.stdin.read)
        return {}

    async def _until(self, jobs: int, *, whole: bool) -> None:
        deadline = time.monotonic() + (_PATIENCE if whole else self.options.within)
        while self.seen.ended < jobs and time.monotonic() < deadline:  # noqa: ASYNC110 - steps may run in threads
            await asyncio.sleep(_LOOK_AGAIN)
        while whole and await asyncio.to_thread(self._live):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.seen.ended} of {jobs} jobs ended in time")
            await asyncio.sleep(_LOOK_AGAIN)

    def _live(self) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute(self.peer.live().encode()).fetchone()
        assert found is not None, "a scalar query returns a row"
        return bool(found[0])

    def _execute(self, statements: Sequence[str]) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _settle(self) -> None:
        self._execute(["VACUUM ANALYZE", "CHECKPOINT"])


def say(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


async def _hear(lines: asyncio.StreamReader, kind: str) -> Sequence[float]:
    async with asyncio.timeout(60):
        while line := await lines.readline():
            said: list[Any] = json.loads(line)
            if said[0] == kind:
                return said[1:]
    raise EOFError(f"the worker process ended before it said {kind!r}")


def main(make: Make) -> None:
    parser = argparse.ArgumentParser(description="One phase of one peer, as a JSON object.")
    parser.add_argument("phase", choices=("drain", "single", "pickup", "serve"))
    parser.add_argument("--postmaster", type=int, required=True)
    for name, usual in (("jobs", 1000), ("finished", 0), ("queued", 0), ("samples", 200), ("concurrency", 50)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--within", type=float, default=60.0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seen = Seen()
    run = _Run(make(os.environ[DSN], seen), seen, options)
    phases = {"drain": run.drain, "single": run.single, "pickup": run.pickup, "serve": run.serve}
    # the loop that the engine's workers run on
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(phases[options.phase]())
    sys.stdout.write(json.dumps(result) + "\n")
