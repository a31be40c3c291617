"""Who goes first in a lane: what is handed over takes no place that somebody waits for (I12), and none twice (I18)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site, holds, never, turns

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.memory.claims import MemoryClaims
from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.models import ScriptedTextModel
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker.lane import LaneRunner
from imgproc_app.worker.worker import ImageProcessingWorker, Pace
from imgproc_domain.claim import Claim
from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ports.models import Declined
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.configuration import take_over
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.points import Point

VISUAL_LIMIT = 4
AGENT_LIMIT = 2
SCOPES_A_TURN = 16
SOON = 0.02
SELDOM = Pace(poll=1_000.0, sweep=1_000.0)


def believes(lane: LaneRunner) -> bool:
    """Whether what is handed over gets a place."""
    kept = lane.keep(1)
    lane.give_back(kept)
    return kept > 0


async def test_a_lane_keeps_places_once_it_knows_that_nobody_waits_for_them() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never)
    assert lane.keep(1) == 0
    await lane.turn()
    # what is wanted, no more, and the last place too
    kept = [lane.keep(0), lane.keep(1), lane.keep(2), lane.keep(2), lane.keep(1)]
    assert kept == [0, 1, 2, 1, 0]
    assert lane.busy == VISUAL_LIMIT
    lane.give_back(VISUAL_LIMIT)
    assert (lane.busy, lane.keep(2 * VISUAL_LIMIT)) == (0, VISUAL_LIMIT)


async def test_a_lane_keeps_no_place_that_others_wait_for() -> None:
    site = Site()
    for number in range(VISUAL_LIMIT + 1):
        await site.upload(f"cat {number}")
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    assert lane.busy == VISUAL_LIMIT
    lane.settled(list(lane._running)[:1])
    assert (lane.busy, lane.keep(1)) == (VISUAL_LIMIT - 1, 0)
    # this one claims the last, and cannot know that it is; the next one does
    await lane.turn()
    lane.settled(list(lane._running)[:1])
    assert lane.keep(1) == 0
    await lane.turn()
    assert lane.keep(1) == 1
    await lane.finish(0)


async def test_a_lane_keeps_no_place_while_more_scopes_may_wait_than_it_saw() -> None:
    # so many places that each scope it sees has more of them than tasks
    site = Site(places=3 * SCOPES_A_TURN)
    lane, _ = site.lane(TaskType.VISUAL, never)
    for number in range(SCOPES_A_TURN + 1):
        await site.upload("cat", Scope(f"scope-{number}"))
    await lane.turn()
    assert (lane.busy, believes(lane)) == (SCOPES_A_TURN, False)
    await lane.turn()
    assert (lane.busy, believes(lane)) == (SCOPES_A_TURN + 1, True)
    await lane.finish(0)


async def test_an_agent_lane_that_waits_for_a_slot_keeps_no_place() -> None:
    site = Site()
    await site.slots(1)
    for name in ("cat", "dog"):
        await site.upload(name)
    await site.until_agent()
    (elsewhere,) = await site.claim(TaskType.CONTEXT)
    lane, _ = site.lane(TaskType.CONTEXT, never)
    assert not await lane.turn()
    assert (lane.busy, lane.keep(1)) == (0, 0)
    assert elsewhere.task.status is TaskStatus.RUNNING


async def test_a_full_lane_keeps_its_next_place_for_those_who_rang() -> None:
    site = Site()
    await site.slots(4)
    lane, _ = site.lane(TaskType.CONTEXT, never)
    for number in range(AGENT_LIMIT):
        await site.upload(f"cat {number}", A)
    await lane.turn()
    await site.until_agent(A)
    lane.adopt(await site.claim(TaskType.CONTEXT, AGENT_LIMIT))
    await lane.turn()
    await site.upload("dog", B)
    await site.until_agent(B)
    lane.ring()
    assert not await lane.turn()
    lane.settled(list(lane._running)[:1])
    assert lane.keep(1) == 0
    await lane.turn()
    assert {claim.scope for claim in lane._running} == {A, B}
    await lane.finish(0)


async def test_a_lane_that_was_full_of_kept_places_looks_again_when_they_are_free() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    kept = [lane.keep(2), lane.keep(1), lane.keep(1)]
    assert (sum(kept), lane.busy) == (VISUAL_LIMIT, VISUAL_LIMIT)
    await site.upload("cat")
    assert not await lane.turn()
    assert [lane.give_back(places) for places in kept] == [True, False, False]
    assert await lane.turn()
    await lane.finish(0)


async def test_an_agent_lane_knows_whether_slots_or_tasks_ran_out() -> None:
    site = Site(lane=4)
    await site.slots(2)
    for name in ("cat", "dog", "cow"):
        await site.upload(name)
    await site.until_agent()
    lane, _ = site.lane(TaskType.CONTEXT, never)
    # one task less than it had places for, and all that there were slots for: the third waits
    assert await lane.turn()
    assert (lane.busy, believes(lane)) == (2, False)
    await site.slots(4)
    assert await lane.turn()
    assert (lane.busy, believes(lane)) == (3, True)
    await lane.finish(0)


async def test_places_of_executions_that_end_in_the_same_batch_are_kept_once() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    for number in range(VISUAL_LIMIT):
        await site.upload(f"cat {number}")
    lane.adopt(await site.claim(TaskType.VISUAL, VISUAL_LIMIT))
    first, second, *others = lane._running
    (elsewhere,) = await stranger()
    assert lane.keep(1) == 0
    assert lane.keep(VISUAL_LIMIT, [first, second, elsewhere]) == 2
    # until it is written, nothing is claimed for the places of another batch's executions, nor kept for it
    assert (await lane.turn(), lane.keep(1)) == (False, 0)
    another = lane.keep(VISUAL_LIMIT, others[:1])
    assert another <= 1
    lane.give_back(another)
    lane.settled([first, second])
    assert lane.busy == VISUAL_LIMIT
    lane.give_back(2)
    assert lane.keep(VISUAL_LIMIT) == 2
    await lane.finish(0)


async def stranger() -> list[Claim]:
    """Return the claim of another worker's execution."""
    site = Site()
    await site.upload()
    return [execution.claim for execution in await site.claim(TaskType.VISUAL)]


async def test_nobody_goes_before_those_who_rang_until_the_lane_has_looked() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never)
    await lane.turn()
    assert believes(lane)
    lane.ring()
    assert not believes(lane)
    await lane.turn()
    assert believes(lane)


async def test_a_lane_that_is_rung_while_it_looks_looks_again() -> None:
    site = Site()
    site.deployment = evolve(site.deployment, passed=lambda point: lane.ring() if point is Point.TASK_CLAIMED else None)
    lane, _ = site.lane(TaskType.VISUAL, never)
    await site.upload()
    await lane.turn()
    assert not believes(lane)
    await lane.turn()
    assert believes(lane)
    await lane.finish(0)


async def test_a_worker_rings_the_lanes_it_hears_of_and_no_others() -> None:
    site = Site()
    listener = MemoryListener(site.store)
    worker = ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, listener, SELDOM)
    await listener.start()
    for lane in worker._lanes.values():
        await lane.turn()
    listening = asyncio.create_task(worker._listen())
    await site.upload()
    await turns()
    listening.cancel()
    await listener.close()
    doubted = {task_type for task_type, lane in worker._lanes.items() if not believes(lane)}
    assert doubted == {TaskType.VISUAL}


async def test_a_look_is_believed_until_the_next_one_is_due() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, never, SOON)
    await lane.turn()
    await until(holds(lambda: not believes(lane)))
    patient, _ = site.lane(TaskType.VISUAL, never)
    await patient.turn()
    assert believes(patient)


async def test_a_retry_that_comes_due_is_not_starved_by_what_is_handed_over() -> None:
    site = Site()
    site.visual.script.then(Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "busy"), transient=True))
    await site.upload("dog", B)
    await site.run(TaskType.VISUAL, B)
    lane, _ = site.lane(TaskType.VISUAL, never, SOON)
    await lane.turn()
    assert lane.busy == 0, "it is not due yet"
    site.clock.advance(site.deployment.limits.retry.backoff(1))
    rounds = 0

    async def served() -> bool | None:
        """Hand over as much as there is room for, and end it: nothing rings, and the lane has its turns."""
        nonlocal rounds
        rounds += 1
        for number in range(VISUAL_LIMIT):
            await site.upload(f"cat {rounds} {number}")
        kept = lane.keep(VISUAL_LIMIT)
        lane.adopt(await site.claim(TaskType.VISUAL, kept) if kept else [])
        lane.give_back(kept)
        await lane.turn()
        done = any(claim.scope == B for claim in lane._running)
        lane.settled(list(lane._running))
        return done or None

    await until(served)
    (task,) = site.view(B).tasks
    assert task.status is TaskStatus.RUNNING


async def test_an_unsuccessful_look_is_not_believed() -> None:
    site = Site()
    lane, _ = site.lane(TaskType.VISUAL, perform)
    await lane.turn()
    assert believes(lane)
    await site.upload()
    site.uow.plan(Fault.REFUSED)
    with pytest.raises(DatabaseUnavailable):
        await lane.turn()
    assert not believes(lane)


async def test_a_superseded_lane_claims_once_for_nothing_and_asks_first_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    claim = MemoryClaims.claim

    async def noted(claims: MemoryClaims, task_type: TaskType, limit: int, *rest: Any) -> Sequence[Task]:
        made.append(limit)
        return await claim(claims, task_type, limit, *rest)

    monkeypatch.setattr(MemoryClaims, "claim", noted)
    site = Site()
    await site.upload()
    text = ScriptedTextModel(space=VectorSpace("scripted-text-2", 64), ledger=site.ledger)
    await take_over(evolve(site.deployment, text=text), A)
    lane, _ = site.lane(TaskType.VISUAL, never)
    for _ in range(3):
        assert not await lane.turn()
    assert made == [VISUAL_LIMIT]
    assert [(task.status, task.lease.generation) for task in site.view().tasks] == [(TaskStatus.QUEUED, 0)]
    await take_over(site.deployment, A)
    assert await lane.turn()
    assert (lane.busy, made) == (1, [VISUAL_LIMIT] * 2)
    await lane.finish(0)
