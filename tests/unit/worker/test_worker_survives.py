"""Ways in which a worker, a lane or a sweep once got stuck."""

import asyncio
import threading
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site, holds, turns

from imgproc_adapters.memory import (
    MemoryListener,
)
from imgproc_adapters.testing.factories import (
    make_job,
    make_meme,
    make_task,
)
from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.seed import NO_TIME, OWNER, A, B, store
from imgproc_adapters.testing.waiting import until
from imgproc_adapters.testing.world import World
from imgproc_app.worker.heartbeat import HeartbeatThread
from imgproc_app.worker.worker import ImageProcessingWorker, Pace
from imgproc_domain.claim import Claim
from imgproc_domain.outcome import Outcome
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.perform import perform


async def test_a_full_agent_queue_admits_every_scope_in_turn() -> None:
    site = Site(backpressure=1)
    await site.slots(10)
    for number in range(6):
        await site.upload(f"cat {number}", A)
    await site.upload("dog", B)
    worker = ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store))
    await worker._reconcile()
    for scope in (A, B):
        await site.run(TaskType.VISUAL, scope)
    admitted: list[Scope] = []
    for _ in range(4):
        await worker._reconcile()
        for scope in (A, B):
            claimed = await site.claim(TaskType.CONTEXT, scope=scope)
            admitted.extend(execution.task.scope for execution in claimed)
            await site.finish(claimed, scope)
    assert B in admitted


async def test_when_slots_are_short_every_scope_gets_one_in_turn() -> None:
    site = Site(lane=2)
    await site.slots(1)
    for number in range(6):
        await site.upload(f"cat {number}", A)
    await site.upload("dog", B)
    for scope in (A, B):
        await site.until_agent(scope)
    served: list[Scope] = []

    async def performing(deployment: Deployment, execution: Execution) -> Outcome:
        served.append(execution.task.scope)
        return await perform(deployment, execution)

    lane, settler = site.lane(TaskType.CONTEXT, performing)
    settling = asyncio.create_task(settler.run())
    for _ in range(4):
        await lane.turn()
        await until(holds(lambda: lane.busy == 0))
    settler.close()
    await settling
    assert B in served


async def test_a_claim_lost_before_its_call_began_leaves_the_lane() -> None:
    site = Site()
    await site.upload()
    await site.reconcile()
    lane, _ = site.lane(TaskType.VISUAL, perform)
    await lane.turn()
    lost: Collection[Claim] = [row.claim for row in site.view().tasks]
    lane.lost(lost)
    await turns()
    assert lane.busy == 0


async def test_a_maintenance_task_that_meets_a_database_failure_leaves_the_lane() -> None:
    # an exception that nobody retrieves is reported whenever its task is collected, which may be in another test
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    site = Site()
    await request_generation(site.deployment, A)
    lane, settler = site.lane(TaskType.CACHE, build_generation)
    settling = asyncio.create_task(settler.run())
    site.uow.plan(Fault.NONE, Fault.REFUSED)
    await lane.turn()
    await turns()
    busy = lane.busy
    settler.close()
    await settling
    assert busy == 0


class BrokenOnce:
    """A heartbeat whose first renewal raises what no adapter should."""

    def __init__(self) -> None:
        self.renewals = 0

    def renew(self, claims: Collection[Claim], lease: timedelta) -> Collection[Claim]:
        del claims, lease
        self.renewals += 1
        if self.renewals == 1:
            raise ValueError("unexpected")
        return []

    def close(self) -> None:
        """Nothing is open."""


async def test_the_heartbeat_outlives_any_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    site = Site()
    await site.upload()
    await site.reconcile()
    (execution,) = await site.claim(TaskType.VISUAL)
    broken = BrokenOnce()
    thread = HeartbeatThread(broken, timedelta(milliseconds=3), lambda _: None)
    thread.hold([execution.claim])
    thread.start()
    with suppress(TimeoutError):
        await until(holds(lambda: broken.renewals > 1), 0.5)
    thread.stop()
    assert broken.renewals > 1


class BrokenScope:
    """A unit of work that one scope's rows break, as a bug over an unforeseen row does."""

    def __init__(self, inner: UnitOfWork, broken: Scope) -> None:
        self._inner = inner
        self._broken = broken

    def begin(self, scope: Scope) -> AbstractAsyncContextManager[Transaction]:
        if scope == self._broken:
            raise RuntimeError("a bug")
        return self._inner.begin(scope)


async def test_leases_expire_in_every_scope_although_one_scope_always_fails() -> None:
    site = Site()
    world = World(site.uow, site.dispatch, site.heartbeat, lambda: MemoryListener(site.store))
    for scope in (A, B):
        meme = make_meme(scope)
        job = make_job(meme)
        await store(world, meme, job, make_task(job))
        async with site.uow.begin(scope) as tx:
            await tx.claims.claim(TaskType.VISUAL, 1, OWNER, NO_TIME)
    deployment = evolve(site.deployment, uow=BrokenScope(site.uow, A))
    pace = Pace(poll=0.01, sweep=0.01, grace=1.0)
    worker = ImageProcessingWorker(deployment, site.dispatch, site.heartbeat, MemoryListener(site.store), pace)
    await worker.start()
    try:
        with suppress(TimeoutError):
            await until(holds(lambda: any(task.lease_losses for task in site.view(B).tasks)), 0.5)
    finally:
        await worker.stop()
    assert any(task.lease_losses for task in site.view(B).tasks)
