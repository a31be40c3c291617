"""DBOS: a workflow of three steps, taken from a queue."""

# mypy: disable-error-code="import-not-found"
# the package is installed for this script alone

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient

from benchmarks.peers.common import STEPS, Seen, main

_QUEUE = "bench"
_WORKFLOW = "three_steps"
_VERSION = "1"
_BULK = 500
_POLL = 0.01


class Workflows:
    """Synchronous steps on its thread pool; its queue is polled, by default only once a second."""

    settings = f"synchronous steps, queue polled every {_POLL * 1000:g} ms, {_BULK:,} jobs a bulk submit"

    def __init__(self, dsn: str, seen: Seen) -> None:
        self._dsn = dsn
        self._client: Any = None

        def step(which: int, number: int) -> int:
            seen.step(which, number)
            return number

        run = DBOS.step()(step)

        def workflow(number: int) -> None:
            for which in STEPS:
                run(which, number)

        DBOS.workflow(name=_WORKFLOW)(workflow)

    async def install(self) -> None:
        async with self.ready():
            return

    @asynccontextmanager
    async def submitting(self) -> AsyncIterator[None]:
        self._client = await asyncio.to_thread(DBOSClient, system_database_url=self._dsn)
        try:
            yield
        finally:
            await asyncio.to_thread(self._client.destroy)

    async def submit_one(self, number: int) -> None:
        await asyncio.to_thread(self._client.enqueue, self._options, number)

    async def submit_many(self, jobs: int) -> None:
        await asyncio.to_thread(self._submit_many, jobs)

    def _submit_many(self, jobs: int) -> None:
        engine = sqlalchemy.create_engine(self._dsn.replace("postgresql://", "postgresql+psycopg://"))
        for start in range(0, jobs, _BULK):
            with engine.begin() as connection:
                for number in range(start, min(start + _BULK, jobs)):
                    self._client.enqueue_in_transaction(connection, self._options, number)
        engine.dispose()

    @property
    def _options(self) -> dict[str, str]:
        return {"queue_name": _QUEUE, "workflow_name": _WORKFLOW, "app_version": _VERSION}

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        config = {
            "name": "bench",
            "system_database_url": self._dsn,
            "log_level": "CRITICAL",
            "run_admin_server": False,
            "application_version": _VERSION,
            "executor_id": "local",
        }
        await asyncio.to_thread(DBOS, config=config)
        await asyncio.to_thread(DBOS.launch)
        try:
            yield
        finally:
            await asyncio.to_thread(DBOS.destroy)

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncIterator[None]:
        await asyncio.to_thread(
            DBOS.register_queue,
            _QUEUE,
            worker_concurrency=concurrency,
            polling_interval_sec=_POLL,
            on_conflict="always_update",
        )
        yield

    def live(self) -> str:
        return "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"

    def finished(self, rows: int) -> Sequence[str]:
        return (_PATTERN, _FINISHED.format(rows=rows), _OUTPUTS)


_PATTERN = """
    INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id, application_version, queue_name, inputs,
        output, created_at, updated_at)
    VALUES ('pattern', 'SUCCESS', 'three_steps', 'local', '1', 'bench', '[]', 'null', 1, 1)
"""
_FINISHED = """
    INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id, application_version, queue_name, inputs,
        output, created_at, updated_at)
    SELECT gen_random_uuid()::text, status, name, executor_id, application_version, queue_name, inputs, output, n, n
    FROM dbos.workflow_status, generate_series(1, {rows}) n WHERE workflow_uuid = 'pattern'
"""
_OUTPUTS = """
    INSERT INTO dbos.operation_outputs (workflow_uuid, function_id, function_name, output)
    SELECT workflow_uuid, n, 'step', '1' FROM dbos.workflow_status, generate_series(1, 3) n WHERE status = 'SUCCESS'
"""


if __name__ == "__main__":
    main(Workflows)
