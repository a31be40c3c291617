"""What was there before search was incremental, or embedded by another model, is completed page by page."""

import asyncio
import math
from array import array
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from attrs import evolve
from tests.unit.usecases.gallery import NEW, THIRD, Gallery, first
from tests.unit.usecases.site import content

from imgproc_adapters.memory import schema
from imgproc_adapters.testing.factories import LONG_AGO, make_context, make_meme, make_text_product, vector
from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, TEXT, Embedded, ScriptedTextModel
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A, B, store
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import DatabaseUnavailable, MigrationConflict, ModelNotConfigured
from imgproc_domain.events import VectorsFilled
from imgproc_domain.job import JobStatus
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.backfill import Embedding, Pace, Seeding, count, embed, seed
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.migrate_search import rollback
from imgproc_domain.vector import Vector

NO = Diagnosis(ErrorCode.EMBEDDING_FAILED, "no")
NEVER = Lost(NO)


class CountingModel:
    """A text model that counts the texts of its calls, and loses the last of its answers."""

    def __init__(self, inner: ScriptedTextModel, lost: int = 0) -> None:
        self.space, self.replay, self.hard_deadline = inner.space, inner.replay, inner.hard_deadline
        self.batch = inner.batch
        self.sizes: list[int] = []
        self._inner, self._lost = inner, lost

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Embedded]:
        self.sizes.append(len(texts))
        answers = await self._inner.embed_documents(texts)
        return answers[: len(answers) - self._lost]

    async def embed_query(self, text: str) -> Embedded:
        return await self._inner.embed_query(text)


@pytest.fixture
def gallery() -> Gallery:
    return Gallery()


async def test_everything_is_embedded_in_another_space_without_asking_an_agent(gallery: Gallery) -> None:
    memes = await gallery.hang(5)
    asked = started(gallery.site.ledger, AGENT)
    pages = await gallery.embed(Embedding(NEW, window=2, batch=1))
    assert [(page.seen, page.embedded, page.after) for page in pages] == [
        (2, 2, memes[1].meme_id),
        (2, 2, memes[3].meme_id),
        (1, 1, None),
    ]
    assert all(gallery.spaces(meme) == {gallery.text.space.id, NEW.id} for meme in memes)
    assert started(gallery.site.ledger, AGENT) == asked
    assert (await gallery.state()).filling == NEW
    assert gallery.site.observer.of(VectorsFilled)[0] == VectorsFilled(A, 0, 2, 0)
    gallery.check()


async def test_a_second_run_has_nothing_to_do(gallery: Gallery) -> None:
    await gallery.hang(3)
    await gallery.embed(Embedding(NEW))
    calls, state = started(gallery.site.ledger, TEXT), await gallery.state()
    (page,) = await gallery.embed(Embedding(NEW))
    assert (page.seen, page.adopted, page.embedded, page.changed, page.failed) == (3, 0, 0, 0, ())
    assert started(gallery.site.ledger, TEXT) == calls
    assert await gallery.state() == state


async def test_a_run_that_was_ended_goes_on_when_it_is_begun_again(gallery: Gallery) -> None:
    await gallery.hang(4)
    wanted = Embedding(NEW, window=1)
    page = await first(embed(gallery.deployment, A, wanted))
    assert page.embedded == 1
    assert sum(page.embedded for page in await gallery.embed(wanted)) == 3
    behind = await gallery.embed(evolve(wanted, after=page.after))
    assert sum(page.seen for page in behind) == 3, "or behind the page that was seen last"


async def test_texts_are_embedded_in_batches(gallery: Gallery) -> None:
    await gallery.hang(5)
    model = CountingModel(gallery.new_model)
    gallery.deployment = evolve(gallery.deployment, more_text=[model])
    await gallery.embed(Embedding(NEW, batch=2))
    assert model.sizes == [2, 2, 1]


async def test_what_the_history_has_is_not_embedded_again(gallery: Gallery) -> None:
    one, _other = await gallery.hang(2)
    async with gallery.old.uow.begin(A) as tx:
        context = (await tx.contexts.get([one.meme_id]))[one.meme_id]
        await tx.products.put_text([make_text_product(one, context, vector(1, dimension=NEW.dimension), NEW)])
    before = started(gallery.site.ledger, TEXT)
    (page,) = await gallery.embed(Embedding(NEW))
    assert (page.adopted, page.embedded) == (1, 1)
    assert len(started(gallery.site.ledger, TEXT)) == len(before) + 1
    assert gallery.spaces(one) >= {NEW.id}
    gallery.check()


async def test_words_that_are_not_known_yet_are_completed_without_a_call(gallery: Gallery) -> None:
    """Rows from before search knew words."""
    (meme,) = await gallery.hang(1)
    key = (gallery.text.space.id, meme.meme_id)
    row = gallery.site.store.rows(schema.FINDABLE, A)[key]
    gallery.site.store.apply(A, {schema.FINDABLE: {key: evolve(row, words=None)}})
    calls = started(gallery.site.ledger, TEXT)
    (page,) = await gallery.embed()
    assert (page.adopted, page.embedded) == (1, 0)
    assert started(gallery.site.ledger, TEXT) == calls
    assert gallery.site.store.rows(schema.FINDABLE, A)[key] == row


async def test_without_a_space_it_completes_what_is_filled_or_else_what_serves(gallery: Gallery) -> None:
    await gallery.hang(2)
    undescribed = make_meme(A)
    await store(gallery.world, undescribed, make_context(undescribed))
    (page,) = await gallery.embed()
    assert page.embedded == 1
    assert gallery.spaces(undescribed) == {gallery.text.space.id}
    await first(embed(gallery.deployment, A, Embedding(NEW, window=1)))
    assert sum(page.embedded for page in await gallery.embed()) == 2
    assert gallery.spaces(undescribed) == {gallery.text.space.id, NEW.id}


async def test_a_library_without_pictures_has_one_empty_window(gallery: Gallery) -> None:
    (page,) = await gallery.embed(Embedding(NEW))
    assert (page.seen, page.embedded, page.after) == (0, 0, None)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Declined(NO, transient=False), ErrorCode.EMBEDDING_FAILED),
        (Declined(NO, transient=True), ErrorCode.EMBEDDING_FAILED),
        (Lost(NO), ErrorCode.EMBEDDING_FAILED),
        (Vector.unit([1.0] * 8), ErrorCode.EMBEDDING_DIMENSION_MISMATCH),
        (Vector(b""), ErrorCode.EMBEDDING_DIMENSION_MISMATCH),
        (Vector(array("f", [0.0] * 32).tobytes()), ErrorCode.EMBEDDING_INVALID),
        (Vector(array("f", [math.nan] * 32).tobytes()), ErrorCode.EMBEDDING_INVALID),
        (Vector(array("f", [1.0] * 32).tobytes()), ErrorCode.EMBEDDING_INVALID),
    ],
    ids=["declined", "declined for now", "lost", "dimension", "empty", "zero", "not a number", "too long"],
)
async def test_one_failure_is_counted_with_its_reason_and_stops_nobody(
    gallery: Gallery, answer: Embedded, code: ErrorCode
) -> None:
    memes = await gallery.hang(3)
    gallery.new_model.script.then(answer)
    (page,) = await gallery.embed(Embedding(NEW))
    assert page.embedded == 2
    assert [(failure.meme_id, failure.diagnosis.code) for failure in page.failed] == [(memes[0].meme_id, code)]
    assert gallery.spaces(memes[0]) == {gallery.text.space.id}
    assert [page.embedded for page in await gallery.embed(Embedding(NEW))] == [1], "the next run tries again"


async def test_a_model_that_raises_costs_its_batch_alone(gallery: Gallery) -> None:
    await gallery.hang(3)
    gallery.new_model.script.then(RuntimeError("a secret"))
    (page,) = await gallery.embed(Embedding(NEW, batch=1))
    assert page.embedded == 2
    (failure,) = page.failed
    assert failure.diagnosis == Diagnosis(ErrorCode.EMBEDDING_FAILED, "the adapter raised RuntimeError")


async def test_a_model_that_never_answers_costs_its_batch_alone(gallery: Gallery) -> None:
    await gallery.hang(2)
    gallery.new_model.hard_deadline = timedelta(0)
    gallery.new_model.script.then(Held(NEVER))
    (page,) = await gallery.embed(Embedding(NEW, batch=1))
    assert page.failed[0].diagnosis.message == "no answer within 0 s"


async def test_a_model_that_answers_too_few_costs_its_batch_alone(gallery: Gallery) -> None:
    await gallery.hang(3)
    model = CountingModel(gallery.new_model, lost=1)
    gallery.deployment = evolve(gallery.deployment, more_text=[model])
    (page,) = await gallery.embed(Embedding(NEW, batch=2))
    assert {failure.diagnosis.message for failure in page.failed} == {
        "the model gave 1 answers to 2 texts",
        "the model gave 0 answers to 1 texts",
    }


@pytest.mark.parametrize("change", ["edited", "replaced", "deleted"])
async def test_a_picture_that_changed_while_it_was_embedded_is_left_alone(gallery: Gallery, change: str) -> None:
    memes = await gallery.hang(2)
    held = Held[Embedded](Vector.unit([1.0] * NEW.dimension))
    gallery.new_model.script.then(held)
    running = asyncio.create_task(gallery.embed(Embedding(NEW)))
    await held.started.wait()
    match change:
        case "edited":
            await gallery.describe(memes[0], "other words")
        case "replaced":
            await replace_picture(gallery.old, A, memes[0].meme_id, None, content("another"))
        case _:
            await delete_meme(gallery.old, A, memes[0].meme_id)
    held.release()
    (page,) = await running
    assert (page.embedded, page.changed, page.failed) == (1, 1, ())
    assert gallery.spaces(memes[0]) == set()
    gallery.check()
    if change == "edited":
        (page,) = await gallery.embed(Embedding(NEW))
        assert page.embedded == 1
        assert gallery.spaces(memes[0]) == {NEW.id}, "under the words it has now"


async def test_two_runs_at_once_do_no_harm(gallery: Gallery) -> None:
    memes = await gallery.hang(6)
    wanted = Embedding(NEW, window=2, batch=1)
    pages = [page for run in await asyncio.gather(*(gallery.embed(wanted) for _ in range(3))) for page in run]
    assert all(not page.failed for page in pages)
    assert all(gallery.spaces(meme) == {gallery.text.space.id, NEW.id} for meme in memes)
    gallery.check()


async def test_a_database_that_fails_ends_the_run_and_keeps_what_was_done(gallery: Gallery) -> None:
    await gallery.hang(3)
    pages = embed(gallery.deployment, A, Embedding(NEW, window=1))
    await anext(pages)
    gallery.site.uow.plan(Fault.NONE, Fault.NONE, Fault.ROLLED_BACK)
    with pytest.raises(DatabaseUnavailable):
        await anext(pages)
    assert sum(page.embedded for page in await gallery.embed(Embedding(NEW))) == 2
    gallery.check()


async def test_a_cancelled_call_leaves_nothing_half_done(gallery: Gallery) -> None:
    await gallery.hang(2)
    held = Held[Embedded](NEVER)
    gallery.new_model.script.then(held)
    running = asyncio.create_task(gallery.embed(Embedding(NEW)))
    await held.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sum(page.embedded for page in await gallery.embed(Embedding(NEW))) == 2
    gallery.check()


async def test_a_space_whose_model_is_not_here_is_refused(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.embed(Embedding(NEW))
    with pytest.raises(ModelNotConfigured, match=NEW.id):
        await anext(embed(gallery.old, A))
    with pytest.raises(ModelNotConfigured):
        await anext(embed(gallery.old, A, Embedding(THIRD)))


async def test_one_space_is_filled_at_a_time(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.embed(Embedding(NEW))
    with pytest.raises(MigrationConflict, match=NEW.id):
        await gallery.embed(Embedding(THIRD))


async def test_a_run_ends_when_its_space_is_given_up(gallery: Gallery) -> None:
    await gallery.hang(2)
    pages = embed(gallery.deployment, A, Embedding(NEW, window=1))
    await anext(pages)
    await rollback(gallery.deployment, A)
    with pytest.raises(MigrationConflict, match="neither served nor filled"):
        await anext(pages)


async def test_only_the_scope_that_is_named_is_filled(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.hang(1, B)
    await gallery.embed(Embedding(NEW))
    assert {row.space_id for row in gallery.site.view(B).findable} == {gallery.text.space.id}


async def test_pictures_without_a_job_get_one_each(gallery: Gallery) -> None:
    (worked,) = await gallery.hang(1)
    bare = [make_meme(A) for _ in range(5)]
    await store(gallery.world, *bare, make_meme(A, deleted_at=LONG_AGO))
    await store(gallery.world, make_meme(B))
    pages = [page async for page in seed(gallery.deployment, A, Seeding(ReverseImagePolicy.AUTO, batch=2))]
    assert [(page.seen, page.opened) for page in pages] == [(2, 1), (2, 2), (2, 2)], "newest first"
    assert not any(page.reused or page.refused for page in pages)
    assert await count(gallery.deployment, A) == sum(page.seen for page in pages)
    jobs = [job for job in gallery.site.view().jobs if job.meme_id != worked.meme_id]
    assert sorted(job.meme_id for job in jobs) == [meme.meme_id for meme in bare]
    assert {job.reverse_image_policy for job in jobs} == {ReverseImagePolicy.AUTO}
    assert not gallery.site.view(B).jobs
    assert [page.opened async for page in seed(gallery.deployment, A)] == [0], "a second run has nothing to do"


async def test_seeding_everything_restarts_nothing_that_failed(gallery: Gallery) -> None:
    gallery.site.agent.script.then(Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False))
    await gallery.site.slots(1)
    await gallery.site.upload("refused")
    auto = await upload(gallery.old, A, "a.png", content("auto"), ReverseImagePolicy.AUTO)
    await gallery.site.work_off()
    before = gallery.site.view().jobs
    assert {job.status for job in before} == {JobStatus.FAILED, JobStatus.SUCCEEDED}
    (page,) = [page async for page in seed(gallery.deployment, A, Seeding(everything=True))]
    assert (page.opened, page.reused, page.refused) == (0, 2, 0)
    assert gallery.site.view().jobs == before
    await gallery.describe(auto.meme, "other words")
    (page,) = [page async for page in seed(gallery.deployment, A, Seeding(everything=True))]
    assert (page.reused, page.refused) == (2, 0), "each under its own policy"


async def test_seeding_everything_completes_what_is_stale(gallery: Gallery) -> None:
    (meme,) = await gallery.hang(1)
    (page,) = [page async for page in seed(gallery.changed_model(), A, Seeding(everything=True))]
    assert (page.opened, page.reused) == (1, 0)
    assert {job.meme_id for job in gallery.site.view().jobs if job.live} == {meme.meme_id}


class Timer:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_a_pace_is_kept_over_everything_that_shares_it() -> None:
    timer = Timer()
    pace = Pace(10.0, timer, timer.sleep)
    await pace.take(5)
    await pace.take(20)
    await pace.take(0)
    await pace.take(1)
    assert timer.slept == pytest.approx([0.5, 2.0])
    timer.now += 60
    await pace.take(10)
    await pace.take(10)
    assert timer.slept == pytest.approx([0.5, 2.0, 1.0]), "what was not used is not made up for"


async def test_without_a_rate_nobody_waits() -> None:
    timer = Timer()
    pace = Pace(None, timer, timer.sleep)
    await pace.take(1_000)
    await pace.take(1_000)
    assert timer.slept == []


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_is_more_than_nothing(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Pace(rate)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda: Seeding(batch=0),
        lambda: Seeding(batch=1_001),
        lambda: Embedding(batch=0),
        lambda: Embedding(window=5_001),
    ],
)
def test_a_page_is_bounded(wanted: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        wanted()


async def test_embedding_and_seeding_keep_the_pace(gallery: Gallery) -> None:
    await gallery.hang(5)
    await store(gallery.world, *(make_meme(A) for _ in range(2)))
    timer = Timer()
    pace = Pace(1.0, timer, timer.sleep)
    await gallery.embed(Embedding(NEW, batch=2), pace)
    assert sum(timer.slept) == pytest.approx(4.0), "all but the last batch are waited for"
    timer.slept.clear()
    assert [page.opened async for page in seed(gallery.deployment, A, pace=pace)] == [2]
    assert timer.slept == pytest.approx([1.0]), "the last batch, as the pace is one"
