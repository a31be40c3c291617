"""The pool of connections: SQLAlchemy keeps it, psycopg speaks on it."""

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from psycopg import AsyncConnection, AsyncPipeline, IsolationLevel
from psycopg.abc import Buffer, PQGen
from psycopg.pq import Format
from psycopg.types import TypeInfo
from psycopg.types.datetime import TimestamptzBinaryLoader
from sqlalchemy import event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from imgproc_adapters.postgres.arrays import ADAPTERS, register_halves
from imgproc_adapters.postgres.conninfo import Limits, parameters

DEFAULT_LIMITS: Final = Limits()


def open_engine(
    dsn: str,
    *,
    pool_size: int = 5,
    pool_timeout: float = 10.0,
    pooler: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncEngine:
    """Return an engine for ``dsn``; connects when it is first used. Close it with ``await engine.dispose()``.

    ``pool_size`` connections stay open, as many again are opened under load; a caller waits ``pool_timeout`` seconds
    for one. ``pooler`` says that ``dsn`` leads to a pooler in transaction mode: see `parameters` for what that costs.

    Raises:
        psycopg.ProgrammingError: ``dsn`` is no libpq connection string.
    """
    arguments = parameters(dsn, limits, pooler=pooler)

    async def connect() -> AsyncConnection[Any]:
        return await _connect(arguments, utc=pooler)

    engine = create_async_engine(
        "postgresql+psycopg://",
        async_creator=connect,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=pool_timeout,
        pool_use_lifo=True,
        use_native_hstore=False,
    )
    event.listen(engine.sync_engine, "checkout", _refuse_ended)
    return engine


class _Pipeline(AsyncPipeline):
    """A pipeline that ends with its Sync.

    psycopg sends a Flush behind that. The server then takes the client to be busy, and no longer counts how long a
    transaction stands idle.
    """

    def _exit_gen(self) -> PQGen[None]:
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


class _Connection(AsyncConnection[Any]):
    """psycopg's own, but for the end of its pipelines."""

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[AsyncPipeline]:
        self._check_connection_ok()
        assert self._pipeline is None, "a session opens one pipeline at a time"
        self._pipeline = _Pipeline(self)
        try:
            async with self._pipeline as pipeline:
                yield pipeline
        finally:
            self._pipeline = None


async def _connect(arguments: dict[str, Any], *, utc: bool) -> AsyncConnection[Any]:
    connection = await _Connection.connect(context=ADAPTERS, **arguments)
    # part of BEGIN, so it costs nothing: the stores rely on reading what was committed while they waited for a lock
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    halfvec = await TypeInfo.fetch(connection, "halfvec")
    if halfvec is not None:
        register_halves(connection.adapters, halfvec)
    if utc:
        connection.adapters.register_loader("timestamptz", _UtcLoader)
    return connection


class _UtcLoader(TimestamptzBinaryLoader):
    """Reads times as UTC where the session's time zone cannot be chosen."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


def _refuse_ended(connection: Any, _record: object, _fairy: object) -> None:
    """Notice without a round trip that the server ended an idle connection: its socket has something to say.

    A healthy idle connection is silent. After a restart of the server every older connection is as dead as this one.
    """
    ready = select.poll()
    ready.register(connection.driver_connection.fileno(), select.POLLIN)
    if ready.poll(0):
        raise InvalidatePoolError("the server ended this connection while it was idle")
