"""PgQueuer: three entry points, each enqueueing the next before it returns. Ended jobs move to its log table.

A later step has the higher priority, so that jobs are completed beside a long queue of jobs that have not begun.
"""

# mypy: disable-error-code="import-not-found"
# the packages are installed for this script alone

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.peers.common import STEPS, Seen, main

_BULK = 1_000
_STOP = 10.0


class Queuer:
    """Its driver on asyncpg; status writes are buffered, as is its default."""

    settings = f"asyncpg, batches as large as the concurrency, {_BULK:,} jobs a bulk submit"

    def __init__(self, dsn: str, seen: Seen) -> None:
        self._dsn = dsn
        self._seen = seen
        self._queries: Any = None
        self._queuer: Any = None

    @asynccontextmanager
    async def submitting(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(self._dsn)
        self._queries = Queries(AsyncpgDriver(connection))
        try:
            yield
        finally:
            await connection.close()

    async def install(self) -> None:
        async with self.submitting():
            await self._queries.install()

    async def submit_one(self, number: int) -> None:
        await self._queries.enqueue("step1", str(number).encode(), 0)

    async def submit_many(self, jobs: int) -> None:
        for start in range(0, jobs, _BULK):
            payloads = [str(n).encode() for n in range(start, min(start + _BULK, jobs))]
            await self._queries.enqueue(["step1"] * len(payloads), payloads, [0] * len(payloads))

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(self._dsn)
        self._queuer = PgQueuer(AsyncpgDriver(connection))
        for step in STEPS:
            self._queuer.entrypoint(f"step{step}")(self._step(step))
        try:
            yield
        finally:
            await connection.close()

    def _step(self, step: int) -> Callable[[Any], Awaitable[None]]:
        async def run(job: Any) -> None:
            self._seen.step(step, int(job.payload))
            if step < STEPS[-1]:
                await self._queuer.qm.queries.enqueue(f"step{step + 1}", job.payload, step)

        return run

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncIterator[None]:
        running = self._queuer.run(batch_size=concurrency, max_concurrent_tasks=2 * concurrency)
        task = asyncio.create_task(running)
        try:
            yield
        finally:
            self._queuer.shutdown.set()
            await asyncio.wait_for(task, _STOP)

    def live(self) -> str:
        return "SELECT count(*) FROM pgqueuer"

    def finished(self, rows: int) -> Sequence[str]:
        return _LOG.format(rows=rows), f"SELECT setval(pg_get_serial_sequence('pgqueuer', 'id'), {rows + 1})"


_LOG = """
    INSERT INTO pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
    SELECT n, s::pgqueuer_status, 0, 'step1', true
    FROM generate_series(1, {rows}) n, unnest(ARRAY['queued', 'picked', 'successful']) s
"""


if __name__ == "__main__":
    main(Queuer)
