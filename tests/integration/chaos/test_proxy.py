"""The proxy loses the reply to a COMMIT, and nothing else; what it holds back arrives later."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from chaos.proxy import Frontend, Proxy
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.conninfo import Limits
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_meme
from imgproc_domain.errors import CommitOutcomeUnknown
from imgproc_domain.meme import Meme
from imgproc_domain.scope import LOCAL


@pytest_asyncio.fixture
async def proxy(direct: str) -> AsyncIterator[Proxy]:
    opened = Proxy(lambda: int(str(conninfo_to_dict(direct)["port"])))
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def through(direct: str, proxy: Proxy) -> AsyncIterator[AsyncEngine]:
    """An engine whose every connection leads through the proxy."""
    dsn = make_conninfo(direct, port=await proxy.start(), sslmode="prefer")
    engine = open_engine(dsn, limits=Limits(idle_in_transaction=60.0))
    yield engine
    await engine.dispose()


async def add(uow: PostgresUnitOfWork, meme: Meme) -> None:
    async with uow.begin(LOCAL) as tx:
        await tx.memes.add(meme)


async def stored(uow: PostgresUnitOfWork, meme: Meme) -> bool:
    async with uow.begin(LOCAL) as tx:
        return meme.meme_id in await tx.memes.get([meme.meme_id])


async def test_a_commit_whose_reply_is_lost_is_kept_and_its_client_does_not_know(
    through: AsyncEngine, proxy: Proxy
) -> None:
    uow, before, cut, after = PostgresUnitOfWork(through), make_meme(), make_meme(), make_meme()
    await add(uow, before)
    proxy.cut()
    with pytest.raises(CommitOutcomeUnknown):
        await add(uow, cut)
    assert proxy.cuts == 1
    await add(uow, after)
    assert [await stored(uow, meme) for meme in (before, cut, after)] == [True, True, True]
    assert proxy.cuts == 1


async def test_what_a_partition_holds_back_arrives_in_the_end(through: AsyncEngine, proxy: Proxy) -> None:
    uow, meme = PostgresUnitOfWork(through), make_meme()
    await add(uow, make_meme())
    shut = asyncio.create_task(proxy.partition(0.3, reset=False))
    await asyncio.sleep(0)
    assert not proxy.open.is_set()
    await add(uow, meme)
    # the commit could not be answered while nothing was let through
    assert proxy.open.is_set()
    await shut
    assert await stored(uow, meme)


async def test_a_partition_may_end_all_connections(through: AsyncEngine, proxy: Proxy) -> None:
    async with through.connect() as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        assert isinstance(raw, psycopg.AsyncConnection)
        shut = asyncio.create_task(proxy.partition(0.05, reset=True))
        await asyncio.sleep(0)
        with pytest.raises(psycopg.OperationalError):
            await raw.execute("SELECT 1")
        await shut
        await connection.invalidate()
    uow, meme = PostgresUnitOfWork(through), make_meme()
    await add(uow, meme)
    assert await stored(uow, meme)


STARTUP = (8 + 5).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"user\0"
SSL = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


COMMIT = message(b"Q", b"COMMIT\0")


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        (COMMIT, True),
        (message(b"Q", b"commit;\0"), True),
        (message(b"P", b"name\0COMMIT\0\0\0"), True),
        (message(b"B", b"COMMIT\0") + message(b"S", b""), False),
        (message(b"Q", b"SELECT 'COMMIT'\0"), False),
        (message(b"Q", COMMIT * 50) + message(b"S", b""), False),
        (message(b"d", b"x" * 5_000) + COMMIT, True),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_commit_is_told_from_all_else_however_it_is_cut_into_packets(sent: bytes, asked: bool, step: int) -> None:
    frontend, stream = Frontend(), SSL + STARTUP + sent
    found = [frontend.feed(stream[i : i + step]) for i in range(0, len(stream), step)]
    assert any(found) is asked
