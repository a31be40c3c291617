"""The nearest of many: compared one by one, or by an index of the scope's own - and never a short or a wrong page."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.conftest import cloned

from imgproc_adapters.postgres import nearest
from imgproc_adapters.postgres.arrays import Half
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.nearest import AHEAD, REMEMBERED, Nearest, by_index, index_name
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.search_indexes import Building, Candidate, open_builder
from imgproc_adapters.postgres.session import Session, Sql
from imgproc_adapters.testing.clusters import Clusters, Matrix, make_findable
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

SPACE: Final = VectorSpace("near-64", 64)
LONG: Final = VectorSpace("near-1200", 1_200)
BIG, SMALL, OTHERS = Scope("near-big"), Scope("near-small"), [Scope(f"near-other-{n}") for n in range(4)]
MANY: Final = 5_000
FEW: Final = 20
QUERIES: Final = 25
INDEX: Final = index_name(BIG, SPACE.id, SPACE.dimension)

TYPES: Final = {
    "scope": "text",
    "space": "text",
    "dimension": "int",
    "limit": "bigint",
    "query": "halfvec",
    "seen": "uuid[]",
}
"""The parameters of a search."""

CUT: Final = "UPDATE search_vectors SET dimension = 63, embedding = subvector(embedding, 1, 63)"
COVERING: Final = "Index Only Scan using ix_search_vectors_near"


def clusters(seed: int = 1) -> Clusters:
    """Return what is drawn from: always around the same directions, by ``seed`` other vectors."""
    found = Clusters(SPACE.dimension, centres=40)
    found.vectors(seed)
    return found


def vectors_of(rows: Matrix) -> list[Vector]:
    return [Vector.unit(row.tolist()) for row in rows]


@pytest.fixture(scope="session")
def filled_template(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """A database in which one scope of several has many vectors, and an index of its own."""
    name = f"near_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_template} STRATEGY file_copy".encode())
        dsn = make_conninfo(postgres_server, dbname=name)
        draw = clusters()
        for scope in OTHERS:
            make_findable(dsn, scope, SPACE, draw.vectors(500))
        make_findable(dsn, SMALL, SPACE, draw.vectors(FEW))
        make_findable(dsn, BIG, SPACE, draw.vectors(MANY))
        with psycopg.connect(dsn, autocommit=True) as inside:
            inside.execute("VACUUM ANALYZE search_vectors")
        asyncio.run(build(dsn, BIG))
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def build(dsn: str, scope: Scope, space: VectorSpace = SPACE) -> None:
    async with open_builder(dsn) as builder:
        await builder.build(Candidate(scope, space, MANY, used=True), Building(workers=0))


@pytest.fixture
def direct_filled(postgres_server: str, filled_template: str) -> Iterator[str]:
    yield from cloned(postgres_server, filled_template)


@pytest_asyncio.fixture
async def engine(direct_filled: str, pooled: bool, request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    dsn = direct_filled
    if pooled:
        name = str(conninfo_to_dict(dsn)["dbname"])
        dsn = make_conninfo(request.getfixturevalue("pooler_server"), dbname=name)
    engine = open_engine(dsn, pooler=pooled)
    yield engine
    await engine.dispose()


@asynccontextmanager
async def reading(engine: AsyncEngine, scope: Scope) -> AsyncIterator[Session]:
    async with checked_out(engine) as connection:
        yield Session(connection, scope)
        await connection.rollback()


async def find(session: Session, vector: Vector, limit: int, space: VectorSpace = SPACE) -> list[tuple[float, MemeId]]:
    return [(n.distance, n.meme_id) for n in await Nearest().find(session, space.id, vector, limit)]


async def exact(session: Session, vector: Vector, limit: int) -> list[tuple[float, MemeId]]:
    """Return the nearest by the plainest means: all of the scope's distances, sorted here."""
    rows = await session.rows(
        Sql(b"SELECT 1 + (embedding <#> %(query)s), meme_id FROM search_vectors WHERE scope_id = %(scope)s"),
        query=Half.of(vector),
    )
    return sorted((max(0.0, distance), meme_id) for distance, meme_id in rows)[:limit]


async def scans(session: Session, index: str) -> int:
    """Return how often this transaction has looked into an index."""
    ((count,),) = await session.rows(Sql(b"SELECT pg_stat_get_xact_numscans(to_regclass(%(index)s))"), index=index)
    return int(count)


async def plan(connection: AsyncConnection[Any], sql: Sql, scope: Scope, limit: int = 10) -> str:
    """Return the plan of a search without the query's components."""
    values = {"scope": scope, "space": SPACE.id, "dimension": SPACE.dimension, "limit": limit, "seen": []}
    values["query"] = Half.of(Vector.unit([1.0] * SPACE.dimension))
    rows = await (await connection.execute(b"EXPLAIN " + sql, values)).fetchall()
    return re.sub(r"'\[.*?\]'", "q", "\n".join(row[0] for row in rows))


async def plan_for_any_scope(connection: AsyncConnection[Any], sql: Sql) -> str:
    """Return the plan that a statement has when it is made without knowing its values."""
    names = [name for name in TYPES if f"%({name})s" in sql.decode()]
    text = sql.decode()
    for number, name in enumerate(names, start=1):
        text = text.replace(f"%({name})s", f"${number}")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE any_scope ({', '.join(TYPES[name] for name in names)}) AS {text}".encode())
    given = ", ".join("NULL" for _ in names)
    rows = await (await connection.execute(f"EXPLAIN EXECUTE any_scope ({given})".encode())).fetchall()
    await connection.execute("DEALLOCATE any_scope")
    await connection.execute("RESET plan_cache_mode")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("sql", [nearest._NEAREST_SLIM, nearest._FURTHER_SLIM])
async def test_comparing_reads_the_covering_index_alone_and_never_an_approximate_one(
    direct_filled: str, sql: Sql
) -> None:
    engine = open_engine(direct_filled)
    async with checked_out(engine, autocommit=True) as connection:
        for scope in (BIG, SMALL):
            assert COVERING in (found := await plan(connection, sql, scope))
            assert INDEX not in found
        assert COVERING in (found := await plan_for_any_scope(connection, sql))
        assert "hnsw" not in found
    await engine.dispose()


@pytest.mark.parametrize("sql", [nearest._NEAREST_WIDE, nearest._FURTHER_WIDE])
async def test_vectors_that_no_index_entry_holds_are_found_by_their_key(direct_filled: str, sql: Sql) -> None:
    engine = open_engine(direct_filled)
    async with checked_out(engine, autocommit=True) as connection:
        for found in (await plan(connection, sql, SMALL), await plan_for_any_scope(connection, sql)):
            assert "pk_search_vectors" in found
            assert "hnsw" not in found
    await engine.dispose()


async def test_nothing_but_the_index_is_read_even_if_comparing_looks_cheaper(direct_filled: str) -> None:
    engine = open_engine(direct_filled)
    async with checked_out(engine) as connection:
        assert INDEX not in await plan(connection, by_index(SPACE.dimension), BIG, 228)
        await connection.execute(nearest._PREPARE)
        assert f"using {INDEX}" in await plan(connection, by_index(SPACE.dimension), BIG, 228)
        await connection.rollback()
    await engine.dispose()


async def test_the_index_finds_what_comparing_finds(engine: AsyncEngine) -> None:
    async with reading(engine, BIG) as session:
        for limit in (10, 101, AHEAD):
            shares = []
            for vector in vectors_of(clusters(2).vectors(QUERIES)):
                found, true = await find(session, vector, limit), await exact(session, vector, limit)
                assert found == sorted(found)
                assert len(set(found)) == limit
                shares.append(len(set(found) & set(true)) / limit)
            assert np.mean(shares) >= 0.98
        assert await scans(session, INDEX) == 3 * QUERIES


async def test_a_scope_without_an_index_is_compared_and_a_small_one_beside_a_large_one_gets_all_it_has(
    engine: AsyncEngine,
) -> None:
    async with reading(engine, SMALL) as session:
        for vector in vectors_of(clusters(3).vectors(5)):
            assert await find(session, vector, 50) == await exact(session, vector, 50)
            assert len(await find(session, vector, 50)) == FEW
        assert await scans(session, INDEX) == 0
        assert await scans(session, "ix_search_vectors_near") > 0


async def test_what_was_changed_to_search_by_index_is_as_before_behind_it(engine: AsyncEngine) -> None:
    planning = Sql(b"SELECT current_setting('plan_cache_mode'), current_setting('enable_sort')")
    searching = Sql(b"SELECT current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan')")
    (vector,) = vectors_of(clusters(4).vectors(1))
    async with checked_out(engine) as connection:
        session = Session(connection, BIG)
        before = await session.rows(planning)
        await find(session, vector, 10)
        assert await scans(session, INDEX) == 1
        assert await session.rows(planning) == before
        assert await session.rows(searching) != [("40", "off")]
        # what is undone by a rollback alone would stay on the connection
        await connection.commit()
        assert await session.rows(searching) == [("40", "off")]
        await connection.rollback()


async def test_pages_fit_together_however_deep_they_are(engine: AsyncEngine) -> None:
    async with reading(engine, BIG) as session:
        for vector in vectors_of(clusters(5).vectors(4)):
            pages = [await find(session, vector, limit) for limit in (10, 101, AHEAD, AHEAD + 1, 700, MANY + 1)]
            for page, longer in pairwise(pages):
                assert longer[: len(page)] == page
            whole = pages[-1]
            assert len(whole) == len(set(whole)) == MANY
            # what the index has missed comes right behind what it has found
            behind = whole[AHEAD:]
            assert behind == sorted(behind)


@pytest.mark.parametrize("rule", ["DELETE FROM search_vectors", CUT])
async def test_a_page_is_full_where_most_of_the_nearest_are_gone(
    engine: AsyncEngine, direct_filled: str, rule: str
) -> None:
    (vector,) = vectors_of(clusters(6).vectors(1))
    async with reading(engine, BIG) as session:
        gone = [meme_id for _, meme_id in await exact(session, vector, MANY - 150)]
    with psycopg.connect(direct_filled) as connection:
        connection.execute(f"{rule} WHERE meme_id = ANY (%s)".encode(), [gone])
    async with reading(engine, BIG) as session:
        found = await find(session, vector, 100)
        assert len(found) == 100
        assert not {meme_id for _, meme_id in found} & set(gone)
        assert len(await find(session, vector, MANY)) == 150


async def test_what_was_deleted_nearby_is_passed_over_by_the_index_itself(
    engine: AsyncEngine, direct_filled: str
) -> None:
    (vector,) = vectors_of(clusters(11).vectors(1))
    async with reading(engine, BIG) as session:
        gone = [meme_id for _, meme_id in await exact(session, vector, 380)]
    with psycopg.connect(direct_filled) as connection:
        connection.execute("DELETE FROM search_vectors WHERE meme_id = ANY (%s)", [gone])
    async with reading(engine, BIG) as session:
        found = await find(session, vector, 100)
        assert await scans(session, INDEX) > 0
        assert await scans(session, "ix_search_vectors_near") == 0
        assert len(set(found) & set(await exact(session, vector, 100))) >= 95


@pytest.mark.parametrize(("count", "by_index"), [(12, True), (300, False)])
async def test_equals_stand_in_the_order_of_their_ids_however_many_there_are(
    engine: AsyncEngine, direct_filled: str, count: int, by_index: bool
) -> None:
    same = clusters(7).vectors(1)
    memes = make_findable(direct_filled, BIG, SPACE, np.repeat(same, count, axis=0))
    (vector,) = vectors_of(same)
    async with reading(engine, BIG) as session:
        for limit in (1, 10, 101, 250):
            found = await find(session, vector, limit)
            assert [meme_id for _, meme_id in found[:count]] == sorted(memes)[:limit]
        assert (await scans(session, "ix_search_vectors_near") == 1) is by_index


async def test_vectors_of_another_size_in_a_space_harm_nobody(engine: AsyncEngine, direct_filled: str) -> None:
    make_findable(direct_filled, BIG, VectorSpace(SPACE.id, 32), Clusters(32).vectors(3))
    make_findable(direct_filled, SMALL, VectorSpace(SPACE.id, 1_300), Clusters(1_300).vectors(3))
    (vector,) = vectors_of(clusters(8).vectors(1))
    for scope, count in ((BIG, MANY), (SMALL, FEW)):
        async with reading(engine, scope) as session:
            assert len(await find(session, vector, MANY + 10)) == count


async def test_long_vectors_are_found_without_and_with_an_index(engine: AsyncEngine, direct_filled: str) -> None:
    rows = Clusters(LONG.dimension).vectors(250)
    make_findable(direct_filled, SMALL, LONG, rows)
    vector = vectors_of(rows)[17]
    async with reading(engine, SMALL) as session:
        without = await find(session, vector, 20, LONG)
    assert len(without) == 20
    assert without[0][0] == pytest.approx(0.0, abs=5e-3)
    await build(direct_filled, SMALL, LONG)
    async with reading(engine, SMALL) as session:
        assert await find(session, vector, 20, LONG) == without
        assert await scans(session, index_name(SMALL, LONG.id, LONG.dimension)) == 1


async def test_an_index_that_is_gone_or_new_is_noticed_soon_and_never_makes_a_page_wrong(
    engine: AsyncEngine, direct_filled: str
) -> None:
    now = 0.0
    known: Lately[str, bool] = Lately(lambda: now)
    finder = Nearest(known)
    (vector,) = vectors_of(clusters(9).vectors(1))

    async def found() -> Sequence[MemeId]:
        async with reading(engine, BIG) as session:
            return [n.meme_id for n in await finder.find(session, SPACE.id, vector, 10)]

    async with reading(engine, BIG) as session:
        true = [meme_id for _, meme_id in await exact(session, vector, 10)]
    await found()
    with psycopg.connect(direct_filled, autocommit=True) as connection:
        connection.execute(f"DROP INDEX {INDEX}".encode())
    assert await found() == true
    assert known.get(INDEX) is True
    now += REMEMBERED
    assert await found() == true
    assert known.get(INDEX) is False
    await build(direct_filled, BIG)
    now += REMEMBERED
    async with reading(engine, BIG) as session:
        assert len(await finder.find(session, SPACE.id, vector, 10)) == 10
        assert await scans(session, INDEX) == 1


async def test_whether_there_is_an_index_is_not_asked_at_every_search(engine: AsyncEngine) -> None:
    finder = Nearest()
    (vector,) = vectors_of(clusters(10).vectors(1))

    class Counting(Session):
        asked = 0

        async def rows(self, sql: Sql, **params: object) -> Sequence[tuple[Any, ...]]:
            Counting.asked += sql == nearest._IS_THERE
            return await super().rows(sql, **params)

    for scope in (SMALL, BIG, SMALL, BIG):
        async with checked_out(engine) as connection:
            await finder.find(Counting(connection, scope), SPACE.id, vector, 10)
            await connection.rollback()
    assert Counting.asked == 2
