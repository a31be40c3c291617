"""History goes from a real database: what is left keeps every promise, and what is new takes its place."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import evolve
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.outcomes import BYSTANDER, S, Studio
from tests.integration.postgres.test_invariants_live import PICTURES, keep_busy, worked_on

from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.invariants import Report, check
from imgproc_adapters.postgres.scopes import each_scope
from imgproc_adapters.postgres.tables import METADATA
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_job, make_meme
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.waiting import until
from imgproc_domain.job import Job
from imgproc_domain.retention import Kind
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.prune import Pruning, prune
from imgproc_domain.usecases.submit import submit

LONG: Final = timedelta(days=100)
WANTED: Final = Pruning(vectors=True)
REVISIONS: Final = 1_000
MARGIN: Final = 1.5
"""Pages that random ids fill unevenly; without room made, all would be twice as large between two measurements."""

# revisions of one meme, finished long ago, with what an agent's and a visual task leave
HISTORY: Final = """
    CREATE TEMPORARY TABLE history ON COMMIT DROP AS
    SELECT gen_random_uuid() AS job, gen_random_uuid() AS seen, gen_random_uuid() AS asked, gen_random_uuid() AS permit,
        n AS revision, j.scope_id, j.meme_id, j.image_sha256, now() - interval '100 days' AS past
    FROM image_processing_jobs j, generate_series(%(first)s::int, %(last)s::int) n WHERE j.job_id = %(newest)s;
    INSERT INTO image_processing_jobs (scope_id, job_id, meme_id, revision, image_sha256, reverse_image_policy,
        config_fingerprint, status, created_at, updated_at, claim_generation, completed_at)
    SELECT scope_id, job, meme_id, revision, image_sha256, 'forbid', 'config', 'succeeded', past, past, 1, past
    FROM history;
    INSERT INTO tasks (scope_id, task_id, task_type, status, job_id, meme_id, image_sha256, config_fingerprint,
        reverse_image_policy, grant_id, claim_generation, available_at, failures, lease_losses, created_at, started_at,
        completed_at)
    SELECT scope_id, task, task_type, 'succeeded', job, meme_id, image_sha256, 'config', 'forbid', permission, 1, past,
        0, 0, past, past, past
    FROM history CROSS JOIN LATERAL (VALUES
        (seen, 'visual_embedding_generation', NULL), (asked, 'meme_context_generation', permit)
    ) made (task, task_type, permission);
    INSERT INTO image_processing_stages (scope_id, job_id, stage, status, reused, task_id)
    SELECT scope_id, job, stage, 'succeeded', false, task FROM history CROSS JOIN LATERAL (VALUES
        ('visual', seen), ('agent', asked), ('text_embedding', NULL)) made (stage, task);
    INSERT INTO operation_grants (scope_id, grant_id, operation, logical_request_key, fingerprint, reservation, task_id,
        job_id, status, created_at, updated_at)
    SELECT scope_id, permit, 'analysis.agent', job || ':agent', 'f', '', asked, job, 'committed', past, past
    FROM history;
    INSERT INTO task_attempts (scope_id, task_id, attempt_no, attempt_id, request_id, session_id, generation, status,
        input_digest, created_at, external_started_at, hard_deadline_at, completed_at)
    SELECT scope_id, task, 1, task::text, task::text, task::text, 1, 'completed', image_sha256, past, past, past, past
    FROM history CROSS JOIN LATERAL (VALUES (seen), (asked)) made (task);
"""
GROWING: Final = (
    "image_processing_jobs",
    "image_processing_stages",
    "tasks",
    "task_attempts",
    "operation_grants",
)
SIZES: Final = """
    SELECT relname, pg_relation_size(oid) FROM pg_class
    WHERE oid IN (SELECT unnest(%(tables)s::text[])::regclass)
       OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT unnest(%(tables)s::text[])::regclass))
"""


class Nothing:
    """No bytes are kept here."""

    async def remove_unless_kept_since(self, *_: object) -> bool:
        return True


def age(dsn: str, by: timedelta = LONG) -> None:
    """Let time pass for every row."""
    with psycopg.connect(dsn) as connection:
        for table in METADATA.sorted_tables:
            times = [
                column.name for column in table.c if "TIMESTAMP" in str(column.type) or "DATETIME" in str(column.type)
            ]
            if times and table.name != "processing_configuration":
                moved = ", ".join(f"{name} = {name} - %(by)s::interval" for name in times)
                connection.execute(f"UPDATE {table.name} SET {moved}".encode(), {"by": by})


async def pruned(deployment: Deployment, scope: Scope, wanted: Pruning = WANTED) -> Counter[Kind]:
    total: Counter[Kind] = Counter()
    async for counts in prune(deployment, Nothing(), scope, wanted):
        total.update(counts)
    return +total


async def broken(dsn: str, *, quiescent: bool = False) -> list[str]:
    return (await check(dsn, quiescent=quiescent)).lines()


async def test_everything_that_can_happen_leaves_what_keeps_every_promise(quiet: str) -> None:
    engine = open_engine(quiet, pool_size=3)
    studio = Studio(engine)
    assert not await pruned(studio.deployment, S)
    age(quiet)
    left = await broken(quiet, quiescent=True)
    assert [line for line in left if not line.startswith("rest")] == []
    with psycopg.connect(quiet) as connection:
        next_door = connection.execute("SELECT count(*) FROM tasks WHERE scope_id = %s", [BYSTANDER]).fetchone()
    expected = await pruned(studio.deployment, S, evolve(WANTED, dry_run=True))
    gone = await pruned(studio.deployment, S, evolve(WANTED, batch=3))
    assert {kind: count for kind, count in gone.items() if kind not in (Kind.TOMBSTONES, Kind.RESERVATIONS)} == {
        kind: count for kind, count in expected.items() if kind not in (Kind.TOMBSTONES, Kind.RESERVATIONS)
    }
    # pictures: deleted, released. jobs besides theirs: retried, asked and edited have superseded ones
    assert (gone[Kind.MEMES], gone[Kind.RESOLUTIONS]) == (2, 1)
    wanted = (Kind.JOBS, Kind.TASKS, Kind.ATTEMPTS, Kind.GRANTS, Kind.TOMBSTONES, Kind.RESERVATIONS)
    assert all(gone[kind] > 0 for kind in (*wanted, Kind.VISUAL_VECTORS, Kind.TEXT_VECTORS)), gone
    assert await broken(quiet, quiescent=True) == left
    assert not await pruned(studio.deployment, S)
    with psycopg.connect(quiet) as connection:
        there = connection.execute("SELECT count(*) FROM tasks WHERE scope_id = %s", [BYSTANDER]).fetchone()
    assert there == next_door
    await studio.upload("new")
    await engine.dispose()
    assert await broken(quiet) == []


async def test_what_is_under_way_stays(busy: str) -> None:
    age(busy)
    live = b"SELECT job_id FROM image_processing_jobs WHERE completed_at IS NULL ORDER BY job_id"
    held = b"SELECT task_id FROM lane_slots WHERE task_id IS NOT NULL ORDER BY task_id"
    engine = open_engine(busy, pool_size=3)
    with psycopg.connect(busy, autocommit=True) as connection:
        before = [connection.execute(query).fetchall() for query in (live, held)]
        assert all(before)
        assert await pruned(Studio(engine).deployment, S)
        assert [connection.execute(query).fetchall() for query in (live, held)] == before
    await engine.dispose()
    assert await broken(busy) == []


async def test_history_goes_beside_workers(database: str, pooled: bool, direct: str, tmp_path: Path) -> None:
    async def quiet() -> Report | None:
        report = await check(database, quiescent=True)
        assert {found.invariant for found in report.broken} <= {"rest"}, report.lines()
        return report if report.holds else None

    async with worked_on(database, tmp_path, pooled=pooled) as runtime:
        await keep_busy(runtime, A)
        await until(quiet)
        await again(runtime.deployment)
        await until(quiet)
        age(direct)
        busy = asyncio.gather(keep_busy(runtime, B), again(runtime.deployment))
        gone: Counter[Kind] = Counter()
        while not busy.done():
            gone.update(await pruned(runtime.deployment, A, evolve(WANTED, batch=2)))
        await busy
        await until(quiet)
    assert gone[Kind.JOBS] > 0
    assert gone[Kind.MEMES] > 0


async def again(deployment: Deployment) -> None:
    """Ask for every picture once more, one at a time."""
    async with deployment.uow.begin(A) as tx:
        page = await tx.memes.page(None, PICTURES)
    for meme in page.memes:
        await submit(deployment, A, [Submission(meme.meme_id, ReverseImagePolicy.FORBID, Mode.EXPLICIT)])


async def test_every_scope_is_found(engine: AsyncEngine, uow: PostgresUnitOfWork) -> None:
    scopes = [Scope(f"many-{n:03}") for n in range(201)]
    for scope in scopes:
        async with uow.begin(scope):
            pass
    assert [scope async for scope in each_scope(engine)] == scopes


@pytest.fixture
async def newest(uow: PostgresUnitOfWork) -> Job:
    """The newest job of a picture whose earlier revisions are to come."""
    meme = make_meme(A)
    job = make_job(meme, revision=1_000_000)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
    return job


def remember(connection: psycopg.Connection[Any], newest: Job, first: int) -> Mapping[str, int]:
    """Add as many revisions and return how large every table and index is then."""
    values = {"newest": str(newest.job_id), "first": first, "last": first + REVISIONS - 1}
    with connection.transaction():
        for statement in HISTORY.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode(), values)
    return dict(connection.execute(SIZES, {"tables": list(GROWING)}).fetchall())


async def test_what_went_leaves_its_place_to_what_comes(engine: AsyncEngine, direct: str, newest: Job) -> None:
    """A plain VACUUM, as autovacuum does it, is enough: nothing has to be rewritten or locked.

    An empty page of an index is free from the VACUUM after the one that found it empty: hence the second round.
    """
    deployment = Studio(engine).deployment
    with psycopg.connect(direct, autocommit=True) as connection:
        for table in GROWING:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        sizes = []
        for n in range(4):
            sizes.append(remember(connection, newest, n * REVISIONS + 1))
            gone = await pruned(deployment, A)
            assert gone[Kind.JOBS] >= REVISIONS - 1, "the last to ask stays until the next one has asked"
            connection.execute(f"VACUUM {', '.join(GROWING)}".encode())
    first, second, _, last = sizes
    assert not {name: (size, last[name]) for name, size in second.items() if last[name] > MARGIN * size}
    assert not {name: (first[name], last[name]) for name in GROWING if last[name] > MARGIN * first[name]}


async def test_without_pruning_everything_grows(direct: str, newest: Job) -> None:
    """What the test above would see if nothing made room."""
    with psycopg.connect(direct, autocommit=True) as connection:
        first = remember(connection, newest, 1)
        second = remember(connection, newest, REVISIONS + 1)
    assert all(second[name] > MARGIN * first[name] for name in GROWING)
