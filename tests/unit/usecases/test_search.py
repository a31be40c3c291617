"""One query is of one state of its scope, whatever happens meanwhile, and every picture has one place in its order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, evolve, field
from tests.unit.usecases.gallery import NEW, Gallery
from tests.unit.usecases.site import content, turns

from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import QUERY, Embedded
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.words import gram_vector
from imgproc_domain.context import Description
from imgproc_domain.errors import CacheNotReady, ModelNotConfigured
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.ports.search import SearchStore
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.search import MEANING, Answer, Query, Ranking, parse_query
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.migrate_search import switch
from imgproc_domain.usecases.search import search
from imgproc_domain.vector import Vector
from imgproc_domain.words import Field

Step = Callable[[], Awaitable[object]]


@pytest.fixture
def gallery() -> Gallery:
    return Gallery()


async def ask(gallery: Gallery, text: str, n_results: int = 10, **more: Any) -> Answer:
    return await search(gallery.old, A, parse_query(text, n_results, **more))


async def describe(gallery: Gallery, meme: Meme, description: Description) -> None:
    async with gallery.old.uow.begin(A) as tx:
        before = (await tx.contexts.get([meme.meme_id]))[meme.meme_id]
    await edit_context(gallery.old, A, meme.meme_id, before.revision, description)
    await gallery.site.work_off()


async def test_an_exact_caption_is_found_however_little_it_means_the_same(gallery: Gallery) -> None:
    memes = await gallery.hang(30)
    far = Vector.unit([-1.0] * gallery.text.space.dimension)
    gallery.text.script.then(far)
    await describe(gallery, memes[7], Description(title="picture", visible_text="一只惊讶的猫"))
    semantic = await ask(gallery, "惊讶的猫", ranking=Ranking.SEMANTIC)
    assert memes[7].meme_id not in [hit.meme_id for hit in semantic.hits]
    answer = await ask(gallery, "惊讶的猫")
    found = {hit.meme_id: hit for hit in answer.hits[:2]}
    assert found[memes[7].meme_id].matched == (Field.VISIBLE_TEXT,)
    assert (answer.ranking, answer.space_id, answer.epoch) == (Ranking.HYBRID, gallery.text.space.id, 1)


async def test_a_file_name_is_found_from_the_first_moment_and_only_as_long_as_it_is_the_name(gallery: Gallery) -> None:
    memes = await gallery.hang(3)

    async def named(name: str) -> list[MemeId]:
        hits = (await ask(gallery, name)).hits
        return [hit.meme_id for hit in hits if Field.FILE_NAME in hit.matched]

    assert set(await named("a.png")) == {meme.meme_id for meme in memes}
    await replace_picture(gallery.old, A, memes[0].meme_id, "holiday_2024.jpeg", content("other bytes"))
    assert await named("holiday_2024.jpeg") == []
    await gallery.site.work_off()
    assert await named("holiday_2024.jpeg") == [memes[0].meme_id]
    assert set(await named("a.png")) == {meme.meme_id for meme in memes[1:]}


async def test_another_name_for_the_same_bytes_is_found_at_once(gallery: Gallery) -> None:
    (meme,) = await gallery.hang(1)
    await replace_picture(gallery.old, A, meme.meme_id, "holiday.jpeg", content("picture 0"))
    (hit,) = (await ask(gallery, "holiday")).hits
    assert Field.FILE_NAME in hit.matched


async def test_what_matched_is_what_stands_in_the_fields_now(gallery: Gallery) -> None:
    (meme,) = await gallery.hang(1)
    words = Description(title="惊讶 cat", visible_text="讶的 只惊", keywords=["cat", "惊讶"])
    await describe(gallery, meme, words)

    async def matched(text: str, ranking: Ranking = Ranking.HYBRID) -> set[str]:
        (hit,) = (await ask(gallery, text, ranking=ranking)).hits
        return set(hit.matched)

    assert await matched("cat") == {MEANING, Field.TITLE, Field.KEYWORDS}
    assert await matched("惊讶") == {MEANING, Field.TITLE, Field.KEYWORDS}
    assert await matched("只惊") == {MEANING, Field.VISIBLE_TEXT}
    assert await matched("只惊讶的") == {MEANING}
    assert await matched("cat", Ranking.SEMANTIC) == {MEANING}
    assert await matched("😂 %") == {MEANING}


@pytest.mark.parametrize("ranking", list(Ranking))
@pytest.mark.parametrize("n_results", [1, 7, 100])
async def test_pages_show_every_picture_once(gallery: Gallery, ranking: Ranking, n_results: int) -> None:
    memes = await gallery.hang(25)
    seen: list[MemeId] = []
    offset: int | None = 0
    while offset is not None:
        answer = await ask(gallery, "picture 3 7 11", n_results, ranking=ranking, offset=offset)
        seen.extend(hit.meme_id for hit in answer.hits)
        offset = answer.next_offset
    assert sorted(seen) == sorted(meme.meme_id for meme in memes)
    everything = await ask(gallery, "picture 3 7 11", 100, ranking=ranking)
    assert seen == [hit.meme_id for hit in everything.hits]


async def test_behind_the_last_picture_there_is_nothing(gallery: Gallery) -> None:
    await gallery.hang(2)
    answer = await ask(gallery, "picture", offset=5)
    assert (answer.hits, answer.next_offset) == ((), None)


async def test_other_scopes_have_no_words_here(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.hang(1, B, "secret")
    (hit,) = (await ask(gallery, "secret")).hits
    assert hit.matched == (MEANING,)


async def test_an_empty_library_is_not_ready(gallery: Gallery) -> None:
    await gallery.site.upload()
    with pytest.raises(CacheNotReady) as refused:
        await ask(gallery, "cat")
    assert refused.value.details == {"total": 1}


async def test_a_process_with_one_model_embeds_once_and_asks_nothing_before(gallery: Gallery) -> None:
    await gallery.hang(1)
    uow = Meddling(gallery.old.uow)
    await search(evolve(gallery.old, uow=uow), A, Query("picture"))
    assert (uow.begun, len(started(gallery.site.ledger, QUERY))) == (1, 1)


@define(eq=False)
class Meddling:
    """Lets something happen just before a query's transactions, or just behind the vectors that it has read."""

    inner: UnitOfWork
    steps: list[Step] = field(factory=list)
    before: list[Step] = field(factory=list)
    begun: int = 0

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        self.begun += 1
        if self.before:
            await self.before.pop(0)()
        async with self.inner.begin(scope) as tx:
            yield Meddled(tx, self)


@define(eq=False)
class Meddled:
    tx: Transaction
    meddling: Meddling

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tx, name)

    @property
    def search(self) -> "MeddledSearch":
        return MeddledSearch(self.tx.search, self.meddling)


@define(eq=False)
class MeddledSearch:
    store: SearchStore
    meddling: Meddling

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def nearest(self, *args: Any) -> Any:
        found = await self.store.nearest(*args)
        if self.meddling.steps:
            await self.meddling.steps.pop(0)()
        return found


async def test_a_switch_while_the_query_is_embedded_is_obeyed(gallery: Gallery) -> None:
    await gallery.hang(3)
    await gallery.fill()
    held: Held[Embedded] = Held(gram_vector("picture", gallery.text.space.dimension))
    gallery.text.script.then(held)
    asking = asyncio.create_task(search(gallery.deployment, A, Query("picture")))
    await turns()
    await switch(gallery.deployment, A)
    held.release()
    answer = await asking
    assert answer.space_id == NEW.id
    assert answer.epoch == (await gallery.state()).epoch


async def test_a_switch_while_vectors_are_read_comes_behind_the_answer(gallery: Gallery) -> None:
    memes = await gallery.hang(3)
    await gallery.fill()
    before = await gallery.state()
    uow = Meddling(gallery.deployment.uow, [lambda: switch(gallery.deployment, A)])
    answers = [await search(evolve(gallery.deployment, uow=uow), A, Query("picture")) for _ in range(2)]
    assert before.serving is not None
    assert [(answer.space_id, answer.epoch) for answer in answers] == [
        (before.serving.id, before.epoch),
        (NEW.id, (await gallery.state()).epoch),
    ]
    assert all(len(answer.hits) == len(memes) for answer in answers)


@pytest.mark.parametrize("text", ["picture 0", "picture 1", "holiday"])
async def test_a_change_while_a_query_reads_is_no_part_of_its_answer(gallery: Gallery, text: str) -> None:
    memes = await gallery.hang(3)
    before = await ask(gallery, text)

    async def change() -> None:
        await describe(gallery, memes[0], Description(title="holiday picture 1"))
        await replace_picture(gallery.old, A, memes[1].meme_id, "holiday.jpeg", content("picture 1"))
        await delete_meme(gallery.old, A, memes[2].meme_id)

    uow = Meddling(gallery.old.uow, [change])
    assert await search(evolve(gallery.old, uow=uow), A, parse_query(text)) == before
    assert await ask(gallery, text) != before


async def test_a_space_that_changes_again_and_again_is_not_waited_for(gallery: Gallery) -> None:
    await gallery.hang(1)
    await gallery.fill()

    async def moves() -> None:
        async with gallery.old.uow.begin(A) as tx:
            state = await tx.migration.lock()
            await tx.migration.save(evolve(state, serving=state.filling, filling=state.serving, epoch=state.epoch + 1))

    uow = Meddling(gallery.old.uow, before=[moves] * 100)
    with pytest.raises(CacheNotReady, match="ask again"):
        await search(evolve(gallery.deployment, uow=uow), A, Query("picture"))
    assert uow.begun < 10
    uow.before[:] = [moves] * 3
    assert (await search(evolve(gallery.deployment, uow=uow), A, Query("picture"))).hits


async def test_a_process_without_the_model_of_a_scope_says_which(gallery: Gallery) -> None:
    await gallery.hang(1)
    stranger = evolve(gallery.old, text=gallery.new_model)
    with pytest.raises(ModelNotConfigured, match=gallery.text.space.id) as refused:
        await search(stranger, A, Query("picture"))
    assert refused.value.details == {"space_id": gallery.text.space.id}
