"""Scans over all scopes."""

from datetime import timedelta

import pytest

from imgproc_adapters.testing.factories import make_job, make_meme, make_release, make_task
from imgproc_adapters.testing.seed import (
    MINUTE,
    NO_TIME,
    OWNER,
    A,
    B,
    claim,
    running_task,
    store,
    store_jobs,
    store_tasks,
)
from imgproc_adapters.testing.world import World
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.stage import IMAGE_TASK_TYPES, MAINTENANCE_TASK_TYPES, Stage, TaskType

C = Scope("contract-c")


class DispatchContract:
    pytestmark = pytest.mark.asyncio

    async def test_scopes_with_a_claimable_task_are_ready_in_order(self, world: World) -> None:
        for scope in (C, A, B):
            await store_tasks(world, 2, scope=scope)
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, None, 10)) == [A, B, C]
        assert list(await world.dispatch.ready_scopes(TaskType.TEXT, None, 10)) == []

    async def test_every_scope_has_its_turn_behind_the_one_served_last(self, world: World) -> None:
        for scope in (A, B, C):
            await store_tasks(world, 1, scope=scope)
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, A, 10)) == [B, C, A]
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, C, 2)) == [A, B]
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, B, 1)) == [C]

    async def test_the_scope_served_last_need_not_be_ready_any_more(self, world: World) -> None:
        for scope in (A, C):
            await store_tasks(world, 1, scope=scope)
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, B, 10)) == [C, A]

    async def test_running_and_future_tasks_make_no_scope_ready(self, world: World) -> None:
        await running_task(world, scope=A)
        (job,) = await store_jobs(world, 1, scope=B)
        async with world.uow.begin(B) as tx:
            await tx.tasks.add([make_task(job, available_at=await tx.now() + timedelta(hours=1))])
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, None, 10)) == []

    async def test_an_early_future_task_does_not_hide_a_claimable_one(self, world: World) -> None:
        first, second = await store_jobs(world, 2)
        async with world.uow.begin(A) as tx:
            await tx.tasks.add([make_task(first, available_at=await tx.now() + timedelta(hours=1))])
        await store(world, make_task(second))
        assert list(await world.dispatch.ready_scopes(TaskType.VISUAL, None, 10)) == [A]

    async def test_scopes_with_a_due_job_are_due_in_turn(self, world: World) -> None:
        for scope in (A, B, C):
            await store_jobs(world, 1, scope=scope)
        assert list(await world.dispatch.due_scopes(None, 10)) == [A, B, C]
        assert list(await world.dispatch.due_scopes(B, 2)) == [C, A]

    async def test_waiting_and_held_jobs_make_no_scope_due(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme, make_job(meme, due_at=None))
        await store_jobs(world, 1, scope=B)
        async with world.uow.begin(B) as tx:
            await tx.job_claims.claim_due(10, OWNER, MINUTE)
        assert list(await world.dispatch.due_scopes(None, 10)) == []

    async def test_a_due_job_whose_lease_has_expired_makes_its_scope_due(self, world: World) -> None:
        await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            await tx.job_claims.claim_due(10, OWNER, NO_TIME)
        assert list(await world.dispatch.due_scopes(None, 10)) == [A]

    async def test_scopes_with_expired_tasks_of_the_given_types_are_found(self, world: World) -> None:
        await running_task(world, lease=NO_TIME, scope=B)
        await running_task(world, lease=MINUTE, scope=C)
        assert list(await world.dispatch.expired_scopes(IMAGE_TASK_TYPES, None, 10)) == [B]
        assert list(await world.dispatch.expired_scopes(MAINTENANCE_TASK_TYPES, None, 10)) == []

    async def test_scopes_with_expired_tasks_have_their_turn_too(self, world: World) -> None:
        for scope in (A, B, C):
            await running_task(world, lease=NO_TIME, scope=scope)
        assert list(await world.dispatch.expired_scopes(IMAGE_TASK_TYPES, A, 2)) == [B, C]
        assert list(await world.dispatch.expired_scopes(IMAGE_TASK_TYPES, B, 10)) == [C, A, B]

    async def test_scopes_with_a_pending_release_are_found(self, world: World) -> None:
        for scope in (A, B):
            async with world.uow.begin(scope) as tx:
                await tx.releases.add([make_release("key-1")])
        async with world.uow.begin(A) as tx:
            await tx.releases.finish([(Operation.ANALYSIS_AGENT, "key-1")])
        assert list(await world.dispatch.release_scopes(None, 10)) == [B]

    async def test_scopes_with_a_pending_release_have_their_turn_too(self, world: World) -> None:
        for scope in (A, B, C):
            async with world.uow.begin(scope) as tx:
                await tx.releases.add([make_release("key-1")])
        assert list(await world.dispatch.release_scopes(A, 2)) == [B, C]
        assert list(await world.dispatch.release_scopes(B, 10)) == [C, A, B]

    async def test_queued_tasks_are_counted_over_all_scopes_up_to_a_bound(self, world: World) -> None:
        await store_tasks(world, 3, Stage.AGENT, scope=A)
        await store_tasks(world, 2, Stage.AGENT, scope=B)
        await claim(world, stage=Stage.AGENT)
        counts = [await world.dispatch.queued(TaskType.CONTEXT, at_most) for at_most in (10, 4, 3, 0)]
        assert counts == [4, 4, 3, 0]
        assert await world.dispatch.queued(TaskType.TEXT, 10) == 0
