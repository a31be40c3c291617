"""Claim, renewal, settling and expiry, over tasks."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_maintenance_task, make_task
from imgproc_adapters.testing.seed import (
    ANOTHER,
    MINUTE,
    NO_TIME,
    OWNER,
    A,
    B,
    claim,
    expire,
    read_task,
    rolled_back,
    running_task,
    store,
    store_jobs,
    store_tasks,
)
from imgproc_adapters.testing.world import World
from imgproc_domain import task as tasks
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.stage import IMAGE_TASK_TYPES, MAINTENANCE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

WENT_WRONG = Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong")


async def _why_fenced(world: World, task: Task) -> Fence | None:
    """Ask, as a write-back does, whether the claim that ``task`` was given is still current."""
    async with world.uow.begin(task.scope) as tx:
        locked = await tx.claims.lock([task.claim])
        return tasks.why_fenced(locked.get(task.task_id), task.claim, await tx.now())


class ClaimStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_claimed_task_runs_under_the_next_generation_until_its_lease_ends(self, world: World) -> None:
        (queued,) = await store_tasks(world, 1)
        async with world.uow.begin(A) as tx:
            before = await tx.now()
            (claimed,) = await tx.claims.claim(TaskType.VISUAL, 1, OWNER, MINUTE)
            after = await tx.now()
        assert claimed.task_id == queued.task_id
        assert claimed.status is TaskStatus.RUNNING
        assert claimed.lease.owner == OWNER
        assert claimed.lease.generation == queued.lease.generation + 1
        assert claimed.lease.expires_at is not None
        assert before + MINUTE <= claimed.lease.expires_at <= after + MINUTE
        assert await read_task(world, queued) == claimed

    async def test_tasks_are_claimed_oldest_first_and_no_more_than_asked_for(self, world: World) -> None:
        oldest, middle, newest = await store_jobs(world, 3)
        late = make_task(oldest, available_at=LONG_AGO + 2 * MINUTE)
        early = make_task(newest, available_at=LONG_AGO)
        between = make_task(middle, available_at=LONG_AGO + MINUTE)
        await store(world, late, early, between)
        assert {t.task_id for t in await claim(world, limit=2)} == {early.task_id, between.task_id}
        assert [t.task_id for t in await claim(world, limit=2)] == [late.task_id]

    async def test_a_task_whose_time_has_not_come_is_not_claimed(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            await tx.tasks.add([make_task(job, available_at=await tx.now() + timedelta(hours=1))])
        assert await claim(world) == []

    async def test_tasks_of_another_type_or_scope_are_not_claimed(self, world: World) -> None:
        await store_tasks(world, 1, Stage.TEXT)
        await store_tasks(world, 1, Stage.VISUAL, scope=B)
        assert await claim(world, stage=Stage.VISUAL, scope=A) == []

    async def test_a_running_or_ended_task_is_not_claimed(self, world: World) -> None:
        await running_task(world)
        assert await claim(world) == []

    async def test_tasks_that_another_transaction_holds_are_skipped(self, world: World) -> None:
        await store_tasks(world, 3)
        async with world.uow.begin(A) as tx:
            held = await tx.claims.claim(TaskType.VISUAL, 2, OWNER, MINUTE)
            others = await claim(world, limit=3, owner=ANOTHER)
        assert len(others) == 1
        assert not {t.task_id for t in held} & {t.task_id for t in others}

    async def test_concurrent_claimers_never_get_the_same_task(self, world: World) -> None:
        queued = await store_tasks(world, 12)
        rounds = [asyncio.gather(*(claim(world, limit=2) for _ in range(4))) for _ in range(2)]
        claimed = [t.task_id for answers in await asyncio.gather(*rounds) for tasks in answers for t in tasks]
        claimed += [t.task_id for t in await claim(world, limit=12)]
        assert sorted(claimed) == [t.task_id for t in queued]

    async def test_a_claim_that_is_rolled_back_leaves_the_task_as_it_was(self, world: World) -> None:
        (queued,) = await store_tasks(world, 1)
        async with rolled_back(world) as tx:
            await tx.claims.claim(TaskType.VISUAL, 1, OWNER, MINUTE)
        assert await read_task(world, queued) == queued

    async def test_every_claim_and_every_expiry_raises_the_generation_by_one(self, world: World) -> None:
        await store_tasks(world, 1)
        generations: list[int] = []
        for _ in range(3):
            (claimed,) = await claim(world, lease=NO_TIME)
            generations += [claimed.lease.generation, (await expire(world, claimed)).lease.generation]
        assert generations == [1, 2, 3, 4, 5, 6]

    async def test_a_current_claim_may_settle(self, world: World) -> None:
        assert await _why_fenced(world, await running_task(world)) is None

    async def test_a_claim_from_an_earlier_generation_cannot_settle(self, world: World) -> None:
        late = await running_task(world, lease=NO_TIME)
        await expire(world, late)
        await claim(world, owner=ANOTHER)
        assert await _why_fenced(world, late) is Fence.GENERATION

    async def test_a_claim_whose_lease_has_expired_cannot_settle(self, world: World) -> None:
        assert await _why_fenced(world, await running_task(world, lease=NO_TIME)) is Fence.EXPIRED

    async def test_a_claim_of_another_owner_cannot_settle(self, world: World) -> None:
        running = await running_task(world)
        forged = evolve(running, lease=evolve(running.lease, owner=ANOTHER))
        assert await _why_fenced(world, forged) is Fence.OWNER

    async def test_unknown_and_foreign_tasks_cannot_be_locked(self, world: World) -> None:
        foreign = await running_task(world, scope=B)
        async with world.uow.begin(A) as tx:
            assert not await tx.claims.lock([foreign.claim, evolve(foreign.claim, scope=A)])

    async def test_a_lock_waits_for_its_holder_and_sees_what_it_wrote(self, world: World) -> None:
        running = await running_task(world)
        asking = asyncio.Event()

        async def late_settler() -> Fence | None:
            async with world.uow.begin(A) as tx:
                asking.set()
                locked = await tx.claims.lock([running.claim])
                return tasks.why_fenced(locked[running.task_id], running.claim, await tx.now())

        async with world.uow.begin(A) as tx:
            locked = await tx.claims.lock([running.claim])
            late = asyncio.create_task(late_settler())
            await asking.wait()
            await tx.claims.save([tasks.succeed(locked[running.task_id], await tx.now())])
        assert await late is Fence.NOT_RUNNING

    async def test_what_is_saved_is_read_back(self, world: World) -> None:
        running = await running_task(world)
        async with world.uow.begin(A) as tx:
            locked = (await tx.claims.lock([running.claim]))[running.task_id]
            after = tasks.retry(locked, WENT_WRONG, await tx.now(), RetryPolicy(), after=None)
            await tx.claims.save([after])
        assert after.status is TaskStatus.QUEUED
        assert await read_task(world, running) == after

    async def test_a_task_that_does_not_exist_cannot_be_saved(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        with pytest.raises(Conflict):
            async with world.uow.begin(A) as tx:
                await tx.claims.save([make_task(job)])

    async def test_only_expired_leases_of_the_given_types_are_locked(self, world: World) -> None:
        await running_task(world)
        expired = await running_task(world, lease=NO_TIME)
        await store(world, make_maintenance_task(A))
        async with world.uow.begin(A) as tx:
            (maintenance,) = await tx.claims.claim(TaskType.CACHE, 1, OWNER, NO_TIME)
        async with world.uow.begin(A) as tx:
            images = await tx.claims.lock_expired(IMAGE_TASK_TYPES, 10)
            others = await tx.claims.lock_expired(MAINTENANCE_TASK_TYPES, 10)
        assert [t.task_id for t in images] == [expired.task_id]
        assert [t.task_id for t in others] == [maintenance.task_id]

    async def test_an_expired_task_that_another_transaction_holds_is_skipped(self, world: World) -> None:
        expired = await running_task(world, lease=NO_TIME)
        async with world.uow.begin(A) as holder, world.uow.begin(A) as tx:
            await holder.claims.lock([expired.claim])
            assert not await tx.claims.lock_expired(IMAGE_TASK_TYPES, 10)

    async def test_no_more_expired_tasks_are_locked_than_asked_for(self, world: World) -> None:
        await store_tasks(world, 3)
        await claim(world, limit=3, lease=NO_TIME)
        async with world.uow.begin(A) as tx:
            first = await tx.claims.lock_expired(IMAGE_TASK_TYPES, 2)
            assert len(first) < len(await tx.claims.lock_expired(IMAGE_TASK_TYPES, 10))
