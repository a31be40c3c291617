"""procrastinate: three tasks a job, each deferring the next one before it ends.

A later step has the higher priority, so that jobs are completed beside a long queue of jobs that have not begun.
"""

# mypy: disable-error-code="import-not-found"
# the package is installed for this script alone

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import procrastinate

from benchmarks.peers.common import STEPS, Seen, main
from benchmarks.peers.tasks import cancelled

_QUEUE = "bench"
_BULK = 1_000
_POOL = 10


class Procrastinate:
    """Tasks are coroutines; what has ended stays in the table, as is its default."""

    settings = f"asynchronous tasks, pool of {_POOL} connections, {_BULK:,} jobs a bulk submit"

    def __init__(self, dsn: str, seen: Seen) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=_POOL)
        self._app = procrastinate.App(connector=connector)
        self._tasks = [self._app.task(name=f"step{step}", queue=_QUEUE)(self._step(step, seen)) for step in STEPS]

    def _step(self, step: int, seen: Seen) -> Callable[[int], Awaitable[None]]:
        async def run(number: int) -> None:
            seen.step(step, number)
            if step < STEPS[-1]:
                await self._tasks[step].configure(priority=step).defer_async(number=number)

        return run

    async def install(self) -> None:
        async with self.submitting():
            await self._app.schema_manager.apply_schema_async()

    async def submit_one(self, number: int) -> None:
        await self._tasks[0].defer_async(number=number)

    async def submit_many(self, jobs: int) -> None:
        for start in range(0, jobs, _BULK):
            arguments: list[dict[str, Any]] = [{"number": n} for n in range(start, min(start + _BULK, jobs))]
            await self._tasks[0].batch_defer_async(*arguments)

    @asynccontextmanager
    async def submitting(self) -> AsyncIterator[None]:
        async with self._app.open_async():
            yield

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        async with self._app.open_async():
            yield

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncIterator[None]:
        async with cancelled(
            self._app.run_worker_async(queues=[_QUEUE], concurrency=concurrency, install_signal_handlers=False)
        ):
            yield

    def live(self) -> str:
        return "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

    def finished(self, rows: int) -> Sequence[str]:
        return (
            "ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER",
            _JOBS.format(queue=_QUEUE, rows=rows),
            _EVENTS,
            "ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER",
        )


_JOBS = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)
    SELECT '{queue}', 'step1', jsonb_build_object('number', n), 'succeeded', 1 FROM generate_series(1, {rows}) n
"""
_EVENTS = """
    INSERT INTO procrastinate_events (job_id, type, at)
    SELECT id, e::procrastinate_job_event_type, now()
    FROM procrastinate_jobs, unnest(ARRAY['deferred', 'started', 'succeeded']) e
"""


if __name__ == "__main__":
    main(Procrastinate)
