"""The rows that bound a lane over all processes (I18)."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import new_id
from imgproc_adapters.testing.seed import OWNER, A, B, rolled_back
from imgproc_adapters.testing.world import World
from imgproc_domain.claim import Claim
from imgproc_domain.ids import TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane

HOUR = timedelta(hours=1)


def _claim(scope: Scope = A, generation: int = 1, task_id: UUID | None = None) -> Claim:
    return Claim(scope, TaskId(task_id or new_id()), OWNER, generation)


async def _resize(world: World, size: int, scope: Scope = A) -> None:
    async with world.uow.begin(scope) as tx:
        await tx.slots.resize(Lane.AGENT, size)


async def _hold(tx: Transaction, claims: Sequence[Claim], free_at: datetime | None = None) -> Sequence[Slot]:
    slots = await tx.slots.take(Lane.AGENT, len(claims))
    held = [
        evolve(slot, scope=claim.scope, task_id=claim.task_id, generation=claim.generation, free_at=free_at)
        for slot, claim in zip(slots, claims, strict=False)
    ]
    await tx.slots.hold(held)
    return held


async def _free_slots(world: World, scope: Scope = A, lane: Lane = Lane.AGENT) -> int:
    async with world.uow.begin(scope) as tx:
        return len(await tx.slots.take(lane, 100))


class SlotStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_lane_has_as_many_slots_as_it_was_given(self, world: World) -> None:
        assert await _free_slots(world) == 0
        for size in (2, 5, 5, 1):
            await _resize(world, size)
            assert await _free_slots(world) == size
            assert await _free_slots(world, lane=Lane.VISUAL) == 0

    async def test_no_more_slots_are_taken_than_asked_for(self, world: World) -> None:
        await _resize(world, 3)
        async with world.uow.begin(A) as tx:
            (slot,) = await tx.slots.take(Lane.AGENT, 1)
        assert slot.scope is None

    async def test_taking_alone_keeps_nothing(self, world: World) -> None:
        await _resize(world, 2)
        async with world.uow.begin(A) as tx:
            await tx.slots.take(Lane.AGENT, 2)
        assert await _free_slots(world) == len({1, 2})

    async def test_a_held_slot_is_free_for_no_scope(self, world: World) -> None:
        await _resize(world, 2)
        async with world.uow.begin(A) as tx:
            await _hold(tx, [_claim()])
        assert [await _free_slots(world, scope) for scope in (A, B)] == [1, 1]

    async def test_slots_that_another_transaction_has_taken_are_skipped(self, world: World) -> None:
        await _resize(world, 3)
        async with world.uow.begin(A) as first, world.uow.begin(B) as second:
            mine = await first.slots.take(Lane.AGENT, 2)
            others = await second.slots.take(Lane.AGENT, 3)
        assert len(others) == 1
        assert not {slot.number for slot in mine} & {slot.number for slot in others}

    async def test_a_hold_that_is_rolled_back_leaves_the_slot_free(self, world: World) -> None:
        await _resize(world, 1)
        async with rolled_back(world) as tx:
            await _hold(tx, [_claim()])
        assert await _free_slots(world) == 1

    async def test_a_claim_holds_its_slot_under_exactly_its_generation(self, world: World) -> None:
        await _resize(world, 2)
        claim = _claim(generation=2)
        others = [evolve(claim, generation=1), evolve(claim, generation=3), _claim()]
        async with world.uow.begin(A) as tx:
            await _hold(tx, [claim])
            assert list(await tx.slots.held(Lane.AGENT, [claim, *others])) == [claim]
            assert not await tx.slots.held(Lane.VISUAL, [claim])
        async with world.uow.begin(B) as tx:
            assert not await tx.slots.held(Lane.AGENT, [evolve(claim, scope=B)])

    async def test_a_slot_is_freed_by_its_own_claim_alone(self, world: World) -> None:
        await _resize(world, 1)
        claim = _claim(generation=2)
        async with world.uow.begin(A) as tx:
            await _hold(tx, [claim])
        async with world.uow.begin(A) as tx:
            await tx.slots.free(Lane.AGENT, [evolve(claim, generation=1), _claim()], {})
        async with world.uow.begin(B) as tx:
            await tx.slots.free(Lane.AGENT, [evolve(claim, scope=B)], {})
        assert await _free_slots(world) == 0
        async with world.uow.begin(A) as tx:
            await tx.slots.free(Lane.AGENT, [claim], {})
        assert await _free_slots(world) == 1
        async with world.uow.begin(A) as tx:
            assert not await tx.slots.held(Lane.AGENT, [claim])

    async def test_a_slot_whose_call_may_still_run_is_free_only_at_its_time(self, world: World) -> None:
        await _resize(world, 2)
        running, over = _claim(), _claim()
        async with world.uow.begin(A) as tx:
            await _hold(tx, [running, over])
            now = await tx.now()
        async with world.uow.begin(A) as tx:
            times = {running.task_id: now + HOUR, over.task_id: now - HOUR}
            await tx.slots.free(Lane.AGENT, [running, over], times)
        async with world.uow.begin(A) as tx:
            (slot,) = await tx.slots.take(Lane.AGENT, 2)
        assert slot.task_id == over.task_id

    async def test_a_slot_held_until_a_time_that_has_passed_is_taken_over(self, world: World) -> None:
        await _resize(world, 1)
        earlier, later = _claim(), _claim(B)
        async with world.uow.begin(A) as tx:
            await _hold(tx, [earlier], free_at=await tx.now() - HOUR)
        async with world.uow.begin(B) as tx:
            await _hold(tx, [later])
        async with world.uow.begin(A) as tx:
            assert not await tx.slots.held(Lane.AGENT, [earlier])
            await tx.slots.free(Lane.AGENT, [earlier], {})
        assert await _free_slots(world) == 0

    async def test_surplus_slots_that_are_held_go_as_soon_as_they_are_free(self, world: World) -> None:
        await _resize(world, 3)
        claims = [_claim() for _ in range(3)]
        async with world.uow.begin(A) as tx:
            await _hold(tx, claims)
        await _resize(world, 1)
        async with world.uow.begin(A) as tx:
            assert set(await tx.slots.held(Lane.AGENT, claims)) == set(claims)
            await tx.slots.free(Lane.AGENT, claims, {})
        assert await _free_slots(world) == 1

    async def test_surplus_slots_whose_time_has_passed_are_not_taken(self, world: World) -> None:
        await _resize(world, 3)
        claims = [_claim() for _ in range(3)]
        async with world.uow.begin(A) as tx:
            await _hold(tx, claims)
        await _resize(world, 1)
        async with world.uow.begin(A) as tx:
            passed = await tx.now() - HOUR
            await tx.slots.free(Lane.AGENT, claims, {claim.task_id: passed for claim in claims})
        assert await _free_slots(world) == 1

    async def test_claims_of_another_scope_are_neither_shown_nor_freed(self, world: World) -> None:
        await _resize(world, 1)
        claim = _claim()
        async with world.uow.begin(A) as tx:
            await _hold(tx, [claim])
        async with world.uow.begin(B) as tx:
            assert not await tx.slots.held(Lane.AGENT, [claim])
            await tx.slots.free(Lane.AGENT, [claim], {})
        assert await _free_slots(world) == 0

    async def test_a_late_free_leaves_a_slot_alone_that_is_being_taken_over(self, world: World) -> None:
        await _resize(world, 1)
        late, new, asking = _claim(), _claim(B), asyncio.Event()
        async with world.uow.begin(A) as tx:
            await _hold(tx, [late], free_at=await tx.now() - HOUR)

        async def free() -> None:
            async with world.uow.begin(A) as tx:
                asking.set()
                await tx.slots.free(Lane.AGENT, [late], {})

        async with world.uow.begin(B) as tx:
            await _hold(tx, [new])
            freeing = asyncio.create_task(free())
            await asking.wait()
        await freeing
        async with world.uow.begin(B) as tx:
            assert list(await tx.slots.held(Lane.AGENT, [new])) == [new]

    async def test_a_lane_that_grows_again_has_its_full_size_and_no_more(self, world: World) -> None:
        await _resize(world, 2)
        claims = [_claim(), _claim()]
        async with world.uow.begin(A) as tx:
            await _hold(tx, claims)
        await _resize(world, 1)
        await _resize(world, 3)
        assert await _free_slots(world) == 1
        async with world.uow.begin(A) as tx:
            await tx.slots.free(Lane.AGENT, claims, {})
        assert await _free_slots(world) == len(claims) + 1
