"""What a backfill and a switch read of a scope, however big it is and whatever the planner believes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
import pytest

from imgproc_adapters.postgres.arrays import ADAPTERS
from imgproc_adapters.postgres.session import Session
from imgproc_adapters.postgres.uow import PostgresTransaction
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope

BIG, SMALL = Scope("plans-big"), Scope("plans-small")
SPACE: Final = VectorSpace("text", 4)
ROWS: Final = 4_000
MANY: Final = 20_000
FEW: Final = 40
WINDOW: Final = 50
PROBES: Final = 8
"""Rows that are read for a meme: itself, its context and its vector, some of them by more than one statement."""

# every second meme is findable, all the memes and the history know their words
FILL: Final = """
    WITH made AS (
        INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
            storage_key, created_at, updated_at)
        SELECT %(scope)s, gen_random_uuid(), '', md5(n::text) || md5(n::text), '', 0, 0, 0, 1, '', now(), now()
        FROM generate_series(1, %(rows)s::int) n
        RETURNING scope_id, meme_id, image_sha256
    ), described AS (
        INSERT INTO meme_contexts (scope_id, meme_id, status, revision, description, metadata_hash, updated_at)
        SELECT scope_id, meme_id, 'ready', 1, '{"title": "cat"}', image_sha256, now() FROM made
    )
    INSERT INTO search_vectors (scope_id, space_id, meme_id, image_sha256, metadata_hash, dimension, embedding, words)
    SELECT scope_id, 'text', meme_id, image_sha256, image_sha256, 4, '[1,0,0,0]', 'cat:1'
    FROM made WHERE get_byte(decode(left(image_sha256, 2), 'hex'), 0) %% 2 = 0
"""
TOUCHED: Final = "SELECT coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"
TABLES: Final = ("memes", "meme_contexts", "search_vectors")


@pytest.fixture(params=["empty", "true"])
def filled(direct: str, request: pytest.FixtureRequest) -> str:
    """A database whose statistics are of when it was empty, or true."""
    with psycopg.connect(direct) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            connection.execute(f"ANALYZE {table}".encode())
        for scope, rows in ((BIG, ROWS), (SMALL, FEW)):
            connection.execute("INSERT INTO scopes VALUES (%s, now())", [scope])
            connection.execute(FILL, {"scope": scope, "rows": rows})
        if request.param == "true":
            for table in TABLES:
                connection.execute(f"ANALYZE {table}".encode())
    return direct


@asynccontextmanager
async def bounded(database: str, scope: Scope, plan: str, rows: int) -> AsyncIterator[PostgresTransaction]:
    """A transaction whose statements are checked for what they read: a few rows a meme, and no table from its start."""
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
        database, context=ADAPTERS, prepare_threshold=0, options=f"-c plan_cache_mode={plan}"
    )
    async with connection:
        yield PostgresTransaction(Session(connection, scope))
        scans, fetched = await (await connection.execute(TOUCHED)).fetchone() or (None, None)
        assert scans == 0
        assert fetched is not None
        assert fetched <= PROBES * rows
        await connection.rollback()


PLANS = pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])


@PLANS
@pytest.mark.parametrize("scope", [BIG, SMALL])
async def test_a_window_costs_a_window(filled: str, plan: str, scope: Scope) -> None:
    async with bounded(filled, scope, plan, WINDOW) as tx:
        found = await tx.migration.missing(SPACE, None, WINDOW)
        assert found.seen == min(WINDOW, FEW if scope == SMALL else ROWS)
        assert 0 < len(found.meme_ids) < found.seen


@PLANS
async def test_what_is_lacking_costs_what_is_asked_for(filled: str, plan: str) -> None:
    async with bounded(filled, BIG, plan, 2 * WINDOW) as tx:
        found = await tx.migration.missing(SPACE, None, WINDOW)
        assert sorted(await tx.migration.lacking(SPACE, found.meme_ids)) == list(found.meme_ids)


@PLANS
async def test_windows_together_cost_the_scope_once(filled: str, plan: str) -> None:
    after: MemeId | None = None
    missing = 0
    async with bounded(filled, BIG, plan, ROWS) as tx:
        while True:
            found = await tx.migration.missing(SPACE, after, WINDOW)
            missing += len(found.meme_ids)
            if (after := found.after) is None:
                break
    async with bounded(filled, BIG, plan, ROWS) as tx:
        assert missing == await tx.migration.count_missing(SPACE)


@pytest.mark.parametrize("known", [False, True], ids=["statistics of when it was empty", "true statistics"])
async def test_what_is_missing_is_counted_side_by_side_however_many_there_are(direct: str, known: bool) -> None:
    with psycopg.connect(direct) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            connection.execute(f"ANALYZE {table}".encode())
        connection.execute("INSERT INTO scopes VALUES (%s, now())", [BIG])
        connection.execute(FILL, {"scope": BIG, "rows": MANY})
        ((findable,),) = connection.execute("SELECT count(*) FROM search_vectors").fetchall()
        if known:
            for table in TABLES:
                connection.execute(f"ANALYZE {table}".encode())
    for plan in ("force_custom_plan", "force_generic_plan"):
        async with told(direct, BIG, plan) as (tx, plans):
            assert await tx.migration.count_missing(SPACE) == MANY - findable
            (first,) = await tx.migration.first_missing(SPACE, 1)
            assert await tx.migration.lacking(SPACE, [first]) == {first}
        counting, finding, probing = (plan for plan in plans if "memes" in plan)
        for read in (counting, finding):
            assert "Merge" in read or "Hash" in read, read
            assert "Nested Loop" not in read, read
        assert "Nested Loop" in probing, "one of a scope is looked for by its keys"


@asynccontextmanager
async def told(database: str, scope: Scope, plan: str) -> AsyncIterator[tuple[PostgresTransaction, list[str]]]:
    """A transaction, and the plans by which the server ran its statements."""
    # comparing each with each would take minutes
    options = (
        f"-c plan_cache_mode={plan} -c session_preload_libraries=auto_explain -c client_min_messages=log"
        " -c statement_timeout=60s"
    )
    connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
        database, context=ADAPTERS, prepare_threshold=0, options=options
    )
    plans: list[str] = []
    async with connection:
        await connection.execute("SET auto_explain.log_min_duration = 0")
        connection.add_notice_handler(lambda said: plans.append(said.message_primary or ""))
        yield PostgresTransaction(Session(connection, scope)), plans
        await connection.rollback()
