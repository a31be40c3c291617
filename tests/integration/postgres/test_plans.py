"""The hot statements read what they need and no more, however wrong the statistics are."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.arrays import ADAPTERS, Texts
from imgproc_adapters.postgres.dispatch import _DUE, _EXPIRED, _QUEUED, _READY
from imgproc_adapters.postgres.session import Session
from imgproc_adapters.postgres.uow import PostgresTransaction, PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_attempt, make_grant, make_job, make_meme, make_task
from imgproc_domain.ids import WorkerId
from imgproc_domain.job import open_stage
from imgproc_domain.policy import Operation
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.scope import Scope
from imgproc_domain.stage import IMAGE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import Task

BIG = Scope("plans-big")
SMALL = Scope("plans-small")
ROWS = 4_000
BATCH = 10
READ_AT_MOST = 60 * BATCH
"""Each of some thirty steps reads, locks or checks a batch, some of them twice; a scope has ten times as many rows."""
OWNER = WorkerId("planner")
MINUTE = timedelta(minutes=1)

# every task has a meme of its own; one job owns them all
FILL = """
    WITH made AS (
        INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
            storage_key, created_at, updated_at)
        SELECT %(scope)s, gen_random_uuid(), '', md5(n::text) || md5(n::text), '', 0, 0, 0, 1, '', now(), now()
        FROM generate_series(%(first)s::int, %(last)s::int) n
        RETURNING scope_id, meme_id, image_sha256
    )
    INSERT INTO tasks (scope_id, task_id, task_type, status, job_id, meme_id, image_sha256, config_fingerprint,
        reverse_image_policy, claim_generation, available_at, failures, lease_losses, created_at, completed_at)
    SELECT scope_id, gen_random_uuid(), 'visual_embedding_generation', %(status)s,
        (SELECT job_id FROM image_processing_jobs j WHERE j.scope_id = made.scope_id), meme_id, image_sha256, 'config',
        'forbid', 0, now() - interval '1 hour', 0, 0, now(), CASE WHEN %(status)s = 'succeeded' THEN now() END
    FROM made
"""
# one finished job a revision, one finished attempt and grant a task, so that nothing that is read by scope is small
JOBS = """
    INSERT INTO image_processing_jobs (scope_id, job_id, meme_id, revision, image_sha256, reverse_image_policy,
        config_fingerprint, status, created_at, updated_at, claim_generation, completed_at)
    SELECT scope_id, gen_random_uuid(), meme_id, n, image_sha256, 'forbid', 'config', 'succeeded', now(), now(),
        0, now()
    FROM image_processing_jobs j, generate_series(2, %(rows)s::int) n WHERE scope_id = %(scope)s
"""
ATTEMPTS = """
    INSERT INTO task_attempts (scope_id, task_id, attempt_no, attempt_id, request_id, session_id, generation, status,
        input_digest, created_at, completed_at)
    SELECT scope_id, task_id, 1, task_id::text, '', '', 1, 'completed', image_sha256, now(), now()
    FROM tasks WHERE status = 'succeeded'
"""
GRANTS = """
    INSERT INTO operation_grants (scope_id, grant_id, operation, logical_request_key, fingerprint, reservation, task_id,
        job_id, status, created_at, updated_at)
    SELECT scope_id, task_id, 'analysis.agent', task_id::text, 'f', '', task_id, job_id, 'committed', now(), now()
    FROM tasks WHERE status = 'succeeded'
"""
TOUCHED = "SELECT coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"

Statistics = Callable[[psycopg.Connection[Any]], None]


def fill(connection: psycopg.Connection[Any], scope: Scope, status: str, count: int, first: int = 1) -> None:
    connection.execute(FILL, {"scope": scope, "status": status, "first": first, "last": first + count - 1})


def nothing_was_there(connection: psycopg.Connection[Any]) -> None:
    connection.execute("ANALYZE tasks")
    fill(connection, BIG, "succeeded", ROWS)
    fill(connection, BIG, "queued", ROWS, ROWS + 1)
    fill(connection, SMALL, "queued", BATCH)


def all_was_finished(connection: psycopg.Connection[Any]) -> None:
    fill(connection, BIG, "succeeded", ROWS)
    connection.execute("ANALYZE tasks")
    fill(connection, BIG, "queued", ROWS, ROWS + 1)
    fill(connection, SMALL, "queued", BATCH)


def all_was_queued(connection: psycopg.Connection[Any]) -> None:
    fill(connection, BIG, "queued", ROWS)
    connection.execute("ANALYZE tasks")
    connection.execute("UPDATE tasks SET status = 'succeeded', completed_at = now()")
    fill(connection, BIG, "queued", BATCH, ROWS + 1)
    fill(connection, SMALL, "queued", BATCH)


@pytest.fixture(params=[nothing_was_there, all_was_finished, all_was_queued], ids=lambda made: made.__name__)
def statistics(request: pytest.FixtureRequest) -> Statistics:
    made: Statistics = request.param
    return made


@pytest_asyncio.fixture
async def filled(direct: str, uow: PostgresUnitOfWork, statistics: Statistics) -> str:
    for scope in (BIG, SMALL):
        meme = make_meme(scope)
        async with uow.begin(scope) as tx:
            await tx.memes.add(meme)
            await tx.jobs.add([make_job(meme)])
    with psycopg.connect(direct) as connection:
        for table in ("memes", "tasks", "image_processing_jobs", "task_attempts", "operation_grants"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        connection.execute("ANALYZE memes, image_processing_jobs, task_attempts, operation_grants")
        statistics(connection)
        connection.execute(JOBS, {"scope": BIG, "rows": ROWS})
        connection.execute(ATTEMPTS)
        connection.execute(GRANTS)
    return direct


@asynccontextmanager
async def bounded(database: str, scope: Scope, plan: str) -> AsyncIterator[Session]:
    """A session whose statements, prepared as they are in service, are checked for what they read."""
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
        database, context=ADAPTERS, prepare_threshold=0, options=f"-c plan_cache_mode={plan}"
    )
    async with connection:
        yield Session(connection, scope)
        scans, fetched = await (await connection.execute(TOUCHED)).fetchone() or (None, None)
        assert scans == 0
        assert fetched is not None
        assert fetched <= READ_AT_MOST
        await connection.rollback()


async def a_batch_of_each_kind(tx: PostgresTransaction) -> None:
    """Everything the pipeline does with a batch, foreign keys included."""
    claimed = await claim_and_save(tx)
    attempts = [make_attempt(task) for task in claimed]
    await tx.attempts.add(attempts)
    assert len(await tx.attempts.last([task.task_id for task in claimed])) == BATCH
    assert len(await tx.attempts.save([(attempt.status, attempt) for attempt in attempts])) == BATCH
    memes = [make_meme(tx.scope) for _ in range(BATCH)]
    for meme in memes:
        await tx.memes.add(meme)
    jobs = [make_job(meme) for meme in memes]
    await tx.jobs.add(jobs)
    assert len(await tx.jobs.newest([meme.meme_id for meme in memes])) == BATCH
    assert len(await tx.jobs.active([meme.meme_id for meme in memes])) == BATCH
    versions = [PictureVersion.of(job) for job in jobs]
    assert len(await tx.jobs.newest_of(versions)) == BATCH
    assert await tx.tasks.last_agents(versions) == {}
    locked = list((await tx.jobs.lock([job.job_id for job in jobs])).values())
    tasks = [make_task(job, Stage.AGENT) for job in locked]
    await tx.tasks.add(tasks)
    assert len(await tx.tasks.busy([meme.meme_id for meme in memes])) == BATCH
    grants = [make_grant(task) for task in tasks]
    await tx.grants.add(grants)
    assert len(await tx.grants.by_key(Operation.ANALYSIS_AGENT, [g.logical_request_key for g in grants])) == BATCH
    await tx.grants.save(list((await tx.grants.lock([g.grant_id for g in grants])).values()))
    now = await tx.now()
    opened = [open_stage(job, Stage.VISUAL, task.task_id, now) for job, task in zip(locked, tasks, strict=True)]
    await tx.jobs.save(opened)
    await tx.products.stamps([meme.meme_id for meme in memes])


async def claim_and_save(tx: PostgresTransaction) -> Sequence[Task]:
    claimed = list(await tx.claims.claim(TaskType.VISUAL, BATCH, OWNER, MINUTE))
    assert len(claimed) == BATCH
    assert len(await tx.claims.lock([task.claim for task in claimed])) == BATCH
    await tx.claims.save(claimed)
    return claimed


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("scope", [BIG, SMALL])
async def test_a_batch_costs_a_batch(filled: str, scope: Scope, plan: str) -> None:
    async with bounded(filled, scope, plan) as session:
        await a_batch_of_each_kind(PostgresTransaction(session))


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_scopes_with_work_are_found_by_reading_one_row_each(filled: str, plan: str) -> None:
    around = {"after": "", "limit": 5}
    async with bounded(filled, BIG, plan) as session:
        assert await session.rows(_READY[TaskType.VISUAL], **around) == [(BIG,), (SMALL,)]
        assert await session.rows(_DUE, **around) == [(BIG,), (SMALL,)]
        assert await session.rows(_EXPIRED, types=Texts(IMAGE_TASK_TYPES), **around) == []
        assert await session.rows(_QUEUED[TaskType.VISUAL], limit=BATCH) == [(BATCH,)]


async def test_a_scope_is_not_hidden_behind_the_backlog_of_another(filled: str, engine: AsyncEngine) -> None:
    async with bounded(filled, SMALL, "auto") as session:
        rows = await session.rows(_READY[TaskType.VISUAL], after=BIG, limit=1)
        assert rows == [(SMALL,)]
