"""Those who recover may die too, as often as it pleases them: the next one goes on from what they left."""

from datetime import timedelta

import pytest
from attrs import evolve
from tests.integration.crash.program import Step
from tests.integration.crash.scene import Open, attempts_of, taken, task_of
from tests.integration.crash.site import DEADLINE, LEASE, SCOPE
from tests.integration.crash.table import EXPIRY, Left, ending, nth

from imgproc_adapters.testing.crash import Death
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, LOOK_UP
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.stage import IMAGE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.recover import expire_leases

WITHOUT_CALL = (Point.TASK_CLAIMED, Death.PASSED, Left.PREPARED, Replay.NEVER)
IN_CALL = (Point.EXTERNAL_STARTED, Death.CALLING, Left.CALLING, Replay.NEVER)
DYING = [(Step.BEGUN, Death.COMMITTING), *(each for each in EXPIRY if each[1] is not Death.REPLY_LOST)]


@pytest.mark.parametrize("first", [WITHOUT_CALL, IN_CALL], ids=lambda first: first[2].name)
@pytest.mark.parametrize(("second", "death"), DYING, ids=str)
async def test_a_worker_that_dies_taking_leases_away_leaves_what_it_found(
    first: tuple[Point, Death, Left, Replay], second: Point | Step, death: Death, scene: Open
) -> None:
    point, first_death, left, replay = first
    here = await scene(replay)
    await here.upload()
    await here.dies_at(Stage.AGENT, point, first_death)
    await here.expect_left(Stage.AGENT, left)
    await here.elapse(LEASE)
    before = await here.view()
    await here.dies(second, death)

    found = await here.view()
    check_invariants(found, before)
    task, lost = task_of(found, Stage.AGENT), task_of(before, Stage.AGENT)
    assert task is not None
    assert lost is not None
    taken_away = second is Point.LEASES_EXPIRED
    assert task.status is (TaskStatus.QUEUED if taken_away else TaskStatus.RUNNING)
    assert task.lease.generation == lost.lease.generation + taken_away
    assert attempts_of(found, Stage.AGENT) == attempts_of(before, Stage.AGENT)

    outcome = ending(left, replay).value
    async with here.working():
        await here.over(outcome)
    await here.expect_ended(Stage.AGENT, outcome, before)


@pytest.mark.parametrize("second", [Step.BEGUN, Point.LEASES_EXPIRED], ids=str)
async def test_a_worker_that_loses_a_reply_while_it_takes_leases_away_goes_on(
    second: Point | Step, scene: Open
) -> None:
    here = await scene()
    await here.upload()
    await here.dies_at(Stage.AGENT, Point.TASK_CLAIMED)
    before = await here.expect_left(Stage.AGENT, Left.PREPARED)
    await here.elapse(LEASE)
    outcome = ending(Left.PREPARED, Replay.NEVER).value
    async with here.unlucky(second):
        if second is Point.LEASES_EXPIRED:
            # its own claim, that it does not know of, has to run out too
            await here.elapse(LEASE)
        await here.over(outcome)
    await here.expect_ended(Stage.AGENT, outcome, before)


async def test_an_answer_that_was_looked_up_is_looked_up_again_if_its_finder_dies(scene: Open) -> None:
    here = await scene(Replay.LOOKUP, slots=3)
    await here.upload()
    await here.dies_at(Stage.AGENT, Point.CALL_ENDED)
    before = await here.expect_left(Stage.AGENT, Left.ANSWERED)
    await here.elapse(LEASE)
    await here.dies(Point.CALL_ENDED)
    assert await here.expect_left(Stage.AGENT, Left.ANSWERED)
    await here.elapse(LEASE)
    async with here.working():
        await here.rest()

    view = await here.view()
    check_invariants(view, before)
    (attempt,) = attempts_of(view, Stage.AGENT)
    assert attempt.status is AttemptStatus.COMPLETED
    assert started(here.site.ledger, AGENT) == [attempt.attempt_id]
    assert started(here.site.ledger, LOOK_UP) == [attempt.attempt_id] * 2
    assert view.jobs[0].status is JobStatus.SUCCEEDED
    await here.expect_rest()


async def test_a_call_that_may_be_running_keeps_its_slot_until_its_hard_deadline(scene: Open) -> None:
    here = await scene(Replay.SAFE, slots=1)
    await here.upload()
    await here.dies_at(Stage.AGENT, Point.EXTERNAL_STARTED, Death.CALLING)
    before = await here.expect_left(Stage.AGENT, Left.CALLING)
    await here.elapse(LEASE)
    deployment = here.deployment()
    assert await expire_leases(deployment, SCOPE, IMAGE_TASK_TYPES, 10) == 1

    # although the task could be repeated at once
    assert not await claim_tasks(deployment, SCOPE, TaskType.CONTEXT, 10, OWNER)
    view = await here.view()
    (attempt,), (slot,) = attempts_of(view, Stage.AGENT), taken(view)
    assert slot.free_at == attempt.hard_deadline_at
    await here.elapse(DEADLINE)
    outcome = ending(Left.CALLING, Replay.SAFE).value
    async with here.working():
        await here.over(outcome)
    await here.expect_ended(Stage.AGENT, evolve(outcome, busy=0), before)


async def test_a_picture_that_kills_every_worker_is_given_up(scene: Open) -> None:
    here = await scene()
    await here.upload()
    for _ in range(RetryPolicy().max_lease_losses):
        await here.dies(Point.EXTERNAL_STARTED, Death.CALLING, stage=Stage.VISUAL)
        await here.elapse(LEASE)
    async with here.working():
        await here.rest()

    view = await here.view()
    check_invariants(view)
    (task,), (job,) = view.tasks, view.jobs
    assert (task.status, job.status) == (TaskStatus.FAILED, JobStatus.FAILED)
    assert task.error is not None
    assert task.error.code is ErrorCode.LEASE_EXHAUSTED
    made = [attempt.status for attempt in attempts_of(view, Stage.VISUAL)]
    assert made == [AttemptStatus.FAILED] * RetryPolicy().max_lease_losses
    assert here.phases(Stage.VISUAL) == ("started",) * RetryPolicy().max_lease_losses
    await here.expect_rest()


@pytest.mark.parametrize("point", [Point.TASK_CLAIMED, Point.CALL_ENDED], ids=str)
async def test_leases_run_out_by_themselves(point: Point, scene: Open) -> None:
    # nothing is set back: however slow the machine is, what is promised of calls holds
    here = await scene(Replay.LOOKUP, lease=timedelta(seconds=1))
    await here.upload()
    await here.dies(point, times=nth(Stage.AGENT, point))
    async with here.working():
        await here.rest()
    view = await here.view()
    check_invariants(view)
    assert [job.status for job in view.jobs] == [JobStatus.SUCCEEDED]
    called = started(here.site.ledger, AGENT)
    assert len(called) == len(set(called))
    await here.expect_rest()
