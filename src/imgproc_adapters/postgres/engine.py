"""The pool of connections: SQLAlchemy keeps it, psycopg speaks on it."""

import select
from datetime import UTC, datetime
from typing import Any, Final

from psycopg import AsyncConnection, IsolationLevel
from psycopg.abc import Buffer
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


async def _connect(arguments: dict[str, Any], *, utc: bool) -> AsyncConnection[Any]:
    connection = await AsyncConnection.connect(context=ADAPTERS, **arguments)
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
