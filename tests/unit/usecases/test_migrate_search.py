"""A scope's search moves step by step, and no query loses on the way what it could find."""

import pytest
from attrs import evolve
from tests.unit.usecases.gallery import NEW, THIRD, Gallery

from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import (
    CacheNotReady,
    DatabaseUnavailable,
    ImgprocError,
    LegacyNotReady,
    MigrationConflict,
    ModelNotConfigured,
    SearchIncomplete,
)
from imgproc_domain.events import SearchMoved
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.ports.models import Declined
from imgproc_domain.search import Coverage, Source
from imgproc_domain.usecases.migrate_search import begin_filling, rollback, start, status, switch

M = SearchMode


@pytest.fixture
def gallery() -> Gallery:
    return Gallery()


async def test_a_model_is_changed_while_every_query_is_answered(gallery: Gallery) -> None:
    memes = {meme.meme_id for meme in await gallery.hang(4)}
    assert set(await gallery.found()) == memes
    await gallery.fill()
    answer = await gallery.ask()
    assert (answer.space_id, {hit.meme_id for hit in answer.hits}) == (gallery.text.space.id, memes)
    state = await switch(gallery.deployment, A)
    assert (state.serving, state.filling) == (NEW, None)
    answer = await gallery.ask()
    assert (answer.space_id, {hit.meme_id for hit in answer.hits}) == (NEW.id, memes)
    assert answer.epoch == state.epoch
    gallery.check()


async def test_a_process_without_the_serving_model_says_so(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.fill()
    await switch(gallery.deployment, A)
    with pytest.raises(ModelNotConfigured, match=NEW.id):
        await gallery.found(deployment=gallery.old)


async def test_nothing_is_switched_while_pictures_are_missing(gallery: Gallery) -> None:
    memes = await gallery.hang(3)
    gallery.new_model.script.then(Declined(Diagnosis(ErrorCode.EMBEDDING_FAILED, "no"), transient=False))
    await gallery.fill()
    before = await gallery.state()
    with pytest.raises(SearchIncomplete, match="1 picture cannot") as refused:
        await switch(gallery.deployment, A)
    assert refused.value.details == {
        "missing": 1,
        "meme_ids": [str(memes[0].meme_id)],
        "space_id": NEW.id,
    }
    assert await gallery.state() == before
    assert len(await gallery.found()) == 3
    assert (await switch(gallery.deployment, A, allow_missing=1)).serving == NEW
    assert set(await gallery.found()) == {meme.meme_id for meme in memes[1:]}


async def test_an_error_names_the_first_pictures_and_counts_all(gallery: Gallery) -> None:
    memes = await gallery.hang(25)
    await begin_filling(gallery.deployment, A, NEW)
    for allowed in (0, 24):
        with pytest.raises(SearchIncomplete) as refused:
            await switch(gallery.deployment, A, allow_missing=allowed)
        assert refused.value.details["missing"] == 25
        assert refused.value.details["meme_ids"] == [str(meme.meme_id) for meme in memes[:20]]
    assert (await switch(gallery.deployment, A, allow_missing=25)).serving == NEW


async def test_what_cannot_be_indexed_blocks_no_switch(gallery: Gallery) -> None:
    (meme,) = await gallery.hang(1)
    await gallery.site.upload("not described yet")
    await gallery.fill()
    assert (await switch(gallery.deployment, A)).serving == NEW
    assert await gallery.found() == [meme.meme_id]


async def test_a_settled_scope_has_nothing_to_switch_to(gallery: Gallery) -> None:
    with pytest.raises(MigrationConflict) as refused:
        await switch(gallery.deployment, A)
    assert refused.value.details == {"mode": "incremental_only", "epoch": 1}


async def test_a_legacy_index_answers_until_the_switch(gallery: Gallery) -> None:
    memes = {meme.meme_id for meme in await gallery.hang(3)}
    await gallery.to_legacy()
    for step in (None, start):
        if step is not None:
            await step(gallery.deployment, A)
        answer = await gallery.ask()
        assert (answer.source, {hit.meme_id for hit in answer.hits}) == (Source.LEGACY, memes)
        assert answer.coverage == Coverage(3, 3)
    await switch(gallery.deployment, A)
    answer = await gallery.ask()
    assert (answer.source, {hit.meme_id for hit in answer.hits}) == (Source.INCREMENTAL, memes)


async def test_beginning_again_changes_nothing(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.to_legacy()
    first = await start(gallery.deployment, A)
    assert first.mode is M.BACKFILL
    assert await start(gallery.deployment, A) == first
    after = await switch(gallery.deployment, A)
    assert await start(gallery.deployment, A) == after, "a scope that has left its legacy index goes on searching"
    filling = await begin_filling(gallery.deployment, A, NEW)
    assert await begin_filling(gallery.deployment, A, NEW) == filling
    assert await begin_filling(gallery.deployment, A, gallery.text.space) == filling, "what serves is there already"


async def test_one_switch_leaves_the_legacy_index_for_the_space_that_was_filled(gallery: Gallery) -> None:
    await gallery.hang(2)
    await gallery.to_legacy()
    await start(gallery.deployment, A)
    await gallery.fill()
    after = await switch(gallery.deployment, A)
    assert (after.mode, after.serving, after.filling) == (M.INCREMENTAL_ONLY, NEW, None)
    assert len(await gallery.found()) == 2


async def test_going_back_to_the_legacy_index_needs_a_complete_one(gallery: Gallery) -> None:
    await gallery.hang(2)
    before = await gallery.state()
    with pytest.raises(LegacyNotReady):
        await rollback(gallery.deployment, A, Source.LEGACY)
    assert await gallery.state() == before
    await gallery.build()
    assert (await rollback(gallery.deployment, A, Source.LEGACY)).mode is M.LEGACY_ONLY
    answer = await gallery.ask()
    assert (answer.source, len(answer.hits)) == (Source.LEGACY, 2)
    again = await rollback(gallery.deployment, A, Source.LEGACY)
    assert again.epoch == answer.epoch, "it is there already"


async def test_a_legacy_index_of_a_model_that_is_not_here_is_not_gone_back_to(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.build()
    stranger = evolve(gallery.old, text=gallery.third_model)
    with pytest.raises(ModelNotConfigured, match=gallery.text.space.id):
        await rollback(stranger, A, Source.LEGACY)


async def test_what_was_begun_can_be_stopped(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.fill()
    assert (await rollback(gallery.deployment, A)).filling is None
    with pytest.raises(MigrationConflict, match="nothing was begun"):
        await rollback(gallery.deployment, A)
    await gallery.to_legacy()
    await start(gallery.deployment, A)
    assert (await rollback(gallery.deployment, A)).mode is M.LEGACY_ONLY


async def test_a_former_space_serves_again_while_its_vectors_are_there(gallery: Gallery) -> None:
    await gallery.hang(2)
    await gallery.fill()
    await switch(gallery.deployment, A)
    after = await rollback(gallery.deployment, A, gallery.text.space)
    assert (after.serving, after.filling) == (gallery.text.space, None)
    assert len(await gallery.found()) == 2
    with pytest.raises(MigrationConflict, match="already"):
        await rollback(gallery.deployment, A, gallery.text.space)


async def test_a_former_space_that_lacks_pictures_is_filled_first(gallery: Gallery) -> None:
    await gallery.hang(2)
    await gallery.fill()
    await switch(gallery.deployment, A)
    later = await gallery.site.upload("later")
    changed = evolve(gallery.changed_model(), more_text=())
    gallery.site.deployment = changed
    await gallery.site.work_off()
    assert later.meme_id in await gallery.found(deployment=changed)
    with pytest.raises(SearchIncomplete, match="1 picture cannot"):
        await rollback(gallery.deployment, A, gallery.text.space)
    assert len(await gallery.found()) == 3
    assert (await gallery.state()).filling == gallery.text.space
    await gallery.embed()
    assert (await switch(gallery.deployment, A)).serving == gallery.text.space
    assert len(await gallery.found()) == 3


async def test_another_space_is_not_gone_back_to_while_one_is_filled(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.fill()
    with pytest.raises(MigrationConflict, match=NEW.id):
        await rollback(gallery.deployment, A, THIRD)
    after = await rollback(gallery.deployment, A, gallery.text.space)
    assert (after.serving, after.filling) == (gallery.text.space, None), "to the serving one is to stop"


async def test_the_status_tells_where_a_search_stands(gallery: Gallery) -> None:
    empty = await status(gallery.deployment, A)
    assert (empty.state, empty.serving, empty.target, empty.missing) == (
        SearchState(),
        gallery.text.space,
        gallery.text.space,
        0,
    )
    assert (empty.coverage, empty.generation) == (Coverage(0, 0), None)
    await gallery.hang(3)
    await gallery.build()
    await begin_filling(gallery.deployment, A, NEW)
    begun = await status(gallery.deployment, A)
    assert (begun.serving, begun.target, begun.missing) == (gallery.text.space, NEW, 3)
    assert begun.coverage == Coverage(3, 3)
    assert begun.generation is not None
    assert begun.generation.entries == 3


async def test_the_status_tells_what_a_legacy_source_reads(gallery: Gallery) -> None:
    await gallery.hang(2)
    await gallery.build()
    await gallery.fill()
    await switch(gallery.deployment, A)
    await gallery.hang(1, name="later")
    await gallery.fill()
    await rollback(gallery.deployment, A, Source.LEGACY)
    answer = await gallery.ask()
    seen = await status(gallery.deployment, A)
    assert (seen.read.id, seen.coverage) == (answer.space_id, answer.coverage)
    assert (seen.read, seen.serving, seen.coverage) == (gallery.text.space, NEW, Coverage(2, 3))
    await start(gallery.deployment, A)
    await switch(gallery.deployment, A)
    seen = await status(gallery.deployment, A)
    assert (seen.read, seen.coverage) == (NEW, Coverage(3, 3))


async def test_every_step_is_told_once(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.fill()
    await gallery.fill()
    gallery.site.uow.plan(Fault.NONE, Fault.ROLLED_BACK)
    with pytest.raises(DatabaseUnavailable):
        await switch(gallery.deployment, A)
    await switch(gallery.deployment, A)
    moved = gallery.site.observer.of(SearchMoved)
    assert moved == [SearchMoved(A, M.INCREMENTAL_ONLY, epoch) for epoch in (2, 3)]


async def test_only_the_scope_that_is_named_moves(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.hang(1, B)
    await gallery.fill()
    await switch(gallery.deployment, A)
    async with gallery.old.uow.begin(B) as tx:
        assert (await tx.search.state()).serving == gallery.text.space


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SearchIncomplete, "search_incomplete"),
        (LegacyNotReady, "legacy_not_ready"),
        (MigrationConflict, "search_migration_conflict"),
    ],
)
def test_an_error_shows_its_stable_identifier(error: type[ImgprocError], code: str) -> None:
    assert error("something").code == code


async def test_an_empty_scope_can_change_its_model_too(gallery: Gallery) -> None:
    await gallery.fill()
    assert (await switch(gallery.deployment, A)).serving == NEW
    with pytest.raises(CacheNotReady):
        await gallery.found()
