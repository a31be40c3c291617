"""A worker dies at every point that a job passes, or loses a reply there; the next one makes of it what the table says.

The table is in `table.py`. Each death is that of a real process, and recovery is another process's: this one's.
"""

from collections.abc import Collection

import pytest
from attrs import frozen
from tests.integration.crash.scene import Open
from tests.integration.crash.site import LEASE, Policy
from tests.integration.crash.table import AFTER, AGENT, LOCAL, Left, ending, nth

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
        for replay in replays(death, left)
    ),
    *(
        Case(Stage.AGENT, point, death, left, Replay.NEVER, Policy.ALLOW_ALL)
        for (point, death), left in AGENT.items()
        if death in (Death.PASSED, Death.CALLING)
    ),
    *(Case(Stage.VISUAL, point, death, left, Replay.SAFE) for (point, death), left in LOCAL.items()),
    *(
        Case(Stage.TEXT, point, death, left, Replay.SAFE)
        for (point, death), left in LOCAL.items()
        if death in (Death.PASSED, Death.CALLING)
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
        await here.over(outcome)
    # what it settled once more was fenced
    await here.expect_ended(case.stage, outcome, before, late=1 if settled else 0)
