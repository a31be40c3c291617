"""What bounds a connection holds for every connection of the pool, and frees what a stopped process had locked."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.pooler import unpooled

from imgproc_adapters.postgres.conninfo import UNBOUNDED, Limits
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_meme
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope

A = Scope("limits-a")
PATIENCE = 60.0
SETTINGS = """
    SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),
        current_setting('TimeZone')
"""
HOLDER = """
import asyncio, sys
from uuid import UUID
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope

async def main(dsn, scope, meme_id):
    async with PostgresUnitOfWork(open_engine(dsn)).begin(Scope(scope)) as tx:
        await tx.memes.lock([MemeId(UUID(meme_id))])
        print("locked", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def _settings(engine: AsyncEngine) -> tuple[str, ...]:
    async with checked_out(engine) as connection:
        row = await (await connection.execute(SETTINGS)).fetchone()
        await connection.rollback()
    assert row is not None
    return tuple(row)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), ("30s", "3s", "UTC")),
        (Limits(statement=0.5, idle_in_transaction=60), ("500ms", "1min", "UTC")),
        (UNBOUNDED, ("0", "0", "UTC")),
    ],
)
async def test_the_server_bounds_statements_and_idle_transactions(
    direct: str, limits: Limits, expected: tuple[str, ...]
) -> None:
    engine = open_engine(direct, limits=limits)
    assert [await _settings(engine) for _ in range(2)] == [expected] * 2
    await engine.dispose()


async def test_a_pool_that_nobody_gave_limits_has_those_of_a_worker(direct: str) -> None:
    engine = open_engine(direct)
    assert await _settings(engine) == ("30s", "3s", "UTC")
    await engine.dispose()


async def test_options_of_the_connection_string_are_kept_beside_ours(direct: str) -> None:
    engine = open_engine(psycopg.conninfo.make_conninfo(direct, options="-c work_mem=5MB"))
    async with checked_out(engine) as connection:
        assert await (await connection.execute("SHOW work_mem")).fetchone() == ("5MB",)
        await connection.rollback()
    assert await _settings(engine) == ("30s", "3s", "UTC")
    await engine.dispose()


async def test_a_silent_network_ends_a_connection_after_its_time(database: str, pooled: bool) -> None:
    engine = open_engine(database, limits=Limits(dead_peer=7.5), pooler=pooled)
    async with checked_out(engine) as connection:
        asked = connection.info.get_parameters()
        with socket.socket(fileno=connection.fileno()) as own:
            milliseconds = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            keepalive = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            own.detach()
    assert (asked["tcp_user_timeout"], milliseconds, keepalive) == ("7500", 7500, 10)
    await engine.dispose()


@asynccontextmanager
async def _stopped_inside_a_transaction(dsn: str, meme_id: MemeId) -> AsyncIterator[None]:
    """A process of its own that holds a picture's lock, and is stopped while it does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, dsn, A, str(meme_id), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"locked\n"
        process.send_signal(signal.SIGSTOP)
        yield
    finally:
        process.kill()
        await process.wait()


@unpooled("the server's time-outs are those of the role")
async def test_a_process_that_is_stopped_inside_a_transaction_holds_its_rows_for_seconds_only(
    uow: PostgresUnitOfWork, database: str
) -> None:
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    async with _stopped_inside_a_transaction(database, meme.meme_id), uow.begin(A) as tx:
        # the wait for the lock ends with the other's transaction; a longer one than a statement may take would fail
        assert set(await tx.memes.lock([meme.meme_id])) == {meme.meme_id}
