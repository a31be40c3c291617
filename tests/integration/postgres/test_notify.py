"""Hints: one a transaction, and back again after the database was away."""

import asyncio
from collections.abc import AsyncIterator, Collection

import psycopg
import pytest_asyncio

from imgproc_adapters.postgres.notify import CHANNEL, PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope

A = Scope("notify-a")
PATIENCE = 30.0
TERMINATE = """
    SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
    WHERE query = 'LISTEN imgproc' AND datname = current_database()
"""


@pytest_asyncio.fixture
async def listener(direct: str) -> AsyncIterator[PostgresListener]:
    listener = PostgresListener(direct)
    await listener.start()
    yield listener
    await listener.close()


async def ring(uow: PostgresUnitOfWork, topics: Collection[Topic]) -> None:
    async with uow.begin(A) as tx:
        await tx.bell.ring(topics)


async def test_a_transaction_sends_one_hint_however_often_it_rings(uow: PostgresUnitOfWork, direct: str) -> None:
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as ear:
        await ear.execute(f"LISTEN {CHANNEL}".encode())
        async with uow.begin(A) as tx:
            await tx.bell.ring([Topic.JOBS, Topic.VISUAL])
            await tx.bell.ring([Topic.JOBS])
        await ring(uow, [Topic.TEXT])
        heard = [notice.payload async for notice in ear.notifies(timeout=PATIENCE, stop_after=2)]
    assert heard == [f"{Topic.JOBS} {Topic.VISUAL}", Topic.TEXT.value]


async def test_hints_come_back_after_the_connection_was_lost(
    listener: PostgresListener, uow: PostgresUnitOfWork, direct: str
) -> None:
    async with await psycopg.AsyncConnection.connect(direct) as other:
        assert await (await other.execute(TERMINATE)).fetchone() == (1,)
    # what was rung meanwhile is unknown, so everything counts as rung once
    assert set(await listener.wait(PATIENCE)) == set(Topic)
    await ring(uow, [Topic.JOBS])
    assert set(await listener.wait(PATIENCE)) == {Topic.JOBS}


async def test_an_unknown_topic_of_a_later_version_is_ignored(
    listener: PostgresListener, uow: PostgresUnitOfWork, direct: str
) -> None:
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as other:
        await other.execute("SELECT pg_notify(%s, 'something_new jobs')", [CHANNEL])
    assert set(await listener.wait(PATIENCE)) == {Topic.JOBS}


async def test_without_anything_to_listen_to_it_only_waits() -> None:
    listener = PostgresListener(None)
    await listener.start()
    assert not await asyncio.wait_for(listener.wait(0.01), PATIENCE)
    await listener.close()


async def test_an_ear_that_finds_no_database_waits_and_does_not_fail() -> None:
    listener = PostgresListener("postgresql://nobody@127.0.0.1:1/nothing")
    await listener.start()
    assert not await asyncio.wait_for(listener.wait(0.01), PATIENCE)
    await listener.close()
