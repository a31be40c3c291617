"""Claiming, settling and submitting read no more because of what is finished."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from tests.integration.postgres.test_plans import ATTEMPTS, BATCH, BIG, GRANTS, JOBS, a_batch_of_each_kind, fill

from imgproc_adapters.postgres.arrays import ADAPTERS
from imgproc_adapters.postgres.session import Ask, Row, Session, Sql
from imgproc_adapters.postgres.uow import PostgresTransaction, PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_job, make_meme
from imgproc_domain.scope import Scope

FEW: Final = 200
MANY: Final = 20_000
A_LEVEL: Final = 6 * BATCH
"""A hundred times as many rows make an index a level higher at most: one more page for each row of a batch, in each of
the few indexes that a statement looks into."""
STAGES: Final = """
    INSERT INTO image_processing_stages (scope_id, job_id, stage, status, reused, task_id)
    SELECT scope_id, job_id, stage, 'succeeded', false, gen_random_uuid()
    FROM image_processing_jobs, unnest(ARRAY['visual', 'agent', 'text_embedding']) stage
    WHERE status = 'succeeded'
"""
INDEXES_OF_LIVE_ROWS: Final = """
    SELECT relname, pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE pg_get_expr(i.indpred, i.indrelid) ~ 'queued|running|due_at|done_at'
"""


class ExplainingSession(Session):
    """Runs every statement twice, the first time to count the pages it touches, which is undone."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], scope: Scope) -> None:
        super().__init__(connection, scope)
        self._explained = connection
        self.touched: Counter[str] = Counter()

    async def _execute(self, asks: Sequence[Ask]) -> Sequence[psycopg.AsyncCursor[Row]]:
        cursors: list[psycopg.AsyncCursor[Row]] = []
        for ask in asks:
            await self._explain(*ask)
            cursors.extend(await super()._execute([ask]))
        return cursors

    async def _explain(self, sql: Sql, params: Mapping[str, object]) -> None:
        explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql
        await self._explained.execute("SAVEPOINT explained")
        cursor = await self._explained.execute(explain, {"scope": self.scope, **params})
        ((found,),) = await cursor.fetchall()
        await self._explained.execute("ROLLBACK TO SAVEPOINT explained")
        plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
        self.touched[" ".join(sql.decode().split())[:900]] += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def finished(connection: psycopg.Connection[Any], count: int) -> None:
    """Fill the scope with as many finished jobs, tasks, attempts and grants."""
    for table in ("memes", "tasks", "image_processing_jobs", "task_attempts", "operation_grants"):
        connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
    fill(connection, BIG, "succeeded", count)
    fill(connection, BIG, "queued", BATCH, count + 1)
    connection.execute(JOBS, {"scope": BIG, "rows": count})
    connection.execute(STAGES)
    connection.execute(ATTEMPTS)
    connection.execute(GRANTS)
    connection.execute("VACUUM ANALYZE")


@asynccontextmanager
async def explaining(dsn: str) -> AsyncIterator[ExplainingSession]:
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
        dsn, context=ADAPTERS, prepare_threshold=None
    )
    async with connection:
        yield ExplainingSession(connection, BIG)
        await connection.rollback()


async def touched(dsn: str) -> Counter[str]:
    async with explaining(dsn) as session:
        await a_batch_of_each_kind(PostgresTransaction(session))
        return session.touched


async def one_job(uow: PostgresUnitOfWork) -> None:
    meme = make_meme(BIG)
    async with uow.begin(BIG) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([make_job(meme)])


def live_indexes(connection: psycopg.Connection[Any]) -> dict[str, int]:
    found = connection.execute(INDEXES_OF_LIVE_ROWS.encode()).fetchall()
    return {str(name): int(size) for name, size in found}


async def test_a_batch_touches_no_more_pages_behind_a_hundred_times_the_history(
    direct: str, uow: PostgresUnitOfWork
) -> None:
    with psycopg.connect(direct, autocommit=True) as connection:
        await one_job(uow)
        finished(connection, FEW)
        live = live_indexes(connection)
        few = await touched(direct)
        connection.execute("TRUNCATE memes, tasks CASCADE")
        await one_job(uow)
        finished(connection, MANY)
        assert live_indexes(connection) == live, "they hold live rows alone"
        many = await touched(direct)
    assert few.keys() == many.keys()
    assert not {sql: (few[sql], many[sql]) for sql in few if many[sql] > few[sql] + A_LEVEL}
