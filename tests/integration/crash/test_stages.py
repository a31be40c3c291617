"""A worker dies at every point that a job passes, or loses a reply there; the next one makes of it what the table says.

The table is in `table.py`. Each death is that of a real process, and recovery is another process's: this one's.
"""

from collections.abc import Collection

import pytest
from attrs import frozen
from tests.integration.crash.scene import Open, taken, task_of
from tests.integration.crash.site import LEASE, Policy
from tests.integration.crash.table import AFTER, AGENT, AT_ONCE, HANDED_OVER, LOCAL, ORDER, Left, ending, nth

from imgproc_adapters.testing.crash import Death
from imgproc_domain.attempt import Replay
from imgproc_domain.stage import Stage
from imgproc_domain.usecases.points import Point


@frozen
class Case:
    stage: Stage
    point: Point
    death: Death
    left: Left
    replay: Replay
    policy: Policy = Policy.QUOTA

    def __str__(self) -> str:
        return f"{self.stage}-{self.point}-{self.death}-{self.replay}-{self.policy}"


def replays(death: Death, left: Left) -> Collection[Replay]:
    """Return the adapters to look at: all where what they can prove decides, else the one that can prove least.

    What a death before COMMIT leaves is also left by one of the others.
    """
    return list(Replay) if left in AFTER and death is not Death.COMMITTING else [Replay.NEVER]


CASES = [
    *(
        Case(Stage.AGENT, point, death, left, replay)
        for (point, death), left in AGENT.items()
        # behind its end the next stage is under way: see HANDED_OVER
        if point is not Point.SETTLED or death is Death.PASSED
        for replay in replays(death, left)
    ),
    *(
        Case(Stage.AGENT, point, death, left, Replay.NEVER, Policy.ALLOW_ALL)
        for (point, death), left in AGENT.items()
        if point in AT_ONCE[Stage.AGENT] and death in (Death.PASSED, Death.CALLING)
    ),
    *(Case(Stage.VISUAL, point, death, left, Replay.SAFE) for (point, death), left in LOCAL.items()),
    *(
        Case(Stage.TEXT, point, death, left, Replay.SAFE)
        for (point, death), left in LOCAL.items()
        if point in ORDER[Stage.TEXT] and death is Death.PASSED
    ),
]
DEATHS = [case for case in CASES if case.death is not Death.REPLY_LOST]
LOST_REPLIES = [case for case in CASES if case.death is Death.REPLY_LOST]


@pytest.mark.parametrize("case", DEATHS, ids=str)
async def test_the_next_worker_makes_of_a_death_what_the_table_says(case: Case, scene: Open) -> None:
    here = await scene(case.replay, case.policy)
    await here.upload()
    await here.dies_at(case.stage, case.point, case.death)
    before = await here.expect_left(case.stage, case.left)
    await here.elapse(LEASE)
    outcome = ending(case.left, case.replay).value
    async with here.working():
        await here.over(outcome)
    await here.expect_ended(case.stage, outcome, before)


@pytest.mark.parametrize("case", LOST_REPLIES, ids=str)
async def test_a_worker_that_loses_a_reply_and_lives_on_makes_no_call_that_it_cannot_account_for(
    case: Case, scene: Open
) -> None:
    here = await scene(case.replay, case.policy)
    await here.upload()
    outcome = ending(case.left, case.replay).value
    settled = case.left is Left.SETTLED and case.point is not Point.SETTLED
    async with here.unlucky(case.point, nth(case.stage, case.point)):
        before = await here.view()
        # elsewhere there is a claim now that nobody knows to be theirs; it ends with its lease
        if not settled and case.left is not Left.QUEUED:
            before = await here.expect_left(case.stage, case.left)
            await here.elapse(LEASE)
        if settled and case.stage is Stage.AGENT:
            # that of the text, which was handed over
            await here.elapse(LEASE)
        await here.over(outcome)
    # what it settled once more was fenced
    await here.expect_ended(case.stage, outcome, before, late=1 if settled else 0)


# what a stage has passed when the one behind it was handed over
BEFORE_IT = {Stage.AGENT: Stage.VISUAL, Stage.TEXT: Stage.AGENT}


@pytest.mark.parametrize(("opened", "death"), [key for key in HANDED_OVER if key[1] is not Death.REPLY_LOST], ids=str)
async def test_the_next_worker_goes_on_with_what_was_handed_over_to_one_that_died(
    opened: Stage, death: Death, scene: Open
) -> None:
    here = await scene(Replay.NEVER, Policy.ALLOW_ALL, slots=1)
    await here.upload()
    await here.dies(Point.SETTLED, death, stage=opened, times=nth(BEFORE_IT[opened], Point.SETTLED, here.order))
    left = HANDED_OVER[opened, death]
    before = await here.expect_left(opened, left)
    task = task_of(before, opened)
    assert task is not None
    assert task.lease.generation == 1, "it was claimed by the transaction that opened it"
    holders = [(slot.task_id, slot.generation) for slot in taken(before)]
    assert holders == ([(task.task_id, 1)] if opened is Stage.AGENT else [])
    await here.elapse(LEASE)
    outcome = ending(left, Replay.SAFE).value
    async with here.working():
        await here.over(outcome)
    await here.expect_ended(opened, outcome, before)


@pytest.mark.parametrize("opened", [stage for stage, death in HANDED_OVER if death is Death.REPLY_LOST], ids=str)
async def test_a_worker_that_loses_the_reply_behind_a_handover_makes_no_second_call(opened: Stage, scene: Open) -> None:
    here = await scene(Replay.NEVER, Policy.ALLOW_ALL)
    await here.upload()
    left = HANDED_OVER[opened, Death.REPLY_LOST]
    outcome = ending(left, Replay.NEVER if opened is Stage.AGENT else Replay.SAFE).value
    async with here.unlucky(Point.SETTLED, nth(BEFORE_IT[opened], Point.SETTLED, here.order)):
        before = await here.view()
        if left is not Left.SETTLED:
            before = await here.expect_left(opened, left)
            await here.elapse(LEASE)
        await here.over(outcome)
    await here.expect_ended(opened, outcome, before, late=1 if left is Left.SETTLED else 0)


@pytest.mark.parametrize("opened", [Stage.AGENT, Stage.TEXT])
async def test_a_worker_that_loses_the_reply_to_a_handover_itself_leaves_it_to_recovery(
    opened: Stage, scene: Open
) -> None:
    """It settles again, is fenced, and never hears of what was claimed for it."""
    here = await scene(Replay.NEVER, Policy.ALLOW_ALL)
    await here.upload()
    left = Left.COMMITTED if opened is Stage.AGENT else Left.STARTED
    outcome = ending(left, Replay.SAFE).value
    earlier = BEFORE_IT[opened]
    async with here.unlucky(Point.CALL_ENDED, nth(earlier, Point.CALL_ENDED, here.order)):
        before = await here.expect_left(opened, left)
        await here.elapse(LEASE)
        await here.over(outcome)
    await here.expect_ended(opened, outcome, before, late=1)
