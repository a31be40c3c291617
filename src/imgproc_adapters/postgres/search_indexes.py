"""Indexes of large scopes' own: which there are, which there should be, and how they are built and dropped.

Beside readers and writers, over a connection of its own that is never inside a transaction. One process builds at a
time; what another one left unfinished is dropped first.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final

from attrs import frozen
from psycopg import AsyncConnection, sql
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.conninfo import UNBOUNDED, parameters
from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.nearest import INDEX_PREFIX, index_name
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Row, statement
from imgproc_domain.config import VectorSpace
from imgproc_domain.scope import Scope

LOCK: Final = 0x696D_6770_726F_6358
"""The advisory lock of whoever builds or drops: two at once would wait for each other's snapshots."""

LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at whether another process has finished."""

_MEGABYTE: Final = 1024 * 1024
_LINKS: Final = 400
"""What the graph needs beside a vector, in bytes: about two lists of 16 neighbours, and what the server keeps of it."""

_LEAST_MEMORY: Final = 64
_MOST_MEMORY: Final = 1024

# pk_search_vectors alone; what a space's vectors are long is remembered once
_SURVEY: Final = statement(
    """
    SELECT v.space_id, s.dimension, v.vectors,
           v.space_id = ANY (ARRAY[coalesce(m.serving_space_id, %(space)s), m.filling_space_id])
    FROM (SELECT space_id, count(*) AS vectors FROM search_vectors WHERE scope_id = %(scope)s GROUP BY space_id) v
    JOIN embedding_spaces s ON s.space_id = v.space_id
    LEFT JOIN search_migrations m ON m.scope_id = %(scope)s
    ORDER BY v.space_id
    """
)
# The rows of a scope lie in one partition, where there are several; only that can have an index built beside writers.
_TABLE: Final = statement(
    """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = (SELECT tableoid FROM search_vectors WHERE scope_id = %(scope)s LIMIT 1)
    """
)
_INDEXES: Final = statement(
    """
    SELECT c.relname, i.indisvalid, pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE starts_with(c.relname, %(prefix)s)
      AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('search_vectors'))
    ORDER BY c.relname
    """
)
_PROGRESS: Final = statement(
    """
    SELECT phase, tuples_done FROM pg_stat_progress_create_index
    WHERE index_relid = to_regclass(%(index)s)
    """
)
_TRY_LOCK: Final = statement("SELECT pg_try_advisory_lock(%(lock)s)")


@frozen
class Index:
    """An index of a scope's own; not ``ready`` while it is built, and for good if its building was interrupted."""

    name: str
    ready: bool
    size: int
    """Bytes."""


@frozen
class Candidate:
    """The vectors of a scope in a space. ``used`` if searches read the space, or will when it is filled."""

    scope: Scope
    space: VectorSpace
    vectors: int
    used: bool
    index: Index | None = None

    @property
    def name(self) -> str:
        return index_name(self.scope, self.space.id, self.space.dimension)

    @property
    def memory(self) -> int:
        """Megabytes in which the index can be built without going through the disk, within bounds."""
        needed = self.vectors * (2 * self.space.dimension + _LINKS) // _MEGABYTE
        return min(max(needed * 5 // 4, _LEAST_MEMORY), _MOST_MEMORY)


class Todo(StrEnum):
    """What is to be done about the index of a scope's vectors in a space."""

    BUILD = "build"
    REBUILD = "rebuild"
    DROP = "drop"
    NOTHING = "nothing"


def todo(candidate: Candidate, above: int) -> Todo:
    """Decide: an index for more than ``above`` vectors of a space in use; it stays until they are fewer than half."""
    index = candidate.index
    if index is None:
        return Todo.BUILD if candidate.used and candidate.vectors > above else Todo.NOTHING
    if not candidate.used or 2 * candidate.vectors < above:
        return Todo.DROP
    if index.ready:
        return Todo.NOTHING
    return Todo.REBUILD if candidate.vectors > above else Todo.DROP


@frozen
class Building:
    """How an index is built: megabytes of memory, by default as many as it needs up to 1 GB, and helping processes."""

    memory: int | None = None
    workers: int | None = None


@frozen
class Progress:
    """How far a build has come: what the server is at, and how many vectors are in the index."""

    phase: str
    vectors: int


async def indexes(engine: AsyncEngine) -> Sequence[Index]:
    """Return all indexes of scopes' own, in the order of their names. Raises `DatabaseUnavailable`."""
    async with checked_out(engine, autocommit=True) as connection:
        return await _indexes(connection)


async def candidates(
    engine: AsyncEngine, scope: Scope, usual: VectorSpace, there: Collection[Index]
) -> Sequence[Candidate]:
    """Count a scope's vectors, space by space; ``usual`` is what a scope is searched in before it serves a space.

    Raises:
        DatabaseUnavailable: the database did not answer.
    """
    by_name = {index.name: index for index in there}
    async with checked_out(engine, autocommit=True) as connection:
        rows = await _rows(connection, _SURVEY, scope=scope, space=usual.id)
    return [
        Candidate(scope, space, vectors, bool(used), by_name.get(index_name(scope, space.id, space.dimension)))
        for space_id, dimension, vectors, used in rows
        for space in [VectorSpace(space_id, dimension)]
    ]


async def progress(engine: AsyncEngine, name: str) -> Progress | None:
    """Return how far an index that is being built has come, None if none is. Raises `DatabaseUnavailable`."""
    async with checked_out(engine, autocommit=True) as connection:
        rows = await _rows(connection, _PROGRESS, index=name)
    return Progress(*rows[0]) if rows else None


class Builder:
    """Builds and drops, while nobody else does. Made by `open_builder`."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    async def build(self, candidate: Candidate, how: Building) -> None:
        """Build a scope's index, in place of one that is unfinished; leave one that is ready.

        Cancelled, or ended by an error, it leaves an unfinished index only if the connection is lost.

        Raises:
            DatabaseUnavailable: the database did not answer, or ended the building.
        """
        name = candidate.name
        found = next((each for each in await _indexes(self._connection) if each.name == name), None)
        if found is not None and found.ready:
            return
        if found is not None:
            await self.drop(name)
        table = await _rows(self._connection, _TABLE, scope=candidate.scope)
        if not table:
            return
        await self._set("maintenance_work_mem", f"{how.memory or candidate.memory}MB")
        if how.workers is not None:
            await self._set("max_parallel_maintenance_workers", str(how.workers))
        try:
            await self._run(_create(candidate, *table[0]))
        except BaseException:
            if not self._connection.broken:
                await self.drop(name)
            raise

    async def drop(self, name: str) -> None:
        """Drop an index, whatever state it is in. Raises `DatabaseUnavailable`."""
        await self._run(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))

    async def _set(self, setting: str, value: str) -> None:
        await self._run(sql.SQL("SET {} = {}").format(sql.Identifier(setting), sql.Literal(value)))

    async def _run(self, command: sql.Composed) -> None:
        with translated():
            await self._connection.execute(command)


@asynccontextmanager
async def open_builder(dsn: str) -> AsyncIterator[Builder]:
    """Connect, wait until nobody else builds, and keep others waiting for the length of the block.

    ``dsn`` leads to the server itself: behind a pooler in transaction mode there is no connection of one's own.

    Raises:
        DatabaseUnavailable: the database did not answer.
    """
    with translated():
        connection = await AsyncConnection.connect(autocommit=True, **parameters(dsn, UNBOUNDED))
    async with connection:
        builder = Builder(connection)
        with translated():
            for setting in ("statement_timeout", "lock_timeout", "idle_session_timeout"):
                await connection.execute(sql.SQL("SET {} = 0").format(sql.Identifier(setting)))
        # asked again and again, since whoever waits inside a statement is waited for by the one who builds
        while await _rows(connection, _TRY_LOCK, lock=LOCK) != [(True,)]:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(LOOK_AGAIN)
        yield builder


def _create(candidate: Candidate, schema: str, table: str) -> sql.Composed:
    return sql.SQL(
        "CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw ((embedding::halfvec({size})) halfvec_ip_ops)"
        " WHERE scope_id = {scope} AND space_id = {space} AND dimension = {size}"
    ).format(
        name=sql.Identifier(candidate.name),
        table=sql.Identifier(schema, table),
        size=sql.Literal(candidate.space.dimension),
        scope=sql.Literal(candidate.scope),
        space=sql.Literal(candidate.space.id),
    )


async def _indexes(connection: AsyncConnection[Any]) -> Sequence[Index]:
    return [Index(*row) for row in await _rows(connection, _INDEXES, prefix=INDEX_PREFIX)]


async def _rows(connection: AsyncConnection[Any], query: bytes, **params: object) -> Sequence[Row]:
    with translated():
        return await (await connection.execute(query, params)).fetchall()
