"""A process with further text models embeds what it describes in each of their spaces, and is none the worse for it."""

from datetime import datetime, timedelta

import pytest
from attrs import evolve
from tests.unit.usecases.gallery import NEW, THIRD, Gallery

from imgproc_adapters.testing.factories import digest
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import TEXT, Embedded
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A
from imgproc_domain.attempt import Replay
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.outcome import Succeeded
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.product import TextProduct
from imgproc_domain.retention import Kind
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.configuration import take_over
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.migrate_search import begin_filling, rollback, switch
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.prune import Pruning, prune
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.vector import Vector

NO = Diagnosis(ErrorCode.EMBEDDING_FAILED, "no")


@pytest.fixture
async def gallery() -> Gallery:
    gallery = Gallery()
    gallery.site.deployment = gallery.deployment
    await gallery.site.slots(2)
    return gallery


async def test_a_picture_is_found_in_every_space_at_once(gallery: Gallery) -> None:
    (meme,) = await gallery.hang(1)
    assert gallery.spaces(meme) == {gallery.text.space.id, NEW.id, THIRD.id}
    assert (await gallery.state()).serving == gallery.text.space, "the process's own space is the one that is pinned"
    gallery.check()


async def test_what_is_described_while_a_space_is_filled_is_not_missing_there(gallery: Gallery) -> None:
    gallery.site.deployment = gallery.old
    await gallery.hang(2)
    gallery.site.deployment = gallery.deployment
    await gallery.fill()
    later = await gallery.site.upload("later")
    await gallery.site.work_off()
    assert (await switch(gallery.deployment, A)).serving == NEW
    assert later.meme_id in await gallery.found()


@pytest.mark.parametrize(
    "answer",
    [
        Declined(NO, transient=False),
        Declined(NO, transient=True),
        Lost(NO),
        Vector.unit([1.0] * 8),
        RuntimeError("an adapter's bug"),
    ],
    ids=["declined", "declined for now", "lost", "dimension", "raised"],
)
async def test_what_fails_beside_costs_that_vector_alone(gallery: Gallery, answer: Embedded | Exception) -> None:
    gallery.new_model.script.then(answer)
    (meme,) = await gallery.hang(1)
    assert gallery.spaces(meme) == {gallery.text.space.id, THIRD.id}
    assert gallery.site.newest().status is JobStatus.SUCCEEDED
    assert sum(page.embedded for page in await gallery.embed()) == 0
    assert await gallery.fill() == []
    assert NEW.id in gallery.spaces(meme)


async def test_a_model_that_never_answers_costs_that_vector_alone(gallery: Gallery) -> None:
    gallery.new_model.hard_deadline = timedelta(0)
    gallery.new_model.script.then(Held[Embedded](Lost(NO)))
    (meme,) = await gallery.hang(1)
    assert gallery.spaces(meme) == {gallery.text.space.id, THIRD.id}


@pytest.mark.parametrize("replay", [Replay.NEVER, Replay.LOOKUP])
async def test_a_model_whose_calls_are_accounted_for_is_not_called_beside(gallery: Gallery, replay: Replay) -> None:
    gallery.new_model.replay = replay
    (meme,) = await gallery.hang(1)
    assert gallery.spaces(meme) == {gallery.text.space.id, THIRD.id}


async def test_nothing_is_asked_beside_where_the_stage_fails(gallery: Gallery) -> None:
    gallery.text.script.then(Declined(NO, transient=False))
    await gallery.site.upload()
    await gallery.site.work_off()
    assert gallery.site.newest().status is JobStatus.FAILED
    assert len(started(gallery.site.ledger, TEXT)) == 1
    assert not gallery.site.view().text


async def test_vectors_beside_are_of_the_same_picture_and_words_or_dropped(gallery: Gallery) -> None:
    await _until_text(gallery)
    (execution,) = (await start(gallery.deployment, A, await gallery.site.claim(TaskType.TEXT))).running
    outcome = await perform(gallery.deployment, execution)
    assert isinstance(outcome, Succeeded)
    assert isinstance(outcome.product, TextProduct)
    mine, forged = outcome.beside
    other = digest("another")
    strays = [evolve(forged, image_sha256=other), evolve(forged, metadata_hash=other)]
    for_nobody = evolve(outcome, beside=(mine, *strays))
    assert execution.attempt is not None
    await settle(gallery.deployment, A, [Settling(execution.claim, execution.attempt.attempt_id, for_nobody)])
    (meme,) = gallery.site.view().memes
    assert gallery.spaces(meme) == {gallery.text.space.id, mine.space_id}
    assert len(gallery.site.view().text) == 2
    gallery.check()


async def test_words_that_changed_meanwhile_leave_nothing_behind(gallery: Gallery) -> None:
    await _until_text(gallery)
    (execution,) = (await start(gallery.deployment, A, await gallery.site.claim(TaskType.TEXT))).running
    outcome = await perform(gallery.deployment, execution)
    (meme,) = gallery.site.view().memes
    await gallery.describe(meme, "other words")
    assert execution.attempt is not None
    await settle(gallery.deployment, A, [Settling(execution.claim, execution.attempt.attempt_id, outcome)])
    assert not gallery.site.view().text
    gallery.check()


async def _until_text(gallery: Gallery) -> None:
    await gallery.site.upload()
    await gallery.site.until_agent()
    await gallery.site.run(TaskType.CONTEXT)
    await gallery.site.reconcile()


async def test_vectors_of_a_space_that_nobody_uses_any_more_are_pruned_where_another_one_is(gallery: Gallery) -> None:
    gallery.site.deployment = gallery.old
    found, alone = await gallery.hang(2)
    await gallery.fill()
    await switch(gallery.deployment, A)
    await gallery.describe(alone, "words that only the old model has seen")
    await gallery.site.work_off()
    gallery.site.clock.advance(timedelta(days=91))
    in_use = evolve(gallery.old, text=gallery.new_model)
    old, new = gallery.text.space.id, NEW.id
    assert await _pruned(gallery.deployment, gallery) == 0, "its model is configured: it may be gone back to"
    await begin_filling(gallery.deployment, A, gallery.text.space)
    await take_over(in_use, A)
    assert await _pruned(in_use, gallery) == 0, "it is being filled again"
    await rollback(gallery.deployment, A)
    assert await _pruned(in_use, gallery, dry_run=True) == 1
    assert (gallery.spaces(found), gallery.spaces(alone)) == ({old, new}, {old})
    assert await _pruned(in_use, gallery) == 1
    assert (gallery.spaces(found), gallery.spaces(alone)) == ({new}, {old})
    gallery.check()


class NoBlobs:
    """Bytes that are gone already."""

    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: datetime) -> bool:
        return True


async def _pruned(deployment: Deployment, gallery: Gallery, *, dry_run: bool = False) -> int:
    """Prune, and return how many vectors of present pictures and words went."""
    stale = _stale(gallery)
    total = 0
    async for counts in prune(deployment, NoBlobs(), A, Pruning(timedelta(days=90), vectors=True, dry_run=dry_run)):
        total += counts.get(Kind.TEXT_VECTORS, 0)
    return total - (stale if dry_run else stale - _stale(gallery))


def _stale(gallery: Gallery) -> int:
    """Count the vectors that nobody could find anyway."""
    view = gallery.site.view()
    return len(view.text) - len(view.findable)
