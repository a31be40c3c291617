"""A lane whose model takes many pictures a call: what shares one, and what becomes of it when the call is cut off."""

import asyncio
from collections.abc import Sequence

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site, holds, turns
from tests.unit.usecases.test_perform_together import BAD, NO, CountingVisualModel

from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import VISUAL, Embedded
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker.lane import LaneRunner
from imgproc_app.worker.settler import Settler
from imgproc_domain.attempt import Replay
from imgproc_domain.claim import Claim
from imgproc_domain.outcome import Outcome
from imgproc_domain.ports.models import Declined
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.recover import expire_leases

RUNNING, QUEUED = TaskStatus.RUNNING, TaskStatus.QUEUED


class Batched:
    """A lane of a model that takes so many pictures a call, and pictures that wait for it."""

    def __init__(self, batch: int, places: int, local: Replay = Replay.SAFE) -> None:
        self.site = Site(places=places, local=local)
        self.model = CountingVisualModel(ledger=self.site.ledger, replay=local, batch=batch)
        self.site.deployment = evolve(self.site.deployment, visual=self.model)
        self.alone: list[Claim] = []
        self.lane, self.settler = self.opened()

    def opened(self) -> tuple[LaneRunner, Settler]:
        async def performing(deployment: Deployment, execution: Execution) -> Outcome:
            self.alone.append(execution.claim)
            return await perform(deployment, execution)

        return self.site.lane(TaskType.VISUAL, performing)

    async def upload(self, count: int) -> None:
        for number in range(count):
            await self.site.upload(f"cat {number}")

    async def settled(self) -> None:
        """Write back what has ended, until the lane is empty."""
        settling = asyncio.create_task(self.settler.run())
        await until(holds(lambda: self.lane.busy == 0))
        self.settler.close()
        await settling

    async def held(self, count: int) -> tuple[Held[Embedded], list[Claim]]:
        """Upload so many pictures and return the claims that share a call, which waits for its first answer."""
        held = Held[Embedded](BAD)
        self.model.script.then(held)
        await self.upload(count)
        await self.lane.turn()
        await held.started.wait()
        assert self.model.sizes == [count]
        return held, list(self.lane._running)

    async def lose(self, claims: Sequence[Claim], left: Sequence[Claim]) -> None:
        """Let the leases of claims expire, and those of the others not."""
        lease = self.site.deployment.limits.lease
        self.site.clock.advance(lease / 2)
        self.site.heartbeat.renew(left, lease)
        self.site.clock.advance(lease / 2)
        assert await expire_leases(self.site.deployment, A, [TaskType.VISUAL], 10) == len(claims)
        self.lane.lost(claims)

    def tasks(self, claims: Sequence[Claim]) -> list[TaskStatus]:
        by_id = {task.task_id: task.status for task in self.site.view().tasks}
        return [by_id[claim.task_id] for claim in claims]


@pytest.mark.parametrize(
    ("batch", "places", "pictures", "sizes"),
    [
        (3, 16, 7, [3, 3, 1]),
        (32, 8, 8, [4, 4]),
        (32, 9, 8, [4, 4]),
        (32, 1, 1, [1]),
        (2, 4, 1, [1]),
        (1, 4, 3, [1, 1, 1]),
    ],
    ids=["the batch", "half of the lane", "an odd lane", "one place", "one picture", "one a call"],
)
async def test_a_call_has_what_the_model_takes_and_half_of_the_lane_at_most(
    batch: int, places: int, pictures: int, sizes: list[int]
) -> None:
    batched = Batched(batch, places)
    await batched.upload(pictures)
    await batched.lane.turn()
    await batched.settled()
    assert batched.model.sizes == sizes
    assert len(batched.alone) == sizes.count(1)
    assert {product.meme_id for product in batched.site.view().visual} == {m.meme_id for m in batched.site.view().memes}


async def test_what_is_adopted_shares_a_call_too() -> None:
    batched = Batched(batch=2, places=8)
    await batched.upload(3)
    batched.lane.adopt(await batched.site.claim(TaskType.VISUAL))
    await batched.settled()
    assert batched.model.sizes == [2, 1]


async def test_a_model_whose_calls_may_not_be_repeated_is_called_for_each() -> None:
    batched = Batched(batch=4, places=8, local=Replay.NEVER)
    await batched.upload(3)
    await batched.lane.turn()
    await batched.settled()
    assert batched.model.sizes == [1, 1, 1]


async def test_whoever_failed_before_is_called_for_alone() -> None:
    batched = Batched(batch=8, places=16)
    batched.model.script.then(Declined(NO, transient=True))
    await batched.upload(1)
    await batched.site.run(TaskType.VISUAL)
    (failed,) = batched.site.view().tasks
    batched.site.clock.advance(batched.site.deployment.limits.retry.backoff(1))
    await batched.upload(4)
    batched.model.sizes.clear()
    await batched.lane.turn()
    await batched.settled()
    assert sorted(batched.model.sizes) == [1, 3]
    assert [claim.task_id for claim in batched.alone] == [failed.task_id]


async def test_a_shared_call_goes_on_for_those_who_hold_their_claims() -> None:
    batched = Batched(batch=8, places=16)
    held, (lost, *others) = await batched.held(3)
    await batched.lose([lost], others)
    await turns()
    assert batched.lane.busy == 3, "they are still being called for"
    batched.model.script.always(lambda picture: Declined(NO, transient=False))
    held.release()
    await batched.settled()
    # what it brought for the lost claim is nobody's: the task waits for its next one
    assert batched.tasks([lost, *others]) == [QUEUED, TaskStatus.FAILED, TaskStatus.FAILED]
    assert len(started(batched.site.ledger, VISUAL)) == 3


async def test_a_shared_call_ends_when_nobody_holds_a_claim_any_more() -> None:
    batched = Batched(batch=8, places=16)
    _, claims = await batched.held(3)
    batched.lane.lost(claims[:1])
    batched.lane.lost(claims[1:])
    await turns()
    assert (batched.lane.busy, len(started(batched.site.ledger, VISUAL))) == (0, 1)
    batched.settler.close()
    await batched.settler.run()
    assert batched.tasks(claims) == [RUNNING] * 3, "recovery decides"


async def test_a_call_beside_the_lost_one_is_left_alone() -> None:
    batched = Batched(batch=2, places=4)
    held = [Held[Embedded](BAD), Held[Embedded](BAD)]
    batched.model.script.then(*held)
    await batched.upload(4)
    await batched.lane.turn()
    for one in held:
        await one.started.wait()
    claims = list(batched.lane._running)
    batched.lane.lost(claims[:2])
    await turns()
    assert list(batched.lane._running) == claims[2:]
    for one in held:
        one.release()
    await batched.settled()


async def test_a_lane_that_ends_gives_a_shared_call_back_but_for_what_was_lost() -> None:
    batched = Batched(batch=8, places=16)
    _, (lost, *others) = await batched.held(3)
    batched.lane.lost([lost])
    await batched.lane.finish(0)
    batched.settler.close()
    await batched.settler.run()
    assert batched.tasks([lost, *others]) == [RUNNING, QUEUED, QUEUED]
    assert batched.lane.busy == 0
    assert {task.lease_losses for task in batched.site.view().tasks} == {0}


async def test_a_lane_that_ends_waits_for_a_shared_call_as_long_as_it_may() -> None:
    batched = Batched(batch=8, places=16)
    held, claims = await batched.held(3)
    batched.model.script.always(lambda picture: BAD)
    finishing = asyncio.create_task(batched.lane.finish(1_000))
    await turns()
    assert not finishing.done()
    held.release()
    await finishing
    await batched.settled()
    assert batched.tasks(claims) == [TaskStatus.FAILED] * 3


async def test_a_bug_behind_a_shared_call_is_everybody_s_retry() -> None:
    batched = Batched(batch=8, places=16)

    def break_down(point: Point) -> None:
        if point is Point.CALL_ENDED:
            raise RuntimeError("a bug")

    batched.site.deployment = evolve(batched.site.deployment, passed=break_down)
    batched.lane, batched.settler = batched.opened()
    await batched.upload(2)
    await batched.lane.turn()
    claims = list(batched.lane._running)
    await batched.settled()
    assert batched.tasks(claims) == [QUEUED] * 2
    assert [task.failures for task in batched.site.view().tasks] == [1, 1]
