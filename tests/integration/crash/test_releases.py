"""What is reserved for a picture and never used is given back, exactly once, whoever dies on the way."""

import pytest
from tests.integration.crash.scene import Open, Scene, attempts_of, task_of
from tests.integration.crash.site import LEASE, SCOPE, Policy
from tests.integration.crash.table import DELETED, RELEASES, Left, Owed, Reserved

from imgproc_adapters.testing.crash import Death
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import DenialReason, Denied
from imgproc_domain.stage import Lane, Stage
from imgproc_domain.usecases.advance import agent_request
from imgproc_domain.usecases.edit import delete_meme
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.reconcile import reconcile_due

DYING = [(point, death, owed) for (point, death), owed in RELEASES.items() if death is not Death.REPLY_LOST]
LOSING = [point for point, death in RELEASES if death is Death.REPLY_LOST]


async def with_a_task_for_nothing(here: Scene) -> None:
    """Leave an agent task without a call, whose picture is gone and whose job is over."""
    meme = (await here.upload()).meme
    if here.site.policy is Policy.ALLOW_ALL:
        # with a slot it would be handed over by what opens it, its grant committed
        await slots(here, 0)
        await here.dies_at(Stage.VISUAL, Point.SETTLED)
        await here.expect_left(Stage.AGENT, Left.QUEUED)
        await slots(here, 1)
    else:
        await here.dies_at(Stage.AGENT, Point.STAGE_OPENED)
        await here.expect_left(Stage.AGENT, Left.QUEUED)
    await delete_meme(here.deployment(), SCOPE, meme.meme_id)
    assert await reconcile_due(here.deployment(), here.dispatch, SCOPE, OWNER, 10) == 1


async def slots(here: Scene, count: int) -> None:
    async with here.uow.begin(SCOPE) as tx:
        await tx.slots.resize(Lane.AGENT, count)


async def expect_given_back(here: Scene) -> None:
    """Check that the grant was given back, that no call was made, and that its key is never acquired again."""
    view = await here.view()
    check_invariants(view)
    task, (grant,), (job,) = task_of(view, Stage.AGENT), view.grants, view.jobs
    assert (job.status, grant.status) == (JobStatus.FAILED, GrantStatus.RELEASED)
    assert task is not None
    assert task.error is not None
    assert task.error.code is ErrorCode.TARGET_CHANGED
    assert [attempt.status for attempt in attempts_of(view, Stage.AGENT)] == [AttemptStatus.FAILED]
    assert here.phases(Stage.AGENT) == ()
    if here.site.policy is Policy.QUOTA:
        assert await here.reservations() == [Reserved.RETURNED]
        answer = await here.deployment().policy.acquire(agent_request(job))
        assert isinstance(answer, Denied)
        assert answer.reason is DenialReason.FORBIDDEN
    await here.expect_rest()


async def expect_owed(here: Scene, owed: Owed) -> None:
    assert await here.pending_releases() == owed.value.pending
    assert await here.reservations() == [owed.value.reserved]


@pytest.mark.parametrize(("point", "death", "owed"), DYING, ids=str)
async def test_a_release_is_told_by_whoever_comes_next(point: Point, death: Death, owed: Owed, scene: Open) -> None:
    here = await scene()
    await with_a_task_for_nothing(here)
    await here.dies(point, death)
    await expect_owed(here, owed)
    async with here.working():
        await here.rest()
    await expect_given_back(here)


@pytest.mark.parametrize("point", LOSING, ids=str)
async def test_a_worker_that_loses_a_reply_tells_a_release_all_the_same(point: Point, scene: Open) -> None:
    here = await scene()
    await with_a_task_for_nothing(here)
    async with here.unlucky(point):
        await here.rest()
    await expect_given_back(here)


async def test_a_policy_that_remembers_nothing_is_told_too(scene: Open) -> None:
    here = await scene(policy=Policy.ALLOW_ALL)
    await with_a_task_for_nothing(here)
    await here.dies(Point.RELEASE_TOLD)
    assert await here.pending_releases() == 1
    async with here.working():
        await here.rest()
    await expect_given_back(here)


@pytest.mark.parametrize("point", DELETED, ids=str)
async def test_a_picture_deleted_after_the_death_costs_what_may_have_been_called(point: Point, scene: Open) -> None:
    here, given = await scene(), DELETED[point]
    meme = (await here.upload()).meme
    await here.dies_at(Stage.AGENT, point)
    before = await here.view()
    await delete_meme(here.deployment(), SCOPE, meme.meme_id)
    await here.elapse(LEASE)
    async with here.working():
        await here.rest()

    view = await here.view()
    check_invariants(view, before)
    assert [grant.status for grant in view.grants] == ([given.grant] if given.grant else [])
    made = [attempt.status for attempt in attempts_of(view, Stage.AGENT)]
    assert made == ([given.attempt] if given.attempt else [])
    assert await here.reservations() == [given.reserved]
    assert here.phases(Stage.AGENT) == ()
    assert [job.status for job in view.jobs] == [JobStatus.FAILED]
    await here.expect_rest()
