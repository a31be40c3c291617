"""What a worker must let go of: a lease lost before its call began, a database that is gone, a release that fails."""

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from attrs import define, evolve
from tests.unit.usecases.site import Site, turns

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.factories import make_job, make_meme, make_release, make_task
from imgproc_adapters.testing.observer import PATIENCE
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import OWNER, A
from imgproc_app.worker.settler import Settler
from imgproc_app.worker.worker import ImageProcessingWorker
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.claim import Claim
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.outcome import Outcome, Succeeded
from imgproc_domain.policy import Operation
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.points import Point


@pytest.mark.parametrize("task_type", [TaskType.VISUAL, TaskType.CONTEXT])
async def test_a_lease_lost_while_its_call_is_started_makes_no_call(task_type: TaskType) -> None:
    # a pure local call is started by its claim: there is nothing between the two
    site = Site(local=Replay.NEVER)
    await site.slots(2)
    for name in ("cat", "dog"):
        await site.upload(name)
    await site.reconcile()
    if task_type is TaskType.CONTEXT:
        await site.run(TaskType.VISUAL)
        await site.reconcile()
    called: list[Claim] = []

    async def performing(deployment: Deployment, execution: Execution) -> Outcome:
        called.append(execution.claim)
        return await perform(deployment, execution)

    def lose_the_first(point: Point) -> None:
        # the news arrives when the call is persisted as started and before it has begun
        if point is Point.EXTERNAL_STARTED:
            lane.lost([claims()[0]])

    def claims() -> list[Claim]:
        tasks = [task for task in site.view().tasks if task.task_type is task_type and task.lease.owner]
        return sorted((task.claim for task in tasks), key=lambda claim: claim.task_id)

    site.deployment = evolve(site.deployment, passed=lose_the_first)
    lane, settler = site.lane(task_type, performing)
    settling = asyncio.create_task(settler.run())
    await lane.turn()
    lost, going = claims()
    await turns()
    settler.close()
    await settling
    assert (called, lane.busy) == ([going], 0)
    (left,) = [task for task in site.view().tasks if task.task_id == lost.task_id]
    (attempt,) = [attempt for attempt in site.view().attempts if attempt.task_id == lost.task_id]
    assert (left.status, attempt.status) == (TaskStatus.RUNNING, AttemptStatus.EXTERNAL_STARTED), "recovery decides"


@define
class Gone:
    """A unit of work whose database is gone: it refuses at once, or never answers."""

    silent: bool
    asked: int = 0

    def begin(self, scope: Scope) -> "AbstractAsyncContextManager[Transaction]":
        self.asked += 1
        return self

    async def __aenter__(self) -> Transaction:
        if self.silent:
            await asyncio.Event().wait()
        raise DatabaseUnavailable("no answer")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("nothing was entered")


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("closed_first", [False, True])
async def test_a_settler_ends_within_one_lease_however_many_scopes_wait(*, silent: bool, closed_first: bool) -> None:
    # were it a lease a scope, it would take longer than the patience
    lease, scopes = timedelta(seconds=0.2), [Scope(f"scope-{number}") for number in range(int(PATIENCE * 10))]
    site = Site()
    uow = Gone(silent)
    deployment = evolve(site.deployment, uow=uow, limits=evolve(site.deployment.limits, lease=lease))
    over: list[Claim] = []

    def done(claims: Collection[Claim]) -> None:
        over.extend(claims)

    settler = Settler(deployment, done, 0.01)
    claims = [Claim(scope, make_task(make_job(make_meme(scope))).task_id, OWNER, 1) for scope in scopes]
    for claim in claims:
        settler.put(Settling(claim, None, Succeeded(None)))
    if closed_first:
        settler.close()
    settling = asyncio.create_task(settler.run())
    await turns()
    settler.close()
    await asyncio.wait_for(settling, PATIENCE)
    settler.close()
    assert sorted(over, key=lambda claim: claim.task_id) == claims
    assert uow.asked >= 1


class Refusing(RememberingPolicy):
    """A policy that cannot take back what some scopes return."""

    def __init__(self, refused: Collection[Scope]) -> None:
        super().__init__()
        self._refused = refused

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        return scope not in self._refused and await super().release(scope, operation, logical_request_key)


async def test_a_scope_is_released_although_those_before_it_always_fail() -> None:
    failing, last = [Scope(f"scope-{number:03}") for number in range(100)], Scope("the-last")
    policy = Refusing(failing)
    site = Site(policy=policy)
    for scope in (*failing, last):
        async with site.uow.begin(scope) as tx:
            await tx.releases.add([make_release("key-1")])
    worker = ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store))
    released = [await worker._release() for _ in range(5)]
    assert released.count(True) == 1
    assert (last, Operation.ANALYSIS_AGENT, "key-1") in policy.known
    async with site.uow.begin(A) as tx:
        assert await tx.releases.pending(1) == []
