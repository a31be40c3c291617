"""Asking what looks alike reads a scope's vectors once, and of its memes only those that may be named."""

from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest
import pytest_asyncio
from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Row, Session
from imgproc_adapters.postgres.similar import PostgresSimilar
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

BIG, SMALL = Scope("similar-big"), Scope("similar-small")
ROWS, FEW, SPACE = 4_000, 20, "space"

FILL = """
    WITH made AS (
        INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
            storage_key, created_at, updated_at)
        SELECT %(scope)s, gen_random_uuid(), '', md5(n::text) || md5(n::text), '', 0, 0, 0, 1, '', now(), now()
        FROM generate_series(1, %(rows)s::int) n
        RETURNING scope_id, meme_id, image_sha256
    )
    INSERT INTO visual_embeddings (scope_id, meme_id, image_sha256, space_id, dimension, embedding, created_at)
    SELECT scope_id, meme_id, image_sha256, 'space', 4,
        l2_normalize(ARRAY[1, random(), random(), random()]::real[]::halfvec), now()
    FROM made
"""
TOUCHED = """
    SELECT relname, seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables
    WHERE relname IN ('memes', 'visual_embeddings')
"""


@pytest.fixture(params=[True, False], ids=["before it was filled", "after it was filled"])
def filled(direct: str, request: pytest.FixtureRequest) -> str:
    """A big and a small scope, with statistics from then."""
    with psycopg.connect(direct) as connection:
        for table in ("memes", "visual_embeddings"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        if request.param:
            connection.execute("ANALYZE memes, visual_embeddings")
        for scope, rows in ((BIG, ROWS), (SMALL, FEW)):
            connection.execute("INSERT INTO scopes VALUES (%s, now())", [scope])
            connection.execute(FILL, {"scope": scope, "rows": rows})
        if not request.param:
            connection.execute("ANALYZE memes, visual_embeddings")
    return direct


@pytest_asyncio.fixture
async def connection(filled: str, engine: AsyncEngine) -> AsyncIterator[AsyncConnection[Row]]:
    assert filled
    async with checked_out(engine) as found:
        yield found
        await found.rollback()


async def _touched(connection: AsyncConnection[Row]) -> dict[str, tuple[int, int]]:
    rows = await (await connection.execute(TOUCHED)).fetchall()
    return {table: (scans, fetched) for table, scans, fetched in rows}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(("scope", "rows"), [(BIG, ROWS), (SMALL, FEW)])
async def test_a_question_reads_its_scope_once_and_few_memes(
    connection: AsyncConnection[Row], mode: str, scope: Scope, rows: int
) -> None:
    await connection.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
    before = await _touched(connection)
    found = await PostgresSimilar(Session(connection, scope)).nearest(SPACE, Vector.unit([1, 0, 0, 0]), 10)
    after = await _touched(connection)
    assert len(found) == 10
    read = {table: after[table][1] - before.get(table, (0, 0))[1] for table in after}
    assert read["visual_embeddings"] <= rows
    assert read["memes"] == 10
    assert all(after[table][0] == before.get(table, (0, 0))[0] for table in after), "no table is read as a whole"


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("limit", [10, 100])
async def test_a_scope_of_which_most_was_deleted_is_read_once_too(
    connection: AsyncConnection[Row], mode: str, limit: int
) -> None:
    await connection.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
    query = Vector.unit([1, 0, 0, 0])
    everything = await PostgresSimilar(Session(connection, BIG)).nearest(SPACE, query, ROWS)
    stay = [n.meme_id for n in everything[19::20]]
    await connection.execute(
        "UPDATE memes SET deleted_at = now() WHERE scope_id = %s AND NOT meme_id = ANY (%s)", [BIG, stay]
    )
    before = await _touched(connection)
    found = await PostgresSimilar(Session(connection, BIG)).nearest(SPACE, query, limit)
    after = await _touched(connection)
    assert [n.meme_id for n in found] == stay[:limit]
    assert after["visual_embeddings"][1] - before["visual_embeddings"][1] <= ROWS
    assert after["memes"][1] - before["memes"][1] <= 20 * limit


async def test_an_approximate_index_never_answers(direct: str, connection: AsyncConnection[Row]) -> None:
    query = Vector.unit([1, 0.5, 0.5, 0.5])
    exact = await _ids(connection, query)
    with psycopg.connect(direct, autocommit=True) as other:
        other.execute(
            "CREATE INDEX global_hnsw ON visual_embeddings USING hnsw ((embedding::halfvec(4)) halfvec_ip_ops)"
        )
        other.execute("ANALYZE visual_embeddings")
    await connection.execute("SET LOCAL enable_sort = off")
    assert await _ids(connection, query) == exact
    assert len(exact) == 100


async def _ids(connection: AsyncConnection[Row], query: Vector) -> Sequence[MemeId]:
    found = await PostgresSimilar(Session(connection, BIG)).nearest(SPACE, query, 100)
    assert [n.distance for n in found] == sorted(n.distance for n in found)
    return [n.meme_id for n in found]
