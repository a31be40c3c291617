"""Renewal of leases from a thread of its own."""

import asyncio

import pytest
from attrs import evolve

from imgproc_adapters.testing.seed import (
    ANOTHER,
    MINUTE,
    NO_TIME,
    A,
    B,
    claim,
    expire,
    read_task,
    running_task,
)
from imgproc_adapters.testing.world import World
from imgproc_domain import task as tasks


class HeartbeatContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_renewal_moves_the_end_of_the_lease_and_keeps_the_generation(self, world: World) -> None:
        running = await running_task(world)
        stale = await asyncio.to_thread(world.heartbeat.renew, [running.claim], 60 * MINUTE)
        renewed = await read_task(world, running)
        assert not stale
        assert renewed.lease.generation == running.lease.generation
        assert renewed.lease.expires_at is not None
        assert running.lease.expires_at is not None
        assert renewed.lease.expires_at > running.lease.expires_at + 30 * MINUTE

    async def test_an_expired_claim_is_not_revived(self, world: World) -> None:
        expired = await running_task(world, lease=NO_TIME)
        stale = await asyncio.to_thread(world.heartbeat.renew, [expired.claim], MINUTE)
        assert list(stale) == [expired.claim]
        assert await read_task(world, expired) == expired

    async def test_a_claim_that_was_taken_over_is_reported(self, world: World) -> None:
        lost = await running_task(world, lease=NO_TIME)
        await expire(world, lost)
        (current,) = await claim(world, owner=ANOTHER)
        stale = await asyncio.to_thread(world.heartbeat.renew, [lost.claim, current.claim], MINUTE)
        assert list(stale) == [lost.claim]

    async def test_a_lost_claim_does_not_lengthen_the_lease_of_the_one_that_took_over(self, world: World) -> None:
        lost = await running_task(world, lease=NO_TIME)
        await expire(world, lost)
        (current,) = await claim(world, owner=ANOTHER)
        await asyncio.to_thread(world.heartbeat.renew, [lost.claim], 60 * MINUTE)
        assert await read_task(world, current) == current

    async def test_a_claim_on_an_ended_task_is_reported(self, world: World) -> None:
        running = await running_task(world)
        async with world.uow.begin(A) as tx:
            locked = await tx.claims.lock([running.claim])
            await tx.claims.save([tasks.succeed(locked[running.task_id], await tx.now())])
        stale = await asyncio.to_thread(world.heartbeat.renew, [running.claim], MINUTE)
        assert list(stale) == [running.claim]

    async def test_claims_of_several_scopes_are_renewed_together(self, world: World) -> None:
        running = [await running_task(world, scope=A), await running_task(world, scope=B)]
        unknown = evolve(running[0].claim, scope=B)
        claims = [*(task.claim for task in running), unknown]
        stale = await asyncio.to_thread(world.heartbeat.renew, claims, 60 * MINUTE)
        assert list(stale) == [unknown]
        for task in running:
            renewed = await read_task(world, task)
            assert renewed.lease.expires_at != task.lease.expires_at

    async def test_renewing_nothing_is_fine(self, world: World) -> None:
        assert not await asyncio.to_thread(world.heartbeat.renew, [], MINUTE)
