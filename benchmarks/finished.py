"""A million finished jobs in minutes: the engine finishes one, and SQL repeats every row that it left.

The rows are copied as they are, but for ids, digests and keys, which are made anew from the old value and a number:
the same old value with the same number gives the same new one, so that the copies refer to each other as the originals
do. New ids sort by their number, as ids made by the application sort by time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import psycopg
from attrs import frozen
from psycopg import sql

from benchmarks.drive import PATIENCE, work
from benchmarks.rig import SCOPE, Sizes, open_rig, seed_memes
from benchmarks.server import Database

SMALL: Final = Sizes(visual=8, text=8)
"""Vectors of the finished jobs: at full length a million of them would be gigabytes that nobody here looks at."""

_BATCH: Final = 10_000
_CONNECTIONS: Final = 2
_DERIVED: Final = (
    *("image_sha256", "metadata_hash", "input_digest", "attempt_id", "request_id", "session_id"),
    *("logical_request_key", "fingerprint", "reservation"),
)


async def finish(database: Database, jobs: int) -> None:
    """Leave so many finished jobs in the scope, their pictures findable, everything vacuumed and analyzed."""
    memes = await asyncio.to_thread(seed_memes, database, 1)
    async with open_rig(database.dsn, SMALL) as one:
        await one.open_lane()
        await one.submit(memes)
        done, _ = await work(one, 1, PATIENCE)
    assert done == 1, "there is nothing to copy"
    await asyncio.to_thread(_repeat, database, jobs - 1)
    await asyncio.to_thread(database.settle)


def _repeat(database: Database, copies: int) -> None:
    batches = [(start, min(start + _BATCH - 1, copies)) for start in range(1, copies + 1, _BATCH)]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(lambda part: _copy(database, part), [batches[n::_CONNECTIONS] for n in range(_CONNECTIONS)]))


def _copy(database: Database, batches: Sequence[tuple[int, int]]) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        # what is copied is sound, and so are the copies: foreign keys are not checked again, row by row
        connection.execute("SET session_replication_role = replica")
        inserts = _inserts(connection)
        for first, last in batches:
            for insert in inserts:
                connection.execute(insert, {"first": first, "last": last})


def _inserts(connection: psycopg.Connection[Any]) -> list[sql.Composed]:
    """Keep the originals aside, and return the statements that add the copies FIRST to LAST of each."""
    names: dict[str, sql.Composed] = {}
    tables = [_Table.find(connection, name) for name in _tables(connection)]
    for table in tables:
        names |= table.values(connection)
    return [table.insert(connection, names) for table in tables]


def _tables(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the tables that have rows of the scope and an id, so that there can be more of them."""
    found = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'scope_id'"
        " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace"
        " AND EXISTS (SELECT FROM pg_attribute i WHERE i.attrelid = c.oid AND i.atttypid = 'uuid'::regtype)"
        " ORDER BY c.relname"
    ).fetchall()
    there = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE scope_id = {})")
    return [
        name
        for (name,) in found
        if connection.execute(there.format(sql.Identifier(name), sql.Literal(SCOPE))).fetchone() == (True,)
    ]


@frozen
class _Table:
    """A table whose rows are repeated, with the type of each column that is written."""

    name: str
    columns: Mapping[str, str]

    @classmethod
    def find(cls, connection: psycopg.Connection[Any], name: str) -> Self:
        found = connection.execute(
            "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            [name],
        )
        made = cls(name, dict(found.fetchall()))
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT * FROM {} WHERE scope_id = {}").format(
                made.aside, sql.Identifier(name), sql.Literal(SCOPE)
            )
        )
        return made

    @property
    def aside(self) -> sql.Identifier:
        return sql.Identifier(f"original_{self.name}")

    def values(self, connection: psycopg.Connection[Any]) -> dict[str, sql.Composed]:
        """Return the values that the copies have anew, each with what it becomes."""
        made = {}
        for column, kind in self.columns.items():
            if kind == "uuid" or column in _DERIVED:
                for value in self._distinct(connection, column):
                    made[value] = _anew(sql.Literal(value), is_id=kind == "uuid")
        return made

    def insert(self, connection: psycopg.Connection[Any], names: Mapping[str, sql.Composed]) -> sql.Composed:
        columns = [sql.Identifier(column) for column in self.columns]
        values = [self._value(connection, column, kind, names) for column, kind in self.columns.items()]
        return sql.SQL(
            "INSERT INTO {} ({}) SELECT {} FROM {}, generate_series(%(first)s::bigint, %(last)s::bigint) n"
        ).format(sql.Identifier(self.name), sql.SQL(", ").join(columns), sql.SQL(", ").join(values), self.aside)

    def _value(
        self, connection: psycopg.Connection[Any], column: str, kind: str, names: Mapping[str, sql.Composed]
    ) -> sql.Composable:
        name = sql.Identifier(column)
        if kind == "jsonb":
            # a document quotes ids and digests of other rows
            quoted: sql.Composable = sql.SQL("{}::text").format(name)
            for value in names:
                if any(value in document for document in self._distinct(connection, column)):
                    quoted = sql.SQL("replace({}, {}, {}::text)").format(quoted, sql.Literal(value), names[value])
            return sql.SQL("({})::jsonb").format(quoted)
        return _anew(name, is_id=kind == "uuid") if kind == "uuid" or column in _DERIVED else name

    def _distinct(self, connection: psycopg.Connection[Any], column: str) -> list[str]:
        query = sql.SQL("SELECT DISTINCT {0}::text FROM {1} WHERE {0} IS NOT NULL")
        found = connection.execute(query.format(sql.Identifier(column), self.aside)).fetchall()
        return [value for (value,) in found]


def _anew(value: sql.Composable, *, is_id: bool) -> sql.Composed:
    """Return the expression of what a value becomes in copy number ``n``."""
    if is_id:
        return sql.SQL(
            "overlay(md5({}::text || n) PLACING lpad(to_hex(1700000000000 + n), 12, '0') || '7' FROM 1 FOR 13)::uuid"
        ).format(value)
    return sql.SQL("left(md5({0} || n) || md5(n || {0}), length({0}))").format(value)
