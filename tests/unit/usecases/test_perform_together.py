"""One call for many executions: each has an outcome of its own, whatever becomes of its neighbours (I12)."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import Factory, define, evolve
from tests.unit.usecases.gallery import NEW, THIRD, Gallery
from tests.unit.usecases.site import Site

from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import (
    TEXT,
    VISUAL,
    Embedded,
    ScriptedTextModel,
    ScriptedVisualModel,
    picture_vector,
)
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A
from imgproc_domain.attempt import Replay
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.outcome import Failed, Outcome, Retry, Succeeded
from imgproc_domain.ports.models import Declined
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.perform import NO_WORDS, picture_of
from imgproc_domain.usecases.perform_together import may_share, perform_together
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.start import start

NO = Diagnosis(ErrorCode.VISUAL_FAILED, "no picture")
BAD = Declined(NO, transient=False)


@define(eq=False)
class CountingVisualModel(ScriptedVisualModel):
    """A visual model that remembers how many pictures its calls had, and forgets the last answer of a shared call."""

    sizes: list[int] = Factory(list)
    forgetful: bool = False

    async def embed(self, pictures: Sequence[Path]) -> Sequence[Embedded]:
        self.sizes.append(len(pictures))
        answers = await super().embed(pictures)
        return answers[:-1] if self.forgetful and len(pictures) > 1 else answers


class Shared:
    """A site whose pictures wait for the visual model, started."""

    def __init__(self, local: Replay = Replay.SAFE) -> None:
        self.site = Site(local=local)
        self.model = CountingVisualModel(ledger=self.site.ledger, replay=local)
        self.site.deployment = evolve(self.site.deployment, visual=self.model)

    async def begun(self, count: int = 3) -> Sequence[Execution]:
        for number in range(count):
            await self.site.upload(f"cat {number}")
        claimed = await self.site.claim(TaskType.VISUAL)
        return (await start(self.site.deployment, A, claimed)).running

    def picture(self, execution: Execution) -> Path:
        assert execution.meme is not None
        return picture_of(self.site.deployment, execution.meme)

    def answers(self, bad: Execution, answer: Embedded | Exception) -> Callable[[Path], Embedded]:
        """Return a script that answers like that about one picture; an exception among the answers is raised."""
        name, dimension = self.picture(bad).name, self.model.space.dimension

        def one(picture: Path) -> Embedded:
            if picture.name != name:
                return picture_vector(picture, dimension)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return one

    def check(self, execution: Execution, outcome: Outcome) -> None:
        """Raise unless the outcome is that of this execution's picture."""
        assert isinstance(outcome, Succeeded)
        assert isinstance(outcome.product, VisualProduct)
        assert execution.meme is not None
        made = picture_vector(self.picture(execution), self.model.space.dimension)
        assert (outcome.product.meme_id, outcome.product.vector) == (execution.meme.meme_id, made)
        assert outcome.product.image_sha256 == execution.meme.picture.sha256


@pytest.fixture
def shared() -> Shared:
    return Shared()


async def texts(site: Site, count: int = 3) -> Sequence[Execution]:
    """Return the started embeddings of so many pictures' words."""
    await site.slots(count)
    for number in range(count):
        await site.upload(f"cat {number}")
    await site.until_agent()
    await site.run(TaskType.CONTEXT)
    await site.reconcile()
    return (await start(site.deployment, A, await site.claim(TaskType.TEXT))).running


async def test_one_call_has_an_outcome_for_each_in_their_order(shared: Shared) -> None:
    executions = await shared.begun()
    passed: list[Point] = []
    outcomes = await perform_together(evolve(shared.site.deployment, passed=passed.append), executions[::-1])
    for execution, outcome in zip(executions[::-1], outcomes, strict=True):
        shared.check(execution, outcome)
    assert (shared.model.sizes, passed) == ([3], [Point.CALL_ENDED])


async def test_one_bad_picture_harms_no_neighbour(shared: Shared) -> None:
    first, bad, last = await shared.begun()
    shared.model.script.always(shared.answers(bad, BAD))
    before, declined, after = await perform_together(shared.site.deployment, [first, bad, last])
    shared.check(first, before)
    shared.check(last, after)
    assert (declined, shared.model.sizes) == (Failed(NO), [3])


async def test_an_exception_is_a_failed_attempt_of_each_and_no_second_call(shared: Shared) -> None:
    first, bad, last = await shared.begun()
    shared.model.script.always(shared.answers(bad, ValueError("a bug")))
    outcomes = await perform_together(shared.site.deployment, [first, bad, last])
    assert outcomes == [Retry(Diagnosis(ErrorCode.VISUAL_FAILED, "the adapter raised ValueError"))] * 3
    assert shared.model.sizes == [3]


async def test_too_few_answers_are_nobody_s(shared: Shared) -> None:
    shared.model.forgetful = True
    outcomes = await perform_together(shared.site.deployment, await shared.begun())
    assert outcomes == [Retry(Diagnosis(ErrorCode.VISUAL_FAILED, "the adapter raised ValueError"))] * 3
    assert shared.model.sizes == [3]


async def test_past_the_time_limit_all_are_retried_and_share_no_call_again(shared: Shared) -> None:
    executions = await shared.begun()
    assert [may_share(execution) for execution in executions] == [True] * 3
    shared.model.hard_deadline = timedelta(seconds=20.05)
    shared.model.script.then(Held[Embedded](BAD))
    # the limit is that of whoever began first
    late = [evolve(e, begun=asyncio.get_running_loop().time() - 20 * (i == 1)) for i, e in enumerate(executions)]
    async with asyncio.timeout(10):
        outcomes = await perform_together(shared.site.deployment, late)
    retry = Retry(Diagnosis(ErrorCode.VISUAL_FAILED, "no answer within 20.05 s"))
    assert (outcomes, len(started(shared.site.ledger, VISUAL))) == ([retry] * 3, 1)
    await shared.site.finish([evolve(execution, outcome=retry) for execution in executions])
    shared.site.clock.advance(shared.site.deployment.limits.retry.backoff(1))
    again = await shared.site.claim(TaskType.VISUAL)
    assert [may_share(execution) for execution in again] == [False] * 3


async def test_whoever_was_lost_before_shares_no_call(shared: Shared) -> None:
    await shared.begun(1)
    shared.site.clock.advance(shared.site.deployment.limits.lease)
    await expire_leases(shared.site.deployment, A, [TaskType.VISUAL], 10)
    (execution,) = await shared.site.claim(TaskType.VISUAL)
    assert not may_share(execution)


async def test_no_call_is_made_for_what_stood_still(shared: Shared) -> None:
    first, stalled, last = await shared.begun()
    lease = shared.site.deployment.limits.lease.total_seconds()
    stalled = evolve(stalled, begun=asyncio.get_running_loop().time() - lease - 1)
    before, outcome, after = await perform_together(shared.site.deployment, [first, stalled, last])
    shared.check(first, before)
    shared.check(last, after)
    assert isinstance(outcome, Retry)
    assert outcome.diagnosis.code is ErrorCode.LEASE_LOST
    (lost,) = await perform_together(shared.site.deployment, [stalled])
    assert (lost, await perform_together(shared.site.deployment, [stalled] * 2)) == (outcome, [outcome] * 2)
    assert shared.model.sizes == [2]


async def test_cancellation_passes_through_and_calls_for_nobody_again(shared: Shared) -> None:
    held = Held[Embedded](BAD)
    shared.model.script.then(held)
    together = asyncio.create_task(perform_together(shared.site.deployment, await shared.begun()))
    await held.started.wait()
    together.cancel()
    with pytest.raises(asyncio.CancelledError):
        await together
    assert shared.model.sizes == [3]


async def test_a_text_without_words_costs_no_call_and_no_neighbour() -> None:
    site = Site()
    first, wordless, last = await texts(site)
    assert wordless.context is not None
    wordless = evolve(wordless, context=evolve(wordless.context, description=Description()))
    before, outcome, after = await perform_together(site.deployment, [first, wordless, last])
    for execution, embedded in ((first, before), (last, after)):
        assert execution.context is not None
        assert isinstance(embedded, Succeeded)
        assert isinstance(embedded.product, TextProduct)
        assert embedded.product.metadata_hash == execution.context.metadata_hash
        assert embedded.product.vector == await asked(site, execution)
    assert outcome == NO_WORDS
    assert len(started(site.ledger, TEXT)) == 2
    assert await perform_together(site.deployment, [wordless] * 2) == [NO_WORDS] * 2


async def asked(site: Site, execution: Execution) -> Embedded:
    """Return what the model says of an execution's words, by a ledger of its own."""
    assert execution.context is not None
    model = ScriptedTextModel(space=site.deployment.text.space)
    (answer,) = await model.embed_documents([execution.context.description.embeddable_text()])
    return answer


async def test_each_has_its_vectors_of_further_spaces_beside_its_own() -> None:
    gallery = Gallery()
    gallery.site.deployment = gallery.deployment
    first, second = await texts(gallery.site, 2)
    gallery.text.script.then(BAD)
    failed, embedded = await perform_together(gallery.deployment, [first, second])
    assert isinstance(failed, Failed)
    assert isinstance(embedded, Succeeded)
    assert {product.space_id for product in embedded.beside} == {NEW.id, THIRD.id}
    assert second.meme is not None
    assert {product.meme_id for product in embedded.beside} == {second.meme.meme_id}


@pytest.mark.parametrize(
    ("replay", "batch", "size"),
    [(Replay.SAFE, 8, 8), (Replay.SAFE, 1, 1), (Replay.SAFE, 0, 1), (Replay.NEVER, 8, 1), (Replay.LOOKUP, 8, 1)],
)
async def test_only_calls_that_may_be_repeated_are_shared(replay: Replay, batch: int, size: int) -> None:
    visual, text = ScriptedVisualModel(replay=replay, batch=batch), ScriptedTextModel(replay=replay, batch=batch + 1)
    deployment = evolve(Site().deployment, visual=visual, text=text)
    sizes = {task_type: deployment.batch(task_type) for task_type in TaskType}
    texts_at_once = batch + 1 if replay is Replay.SAFE else 1
    assert sizes == {TaskType.VISUAL: size, TaskType.TEXT: texts_at_once, TaskType.CONTEXT: 1, TaskType.CACHE: 1}
