"""Slots are locked in the order of their numbers: who frees several and who resizes the lane never block each other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest
from attrs import evolve
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from tests.integration.postgres.test_races import soon, waiting

from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import new_id
from imgproc_adapters.testing.seed import OWNER, A
from imgproc_domain.claim import Claim
from imgproc_domain.ids import TaskId
from imgproc_domain.stage import Lane

Other = psycopg.AsyncConnection[tuple[int]]


async def _held(uow: PostgresUnitOfWork, numbers: Sequence[int]) -> list[Claim]:
    """Make a lane and hold its slots, written in this order, by a claim each; returns the claims by slot number."""
    claims = [Claim(A, TaskId(new_id()), OWNER, 1) for _ in numbers]
    async with uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, len(numbers))
    async with uow.begin(A) as tx:
        slots = {slot.number: slot for slot in await tx.slots.take(Lane.AGENT, len(numbers))}
        for number in numbers:
            claim = claims[number - 1]
            held = evolve(slots[number], scope=A, task_id=claim.task_id, generation=claim.generation)
            await tx.slots.hold([held])
    return claims


@asynccontextmanager
async def _locking(direct: str, *numbers: int) -> AsyncIterator[Other]:
    async with await psycopg.AsyncConnection.connect(direct) as other:
        await _lock(other, *numbers)
        yield other


async def _lock(other: Other, *numbers: int) -> None:
    """Lock these slots, or raise `LockNotAvailable` if somebody has."""
    for number in numbers:
        await other.execute("SELECT FROM lane_slots WHERE number = %s FOR NO KEY UPDATE NOWAIT", [number])


@pytest.fixture
def without_index(direct: str) -> None:
    """Have plans read the lane as its rows lie, which no statistics ever make impossible."""
    name = conninfo_to_dict(direct)["dbname"]
    with psycopg.connect(direct, autocommit=True) as connection:
        for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
            connection.execute(f"ALTER DATABASE {name} SET enable_{scan} = off".encode())


@pytest.mark.parametrize("numbers", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_whoever_frees_slots_waits_for_the_first_before_it_locks_the_next(
    without_index: None, uow: PostgresUnitOfWork, direct: str, numbers: tuple[int, ...]
) -> None:
    claims = await _held(uow, numbers)

    async def free() -> None:
        async with uow.begin(A) as tx:
            await tx.slots.free(Lane.AGENT, [claims[number - 1] for number in numbers], {})

    async with _locking(direct, 1) as other:
        freeing = asyncio.create_task(free())
        await waiting(direct)
        # as `resize` goes on: were the second one locked already, both would wait for ever
        await _lock(other, 2, 3)
        await other.rollback()
    await soon(freeing)
    async with uow.begin(A) as tx:
        assert not await tx.slots.held(Lane.AGENT, claims)
        assert len(await tx.slots.take(Lane.AGENT, 5)) == len(numbers)


async def test_a_surplus_slot_that_another_is_freeing_is_not_waited_for(uow: PostgresUnitOfWork, direct: str) -> None:
    claims = await _held(uow, (1, 2, 3))
    async with uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, 1)
    async with uow.begin(A) as tx:
        over = dict.fromkeys((claim.task_id for claim in claims), await tx.now())
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as other:
        await other.execute("UPDATE lane_slots SET free_at = %s", [over[claims[2].task_id]])
    async with _locking(direct, 3) as other, uow.begin(A) as tx:
        await soon(tx.slots.free(Lane.AGENT, [claims[1]], {}))
        with pytest.raises(pg.LockNotAvailable):
            await _lock(other, 2)
        await other.rollback()
    async with uow.begin(A) as tx:
        await tx.slots.free(Lane.AGENT, [claims[2]], {})
    async with await psycopg.AsyncConnection.connect(direct) as other:
        assert await (await other.execute("SELECT number FROM lane_slots")).fetchall() == [(1,)]


async def test_a_surplus_slot_is_not_taken_although_its_time_has_passed(uow: PostgresUnitOfWork, direct: str) -> None:
    await _held(uow, (1, 2))
    async with uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, 1)
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as other:
        await other.execute("UPDATE lane_slots SET free_at = statement_timestamp() WHERE number = 2")
    async with uow.begin(A) as tx:
        assert not await tx.slots.take(Lane.AGENT, 2)
