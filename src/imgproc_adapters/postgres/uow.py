"""One transaction, one scope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.claims import PostgresClaims, PostgresJobClaims
from imgproc_adapters.postgres.configuration import PostgresConfiguration
from imgproc_adapters.postgres.errors import translate_commit, translated
from imgproc_adapters.postgres.evidence import PostgresEvidence
from imgproc_adapters.postgres.execution import PostgresAttempts, PostgresGrants, PostgresReleases
from imgproc_adapters.postgres.generations import PostgresGenerations
from imgproc_adapters.postgres.lanes import PostgresSlots
from imgproc_adapters.postgres.library import PostgresContexts, PostgresMemes
from imgproc_adapters.postgres.notify import PostgresBell
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.processing import PostgresJobs, PostgresTasks
from imgproc_adapters.postgres.retention import PostgresRetention
from imgproc_adapters.postgres.search import PostgresSearch, SearchMemory
from imgproc_adapters.postgres.search_state import PostgresMigration
from imgproc_adapters.postgres.session import Ask, Session, statement
from imgproc_adapters.postgres.similar import PostgresSimilar
from imgproc_adapters.postgres.vectors import PostgresProducts
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope

_NEW: Final = SearchState()
_REGISTER: Final = statement(
    """
    WITH registered AS (
        INSERT INTO scopes (scope_id, created_at) VALUES (%(scope)s, statement_timestamp()) ON CONFLICT DO NOTHING
    )
    INSERT INTO search_migrations (scope_id, mode, epoch, updated_at)
    VALUES (%(scope)s, %(mode)s, %(epoch)s, statement_timestamp()) ON CONFLICT DO NOTHING
    """
)
_BEGIN: Final = statement("BEGIN ISOLATION LEVEL READ COMMITTED")
_COMMIT: Final = statement("COMMIT")
_NOW: Final = statement("SELECT statement_timestamp()")


class PostgresTransaction:
    """The stores of one scope over one connection."""

    def __init__(self, session: Session, memory: SearchMemory | None = None) -> None:
        self._session = session
        self.memes = PostgresMemes(session)
        self.contexts = PostgresContexts(session)
        self.products = PostgresProducts(session)
        self.jobs = PostgresJobs(session)
        self.job_claims = PostgresJobClaims(session)
        self.tasks = PostgresTasks(session)
        self.claims = PostgresClaims(session)
        self.attempts = PostgresAttempts(session)
        self.grants = PostgresGrants(session)
        self.releases = PostgresReleases(session)
        self.slots = PostgresSlots(session)
        self.evidence = PostgresEvidence(session)
        self.search = PostgresSearch(session, memory)
        self.similar = PostgresSimilar(session)
        self.generations = PostgresGenerations(session, memory)
        self.migration = PostgresMigration(session)
        self.configuration = PostgresConfiguration(session)
        self.retention = PostgresRetention(session)
        self.bell = PostgresBell()
        self.together = session.together

    @property
    def scope(self) -> Scope:
        return self._session.scope

    async def now(self) -> datetime:
        ((now,),) = await self._session.rows(_NOW)
        return now.astimezone(UTC) if isinstance(now, datetime) else now


class PostgresUnitOfWork:
    """Transactions over an engine's pool. One that met an error keeps nothing, even if its block swallows the error."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._registered: set[Scope] = set()
        self._memory = SearchMemory()

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        # psycopg's own BEGIN would be a round trip
        async with checked_out(self._engine, autocommit=True) as connection:
            await self._register(connection, scope)
            session = Session(connection, scope, _BEGIN)
            transaction = PostgresTransaction(session, self._memory)
            try:
                yield transaction
                session.check()
            except BaseException:
                await _roll_back(connection)
                raise
            await _commit(connection, session, transaction.bell.note())

    async def _register(self, connection: AsyncConnection[Any], scope: Scope) -> None:
        """Make the scope's own rows, once a process and in a transaction of their own: nobody waits for them long."""
        if scope not in self._registered:
            values = {"scope": scope, "mode": _NEW.mode, "epoch": _NEW.epoch}
            with translated():
                await connection.execute(_REGISTER, values)
            self._registered.add(scope)


async def _commit(connection: AsyncConnection[Any], session: Session, note: Ask | None) -> None:
    try:
        await session.finish(_COMMIT, *([note] if note else []))
    except psycopg.Error as error:
        # what was refused on the way to COMMIT leaves a transaction, and the next one may have the connection
        await _roll_back(connection)
        known = translate_commit(error)
        if known is error:
            raise
        raise known from error


async def _roll_back(connection: AsyncConnection[Any]) -> None:
    # a connection that is gone has taken its transaction with it; what went wrong first is what the caller hears of
    with suppress(psycopg.Error):
        await connection.rollback()
