"""The invariants of the domain, checked by SQL on a database that is in use.

Each scope is looked at in one snapshot: a read-only transaction in which all checks see the same moment, so that what
is true between transactions is all that is asked for. Nothing is locked and nothing is written. A check is one
statement over the rows of one scope, joined by hashing: a scope costs as much as reading each of its tables a few
times, whatever is in the others, and its snapshot holds back vacuum for as long. The checks are in `invariants_sql`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import psycopg
from attrs import Factory, define, frozen
from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.conninfo import Limits, parameters
from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.invariants_check import SCOPED, Check
from imgproc_adapters.postgres.invariants_sql import CHECKS
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Row
from imgproc_domain.errors import ImgprocError, InvalidValue
from imgproc_domain.scope import Scope

__all__ = ["CHECKS", "Check", "Example", "Report", "Result", "SchemaMissing", "check"]

PATIENCE: Final = timedelta(minutes=10)
"""How late somebody may be before it is worth a warning: twenty times the usual lease."""

STATEMENT_SECONDS: Final = 300.0

_MOST_EXAMPLES: Final = 1_000
_SCOPES_A_PAGE: Final = 200

_TABLES: Final = b"SELECT name FROM unnest(%(names)s::text[]) AS name WHERE to_regclass(name) IS NOT NULL"
_REVISION: Final = f"SELECT version_num FROM {migrate.VERSION_TABLE}".encode()  # noqa: S608 - our own name
_SCOPES: Final = b"SELECT scope_id FROM scopes WHERE scope_id > %(after)s ORDER BY scope_id LIMIT %(limit)s"
_KNOWN: Final = b"SELECT scope_id FROM scopes WHERE scope_id = %(scope)s"

# The time is read after the snapshot was taken. Nested loops are off because one over a scope whose size was misjudged
# reads that scope once a row; without them a plan is never cheap by its own estimate, which would start the compiler.
_BEGIN: Final = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_SNAPSHOT: Final = b"""
    SELECT clock_timestamp()::text, set_config('statement_timeout', %(milliseconds)s, true),
        set_config('enable_nestloop', 'off', true), set_config('jit', 'off', true)
"""


class SchemaMissing(ImgprocError):
    """The database has none of imgproc's tables."""

    code = "schema_missing"


@frozen
class Example:
    """One row that breaks a check, and how; ``scope`` is None for what belongs to none."""

    scope: Scope | None
    row: str
    told: str

    def __str__(self) -> str:
        return f"{self.row} {self.told}" + (f" (scope {self.scope})" if self.scope else "")


@frozen
class Result:
    """What one check found in all scopes: ``violations`` rows, of which ``examples`` are some.

    A ``warning`` breaks no invariant. A check is ``skipped`` if the database's schema is not the one it knows.
    """

    invariant: str
    name: str
    sentence: str
    warning: bool
    skipped: bool
    violations: int
    examples: tuple[Example, ...]


@frozen
class Report:
    """What was found in how many scopes of a database at this schema ``revision``."""

    results: tuple[Result, ...]
    scopes: int
    revision: str | None

    @property
    def broken(self) -> Sequence[Result]:
        """The checks that do not hold, warnings aside."""
        return [result for result in self.results if result.violations and not result.warning]

    @property
    def warnings(self) -> Sequence[Result]:
        return [result for result in self.results if result.violations and result.warning]

    @property
    def holds(self) -> bool:
        return not self.broken

    def lines(self) -> list[str]:
        """Return one line an example of what is broken."""
        return [f"{found.invariant} {found.name}: {each}" for found in self.broken for each in found.examples]


@define
class _Found:
    violations: int = 0
    examples: list[Example] = Factory(list)


async def check(
    engine_or_dsn: AsyncEngine | str,
    scopes: Iterable[Scope] | None = None,
    limit: int = 20,
    *,
    quiescent: bool = False,
    patience: timedelta = PATIENCE,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Report:
    """Run every check over these scopes, by default all, and return what they found.

    Safe at any time, on a database that others work on, on a standby, and through a pooler. ``limit`` is how many rows
    a check and scope are named, at least one; all are counted. With ``quiescent`` also what must not be left over is
    looked for, which is true only while no process works and nothing is queued. Who is later than ``patience`` is
    warned of.

    Raises:
        SchemaMissing: this is no database of imgproc.
        InvalidValue: one of ``scopes`` is not there, or ``limit`` is less than one.
        DatabaseUnavailable: the database did not answer, or a check took longer than ``statement_seconds``.
    """
    if limit < 1:
        raise InvalidValue("limit: at least one row of each broken check is named")
    wanted = [found for found in CHECKS if quiescent or not found.quiescent]
    head = await asyncio.to_thread(migrate.head)
    async with _connected(engine_or_dsn) as connection:
        tables, revision = await _schema(connection)
        usable = [each for each in wanted if each.tables <= tables and (revision == head or not each.of_head)]
        session = _Checking(connection, limit, patience, statement_seconds)
        await session.look(None, [each for each in usable if not each.scoped])
        async for scope in _each_scope(connection, scopes):
            await session.look(scope, [each for each in usable if each.scoped])
    return _report(wanted, usable, session, revision)


def _report(wanted: Sequence[Check], usable: Collection[Check], session: "_Checking", revision: str | None) -> Report:
    results = []
    for each in wanted:
        found = session.found.get(each.name, _Found())
        result = Result(
            invariant=each.invariant,
            name=each.name,
            sentence=each.sentence,
            warning=each.warning,
            skipped=each not in usable,
            violations=found.violations,
            examples=tuple(found.examples),
        )
        results.append(result)
    return Report(tuple(results), session.scopes, revision)


@define
class _Checking:
    """Runs checks on one connection, one transaction a scope, and keeps what they find."""

    connection: AsyncConnection[Row]
    limit: int
    patience: timedelta
    statement_seconds: float
    scopes: int = 0
    found: dict[str, _Found] = Factory(dict)

    async def look(self, scope: Scope | None, checks: Sequence[Check]) -> None:
        async with _reading(self.connection, self.statement_seconds) as now:
            for each in checks:
                await self._run(each, {"scope": scope, "now": now, "patience": self.patience, "limit": self.limit})
        self.scopes += scope is not None

    async def _run(self, each: Check, values: Mapping[str, object]) -> None:
        try:
            with translated():
                # every statement is used once a scope, with plans that suit it: none is worth keeping
                cursor = await self.connection.execute(_bounded(each), values, prepare=False)
                rows = await cursor.fetchall()
        except Exception as error:
            error.add_note(f"while checking {each.name}" + (f" of scope {values['scope']}" if each.scoped else ""))
            raise
        if rows:
            found = self.found.setdefault(each.name, _Found())
            found.violations += rows[0][0]
            room = _MOST_EXAMPLES - len(found.examples)
            scope = values["scope"]
            named = scope if each.scoped else None
            found.examples += [Example(named, row, told) for _, row, told in rows[:room]]  # type: ignore[arg-type]  # a scope or None


def _bounded(each: Check) -> bytes:
    return f"""
        SELECT count(*) OVER (), broken.what, coalesce(broken.told, '') FROM ({each.statement}) broken (what, told)
        ORDER BY 2, 3 LIMIT %(limit)s
    """.encode()  # noqa: S608 - literal parts; values travel as parameters


@asynccontextmanager
async def _connected(engine_or_dsn: AsyncEngine | str) -> AsyncIterator[AsyncConnection[Row]]:
    if isinstance(engine_or_dsn, AsyncEngine):
        async with checked_out(engine_or_dsn) as connection:
            yield connection
        return
    with translated():
        # as behind a pooler: what these transactions need they set themselves
        found = await AsyncConnection.connect(**parameters(engine_or_dsn, Limits(), pooler=True))
    try:
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def _reading(connection: AsyncConnection[Row], statement_seconds: float) -> AsyncIterator[str]:
    """Hold one snapshot for the length of the block, which gets the snapshot's time."""
    try:
        with translated():
            await connection.execute(_BEGIN)
            limits = {"milliseconds": str(max(1, int(statement_seconds * 1000)))}
            cursor = await connection.execute(_SNAPSHOT, limits, prepare=False)
            ((now, *_),) = await cursor.fetchall()
        yield now
    finally:
        # a connection that is gone has taken its transaction with it
        with suppress(psycopg.Error):
            await connection.rollback()


async def _schema(connection: AsyncConnection[Row]) -> tuple[frozenset[str], str | None]:
    names = [*SCOPED, migrate.VERSION_TABLE]
    async with _reading(connection, STATEMENT_SECONDS):
        with translated():
            present = frozenset(name for (name,) in await _rows(connection, _TABLES, {"names": names}))
            if "scopes" not in present:
                raise SchemaMissing("this database has none of imgproc's tables: run 'imgproc migrate'")
            revisions = await _rows(connection, _REVISION, {}) if migrate.VERSION_TABLE in present else ()
    return present, next((revision for (revision,) in revisions), None)


async def _each_scope(connection: AsyncConnection[Row], scopes: Iterable[Scope] | None) -> AsyncIterator[Scope]:
    """Yield scopes between transactions: those wanted, once each, or all in their order."""
    if scopes is not None:
        for scope in dict.fromkeys(scopes):
            if not await _page(connection, _KNOWN, {"scope": scope}):
                raise InvalidValue(f"there is no scope {scope}")
            yield scope
        return
    after = ""
    while page := await _page(connection, _SCOPES, {"after": after, "limit": _SCOPES_A_PAGE}):
        for scope in page:
            yield scope
        after = page[-1]


async def _page(connection: AsyncConnection[Row], sql: bytes, values: Mapping[str, object]) -> Sequence[Scope]:
    async with _reading(connection, STATEMENT_SECONDS):
        with translated():
            return [Scope(scope) for (scope,) in await _rows(connection, sql, values)]


async def _rows(connection: AsyncConnection[Row], sql: bytes, values: Mapping[str, Any]) -> Sequence[Row]:
    return await (await connection.execute(sql, values, prepare=False)).fetchall()
