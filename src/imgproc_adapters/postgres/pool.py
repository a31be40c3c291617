"""Taking a connection out of the pool, and giving it back."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.errors import translate
from imgproc_domain.errors import DatabaseUnavailable


@asynccontextmanager
async def checked_out(engine: AsyncEngine, *, autocommit: bool = False) -> AsyncIterator[AsyncConnection[Any]]:
    """Lend a connection of the pool, as psycopg's own: between it and the server nothing costs time.

    Raises `DatabaseUnavailable` if there is none in time.
    """
    async with AsyncExitStack() as stack:
        try:
            pooled = await stack.enter_async_context(engine.connect())
        except PoolTimeout as error:
            raise DatabaseUnavailable("no connection of the pool became free in time") from error
        except DBAPIError as error:
            raise translate(error.orig or error) from error
        raw: Any = (await pooled.get_raw_connection()).driver_connection
        connection: AsyncConnection[Any] = raw
        if autocommit:
            await connection.set_autocommit(True)
        try:
            yield connection
        finally:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                # it ended, or was cancelled in the middle of something: nobody else may inherit that
                await pooled.invalidate()
            elif autocommit:
                await connection.set_autocommit(False)
