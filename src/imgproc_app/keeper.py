"""Keep the embedded PostgreSQL running while any process needs it.

Whoever started the server stops it when it leaves; a process that had only joined it must then start it again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import psycopg

from imgproc_adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError

log = logging.getLogger(__name__)

_AGAIN_AFTER: Final = 1.0


@asynccontextmanager
async def keep_running(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """Start the server again whenever it is lost, for the length of the block."""
    keeper = asyncio.create_task(_keep(server), name="imgproc-keeper")
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _keep(server: EmbeddedPostgres) -> None:
    while True:
        await _lost(server.dsn())
        log.info("the embedded PostgreSQL was stopped by the process that had started it; it is started again")
        try:
            await asyncio.to_thread(server.start)
        except EmbeddedPostgresError as error:
            log.error("the embedded PostgreSQL cannot be started again: %s", error)  # noqa: TRY400 - the message says it
            await asyncio.sleep(_AGAIN_AFTER)


async def _lost(dsn: str) -> None:
    """Return when the server ends: an idle connection hears of it at once, however it ends."""
    try:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True, application_name="imgproc-keeper")
        async with connection as held:
            async for _ in held.notifies():
                continue
    except psycopg.Error:
        return
