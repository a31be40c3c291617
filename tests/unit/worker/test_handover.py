"""What a worker takes over from its own settling, and what it leaves to those who wait."""

import asyncio
from collections.abc import Sequence

import pytest
from attrs import define, evolve
from tests.unit.usecases.site import Site, holds, never

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.testing.factories import make_job, make_meme, make_task, make_visual_product
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, VISUAL
from imgproc_adapters.testing.seed import OWNER, A, B
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker.worker import ImageProcessingWorker, Pace
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.claim import Claim
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Failed, Succeeded
from imgproc_domain.ports.claims import Dispatch
from imgproc_domain.product import ContextProduct
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.points import Point
from imgproc_domain.vector import Vector

VISUAL_LIMIT = 4
AGENT_LIMIT = 2
SELDOM = Pace(poll=1_000.0, sweep=1_000.0, grace=1.0)


class Interrupted(Exception):
    """Ends what a test wants to end."""


@define(eq=False)
class SlowDispatch:
    """A scan that has been asked and does not answer until it may."""

    inner: Dispatch
    asked: asyncio.Event
    go_on: asyncio.Event

    async def ready_scopes(self, task_type: TaskType, after: Scope | None, limit: int) -> Sequence[Scope]:
        found = await self.inner.ready_scopes(task_type, after, limit)
        self.asked.set()
        await self.go_on.wait()
        return found

    async def queued(self, task_type: TaskType, at_most: int) -> int:
        return await self.inner.queued(task_type, at_most)


def immediate(backpressure: int = 256) -> Site:
    site = Site(backpressure=backpressure)
    site.deployment = evolve(site.deployment, policy=AllowAllPolicy())
    return site


def worker_of(site: Site) -> ImageProcessingWorker:
    return ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store), SELDOM)


def agent_tasks(site: Site) -> list[Task]:
    return [task for task in site.view().tasks if task.task_type is TaskType.CONTEXT]


async def test_what_is_adopted_during_a_scan_takes_no_place_twice() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    for number in range(2 * VISUAL_LIMIT):
        await site.upload(f"cat {number}")
    dispatch = SlowDispatch(site.dispatch, asyncio.Event(), asyncio.Event())
    lane._dispatch = dispatch  # type: ignore[assignment] # a lane asks a dispatch for nothing else
    turn = asyncio.create_task(lane.turn())
    await dispatch.asked.wait()
    kept = lane.keep(VISUAL_LIMIT // 2)
    lane.adopt(await site.claim(TaskType.VISUAL, kept))
    lane.give_back(kept)
    dispatch.go_on.set()
    await turn
    assert (kept, lane.busy) == (VISUAL_LIMIT // 2, VISUAL_LIMIT)
    running = [task for task in site.view().tasks if task.status is TaskStatus.RUNNING]
    assert len(running) == VISUAL_LIMIT
    # others wait, and the lane has seen them
    lane.settled(list(lane._running))
    assert lane.keep(1) == 0
    await lane.finish(0)


async def test_places_of_a_claim_under_way_are_not_kept_for_others() -> None:
    site = Site()
    kept: list[int] = []

    def keep(point: Point) -> None:
        if point is Point.TASK_CLAIMED:
            kept.append(lane.keep(1))

    site.deployment = evolve(site.deployment, passed=keep)
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    await site.upload()
    await lane.turn()
    assert (kept, lane.busy) == ([0], 1)
    await lane.finish(0)


async def test_adopted_executions_that_were_not_started_are_given_back_when_the_lane_ends() -> None:
    site = immediate()
    await site.slots(1)
    await site.upload()
    await site.until_agent()
    lane, settler = site.lane(TaskType.CONTEXT, perform)
    executions = await site.claim(TaskType.CONTEXT)
    lane.adopt(executions)
    assert lane.busy == 1
    assert lane._heartbeat._held == {execution.claim for execution in executions}
    await lane.finish(0)
    settler.close()
    await settler.run()
    (task,) = agent_tasks(site)
    assert (task.status, lane.busy) == (TaskStatus.QUEUED, 0)
    # the same attempt goes on, in the slot that is free again
    (again,) = await site.claim(TaskType.CONTEXT)
    assert again.attempt is not None
    assert (again.attempt.attempt_no, again.attempt.status) == (1, AttemptStatus.PREPARED)
    assert started(site.ledger, AGENT) == []


async def test_an_adopted_execution_whose_lease_was_lost_makes_no_call() -> None:
    site = immediate()
    await site.slots(1)
    await site.upload()
    await site.until_agent()
    lane, settler = site.lane(TaskType.CONTEXT, perform)
    executions = await site.claim(TaskType.CONTEXT)
    lane.adopt(executions)
    lane.lost([execution.claim for execution in executions])
    await lane.turn()
    settler.close()
    await settler.run()
    assert (started(site.ledger, AGENT), lane.busy) == ([], 0)


@pytest.mark.parametrize("ending", ["stopped", "superseded"])
async def test_what_is_handed_to_a_worker_that_takes_no_work_any_more_is_given_back(ending: str) -> None:
    site = immediate()
    await site.slots(1)

    def end(point: Point) -> None:
        if point is Point.SETTLED and not ended.is_set():
            ended.set()
            if ending == "stopped":
                worker._stopping.set()
            else:
                worker._note(superseded=True)

    ended = asyncio.Event()
    site.deployment = evolve(site.deployment, passed=end)
    worker = worker_of(site)
    await worker.start()
    await site.upload()
    await until(holds(ended.is_set))
    await worker.stop()
    (task,) = agent_tasks(site)
    assert (task.status, task.lease.owner) == (TaskStatus.QUEUED, None)
    assert task.lease.generation > 0, "it was handed over"
    assert started(site.ledger, AGENT) == []
    assert len(await site.claim(TaskType.CONTEXT)) == 1


async def test_a_worker_that_is_being_stopped_begins_nothing_that_is_handed_to_it() -> None:
    site = immediate()
    await site.upload()
    worker = worker_of(site)
    worker._stopping.set()
    worker._adopt(await site.claim(TaskType.VISUAL))
    assert worker._lanes[TaskType.VISUAL].busy == 0
    worker._settler.close()
    await worker._settler.run()
    assert started(site.ledger, VISUAL) == []
    assert [task.status for task in site.view().tasks] == [TaskStatus.QUEUED]


async def test_what_a_superseded_worker_has_adopted_and_not_started_is_given_back() -> None:
    site = immediate()
    await site.slots(1)
    await site.upload()
    await site.until_agent()
    worker = worker_of(site)
    worker._adopt(await site.claim(TaskType.CONTEXT))
    worker._note(superseded=True)
    worker._settler.close()
    await worker._settler.run()
    assert [task.status for task in agent_tasks(site)] == [TaskStatus.QUEUED]


async def test_a_worker_takes_a_picture_from_stage_to_stage_although_it_never_scans() -> None:
    site = immediate()
    await site.slots(1)
    await site.upload()
    await site.reconcile()
    worker = worker_of(site)
    visual = worker._lanes[TaskType.VISUAL]
    for lane in worker._lanes.values():
        if lane is not visual:
            await lane.turn()
    settling = asyncio.create_task(worker._settler.run())
    await visual.turn()
    context = worker._lanes[TaskType.CONTEXT]

    async def done() -> bool | None:
        await context._start_adopted()
        return site.newest().status is JobStatus.SUCCEEDED or None

    await until(done)
    worker._settler.close()
    await settling
    assert [task.lease.generation for task in site.view().tasks] == [1, 1, 1]
    assert [lane.busy for lane in worker._lanes.values()] == [0, 0, 0]


async def test_the_room_for_agents_is_what_backpressure_leaves_of_an_immediate_policy() -> None:
    site = immediate(backpressure=2)
    worker = worker_of(site)
    rooms = [await worker._room()]
    await site.upload("cat")
    await site.until_agent()
    rooms.append(await worker._room())
    await site.upload("dog", B)
    await site.until_agent(B)
    rooms.append(await worker._room())
    assert rooms == [2, 1, 0]
    assert await worker_of(Site())._room() == 0


def claim_of(meme: Meme) -> Claim:
    return Claim(meme.scope, make_task(make_job(meme)).task_id, OWNER, 1)


def described() -> Settling:
    """A result that opens the embedding of a text."""
    meme = make_meme()
    sha256 = meme.picture.sha256
    provenance = Provenance(Origin.AGENT, sha256)
    product = ContextProduct(meme.meme_id, sha256, Description(title="a cat"), ContextStatus.READY, provenance)
    return Settling(claim_of(meme), None, Succeeded(product))


def seen() -> Settling:
    """A result that opens a call of the agent."""
    meme = make_meme()
    product = make_visual_product(meme, Vector.unit([1.0]), VectorSpace("space", 1))
    return Settling(claim_of(meme), None, Succeeded(product))


async def interrupted(worker: ImageProcessingWorker, places: list[int]) -> None:
    async with worker._offer([described()]) as (handover, _):
        assert handover is not None
        assert handover.owner == worker._owner
        places.append(handover.places[TaskType.TEXT])
        raise Interrupted


async def test_places_that_were_offered_and_not_used_are_free_again() -> None:
    site = immediate()
    worker = worker_of(site)
    lane = worker._lanes[TaskType.TEXT]
    await lane.turn()
    places: list[int] = []
    for _ in range(2):
        with pytest.raises(Interrupted):
            await interrupted(worker, places)
        assert lane.busy == 0
    assert places == [1, 1]
    worker._stopping.set()
    async with worker._offer([described()]) as (handover, _):
        assert handover is not None
        assert (handover.places, lane.busy) == ({}, 0)


async def test_the_tasks_of_a_scope_that_waits_come_before_what_a_settling_opens() -> None:
    site = immediate()
    await site.slots(AGENT_LIMIT + 1)
    await site.upload("cat", A)
    for number in range(AGENT_LIMIT + 1):
        await site.upload(f"dog {number}", B)
    await site.until_agent(B)
    await site.reconcile(A)
    worker = worker_of(site)
    visual, context = worker._lanes[TaskType.VISUAL], worker._lanes[TaskType.CONTEXT]
    await visual.turn()
    # there are places and slots for all but one of B's tasks, and one of each is free when A's picture is settled
    await context.turn()
    context.settled(list(context._running)[:1])
    assert context.busy == AGENT_LIMIT - 1
    worker._settler.close()
    for running in [task for task in visual._running.values() if task is not None]:
        await asyncio.wait([running])
    await asyncio.sleep(0)
    await worker._settler.run()
    assert [task.lease.generation for task in agent_tasks(site)] == [0]
    await context.finish(0)


async def test_only_what_a_settling_opens_keeps_places() -> None:
    site = immediate()
    worker = worker_of(site)
    for lane in worker._lanes.values():
        await lane.turn()
    ended = Settling(claim_of(make_meme()), None, Succeeded(None))
    failed = evolve(seen(), outcome=Failed(Diagnosis(ErrorCode.VISUAL_FAILED, "no")))
    async with worker._offer([seen(), seen(), described(), ended, failed]) as (handover, _):
        assert handover is not None
        assert (handover.places, handover.room) == ({TaskType.CONTEXT: 2, TaskType.TEXT: 1}, 256)
        assert [lane.busy for lane in worker._lanes.values()] == [2, 1, 0]
    async with worker._offer([described(), ended, failed]) as (handover, _):
        assert handover is not None
        # nobody asks how many agent tasks wait where none is opened
        assert (handover.places, handover.room) == ({TaskType.TEXT: 1}, 0)


async def test_no_place_is_kept_for_agents_that_backpressure_holds_up() -> None:
    site = immediate(backpressure=1)
    await site.upload()
    await site.until_agent()
    worker = worker_of(site)
    for task_type in (TaskType.TEXT, TaskType.VISUAL):
        await worker._lanes[task_type].turn()
    async with worker._offer([seen(), described()]) as (handover, _):
        assert handover is not None
        assert (handover.places, handover.room) == ({TaskType.TEXT: 1}, 0)
