"""Indexes of scopes' own are built beside everybody else, survive interruption, and go when they are of no use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import pytest_asyncio
from attrs import frozen
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.cli.terminal import Imgproc, Result, environment
from tests.integration.postgres.partitioned import create_partitioned

from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.nearest import Nearest, index_name
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.search_indexes import (
    Building,
    Candidate,
    Index,
    candidates,
    indexes,
    open_builder,
    progress,
)
from imgproc_adapters.postgres.session import Session
from imgproc_adapters.testing.clusters import Clusters, make_findable
from imgproc_adapters.testing.waiting import until
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

SCOPE: Final = Scope("indexed")
ANOTHER: Final = Scope("it's another: one")
SPACE: Final = VectorSpace("index-16", 16)
FORMER: Final = VectorSpace("former-8", 8)
COUNT: Final = 600
NAME: Final = index_name(SCOPE, SPACE.id, SPACE.dimension)
CANDIDATE: Final = Candidate(SCOPE, SPACE, COUNT, used=True)
HOW: Final = Building(memory=64, workers=0)


@pytest.fixture
def filled(direct: str) -> str:
    """The server's own address of a database with a scope that is large enough for an index."""
    make_findable(direct, SCOPE, SPACE, Clusters(SPACE.dimension).vectors(COUNT))
    return direct


@pytest_asyncio.fixture
async def engine(filled: str) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(filled)
    yield engine
    await engine.dispose()


async def build(dsn: str) -> None:
    async with open_builder(dsn) as builder:
        await builder.build(CANDIDATE, HOW)


async def state(engine: AsyncEngine) -> dict[str, bool]:
    return {index.name: index.ready for index in await indexes(engine)}


@asynccontextmanager
async def stuck(dsn: str, engine: AsyncEngine) -> AsyncIterator["asyncio.Task[None]"]:
    """A build that waits, for the length of the block, for somebody who writes to the table."""
    with psycopg.connect(dsn) as writer:
        writer.execute("UPDATE search_vectors SET dimension = dimension WHERE scope_id = %s", [SCOPE])
        task = asyncio.create_task(build(dsn))
        await until(partial(_waits, engine))
        yield task
        writer.rollback()


async def _waits(engine: AsyncEngine) -> bool | None:
    found = await progress(engine, NAME)
    return True if found is not None and found.phase.startswith("waiting") else None


def test_an_index_is_found_by_its_scope_space_and_dimension_alone() -> None:
    names = {index_name(scope, space, size) for scope in (SCOPE, ANOTHER) for space in "ab" for size in (1, 2)}
    assert len(names) == 8
    assert all(len(name.encode()) < 64 for name in names)


async def test_an_index_is_built_once_and_dropped(filled: str, engine: AsyncEngine) -> None:
    await build(filled)
    (first,) = await indexes(engine)
    assert first == Index(NAME, ready=True, size=first.size)
    assert first.size > COUNT * 2 * SPACE.dimension
    with psycopg.connect(filled) as connection:
        number = connection.execute("SELECT to_regclass(%s)::oid", [NAME]).fetchall()
        await build(filled)
        assert connection.execute("SELECT to_regclass(%s)::oid", [NAME]).fetchall() == number
    async with open_builder(filled) as builder:
        await builder.drop(NAME)
        await builder.drop(NAME)
    assert await indexes(engine) == []


async def test_a_scope_whose_name_needs_quoting_has_an_index_of_its_own_too(filled: str, engine: AsyncEngine) -> None:
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("ALTER TABLE scopes DROP CONSTRAINT ck_scopes_scope_id")
    make_findable(filled, ANOTHER, SPACE, Clusters(SPACE.dimension).vectors(300))
    async with open_builder(filled) as builder:
        await builder.build(Candidate(ANOTHER, SPACE, 300, used=True), HOW)
    assert await is_used(engine, ANOTHER)
    assert not await is_used(engine, SCOPE)


async def is_used(engine: AsyncEngine, scope: Scope) -> bool:
    name = index_name(scope, SPACE.id, SPACE.dimension)
    known: Lately[str, bool] = Lately()
    async with checked_out(engine) as connection:
        await Nearest(known).find(Session(connection, scope), SPACE.id, Vector.unit([1.0] * SPACE.dimension), 10)
        rows = await (await connection.execute("SELECT pg_stat_get_xact_numscans(to_regclass(%s))", [name])).fetchall()
        await connection.rollback()
    assert known.get(name) is (rows == [(1,)])
    return rows == [(1,)]


async def test_a_build_that_the_server_ended_leaves_what_no_search_uses_and_the_next_build_replaces(
    filled: str, engine: AsyncEngine
) -> None:
    async with stuck(filled, engine) as task:
        with psycopg.connect(filled, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database()"
            )
        with pytest.raises(DatabaseUnavailable):
            await task
    assert await state(engine) == {NAME: False}
    assert not await is_used(engine, SCOPE)
    await build(filled)
    assert await state(engine) == {NAME: True}
    assert await is_used(engine, SCOPE)


async def test_a_build_that_is_cancelled_leaves_nothing(filled: str, engine: AsyncEngine) -> None:
    async with stuck(filled, engine) as task:
        task.cancel()
        # dropping what there is waits for the writer, too
        await until(partial(_sees, engine, "active", "DROP INDEX CONCURRENTLY%"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await state(engine) == {}


async def _sees(engine: AsyncEngine, state: str, query: str) -> bool | None:
    """Return whether a process of this database is in a state with a query like this one, its last; None if not."""
    async with checked_out(engine, autocommit=True) as connection:
        rows = await (
            await connection.execute(
                "SELECT FROM pg_stat_activity WHERE state = %s AND query LIKE %s AND datname = current_database()",
                [state, query],
            )
        ).fetchall()
    return True if rows else None


async def test_a_second_process_waits_for_the_first_and_finds_its_work_done(filled: str, engine: AsyncEngine) -> None:
    async with stuck(filled, engine) as first:
        second = asyncio.create_task(build(filled))
        await until(partial(_sees, engine, "idle", "%pg_try_advisory_lock%"))
        assert not second.done()
    await asyncio.gather(first, second)
    assert await state(engine) == {NAME: True}


async def test_writers_go_on_while_an_index_is_built(filled: str, engine: AsyncEngine) -> None:
    async with stuck(filled, engine) as task:
        make_findable(filled, Scope("beside"), SPACE, Clusters(SPACE.dimension).vectors(10))
        made = make_findable(filled, SCOPE, SPACE, Clusters(SPACE.dimension, seed=5).vectors(10))
    await task
    async with checked_out(engine) as connection:
        vector = Vector.unit([1.0] * SPACE.dimension)
        found = await Nearest().find(Session(connection, SCOPE), SPACE.id, vector, COUNT + 10)
        await connection.rollback()
    assert {n.meme_id for n in found} >= set(made)


async def test_what_is_counted_is_the_scopes_own_space_by_space(filled: str, engine: AsyncEngine) -> None:
    make_findable(filled, SCOPE, FORMER, Clusters(FORMER.dimension).vectors(30))
    make_findable(filled, Scope("beside"), SPACE, Clusters(SPACE.dimension).vectors(10))
    await build(filled)
    there = await indexes(engine)
    found = {each.space: each for each in await candidates(engine, SCOPE, FORMER, there)}
    assert {space: (each.vectors, each.used) for space, each in found.items()} == {
        SPACE: (COUNT, True),
        FORMER: (30, False),
    }
    assert (found[SPACE].index, found[FORMER].index) == (there[0], None)
    with psycopg.connect(filled) as connection:
        connection.execute(
            "UPDATE search_migrations SET filling_space_id = %s, filling_dimension = 8 WHERE scope_id = %s",
            [FORMER.id, SCOPE],
        )
    assert all(each.used for each in await candidates(engine, SCOPE, SPACE, there))


async def test_of_a_table_cut_by_scope_the_scopes_own_part_gets_the_index(direct_empty: str) -> None:
    with psycopg.connect(direct_empty, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS btree_gin")
    create_partitioned(direct_empty)
    make_findable(direct_empty, SCOPE, SPACE, Clusters(SPACE.dimension).vectors(COUNT))
    engine = open_engine(direct_empty)
    await build(direct_empty)
    assert await state(engine) == {NAME: True}
    assert await is_used(engine, SCOPE)
    await engine.dispose()


@frozen
class Operator:
    imgproc: Imgproc
    dsn: str

    def types(self, *words: str, **settings: str) -> Result:
        return self.imgproc.run("index", *words, cwd=None, **settings)

    def document(self, *words: str) -> tuple[int, Any]:
        done = self.imgproc.json("index", *words)
        return done.code, done.document

    def did(self, *words: str) -> dict[str | None, tuple[str, bool]]:
        """Return by scope what was done, and whether there is an index now; where nothing is to be done, nothing."""
        code, found = self.document(*words)
        assert code == 0
        lines = [each for each in found["indexes"] if each["todo"] != "nothing" or each["index"]]
        return {each["scope"]: (each["todo"], bool(each["index"] and each["index"]["ready"])) for each in lines}


@pytest.fixture
def operator(tmp_path: Path, filled: str) -> Operator:
    make_findable(filled, Scope("small"), SPACE, Clusters(SPACE.dimension).vectors(50))
    return Operator(Imgproc(tmp_path, environment(IMGPROC_DSN=filled)), filled)


def test_large_scopes_get_an_index_and_lose_it_when_they_have_shrunk(operator: Operator) -> None:
    above = ("--above", str(COUNT - 1))
    assert operator.did(*above, "--dry-run") == {SCOPE: ("build", False)}
    assert operator.did(*above) == {SCOPE: ("build", True)}
    with psycopg.connect(operator.dsn) as connection:
        connection.execute("DELETE FROM search_vectors WHERE scope_id = %s", [SCOPE])
    assert operator.did("--scope", "small", "--above", "10") == {"small": ("build", True)}
    # of the one nothing is left that could be counted, the other one is under half of 20,000
    assert operator.did() == {"small": ("drop", False), None: ("drop", False)}


def test_it_is_said_in_words_too(operator: Operator) -> None:
    done = operator.types("--above", "100")
    assert done.code == 0
    assert "1 built, 0 dropped, 1 ready" in done.out
    assert SPACE.id in done.out
    assert f"building for {COUNT} vectors of {SCOPE}" in done.err
    assert "0 built, 1 dropped, 0 ready" in operator.types("--drop", "--scope", SCOPE).out


def test_what_cannot_be_done_is_an_error_in_one_line(operator: Operator) -> None:
    done = operator.types("--scope", "nobody")
    assert (done.code, "there is no scope nobody" in done.err) == (2, True)
    behind = operator.types("--above", "100", IMGPROC_POOLER="1")
    assert (behind.code, "past the pooler" in behind.err) == (2, True)
