"""The legacy source: rows are checked one by one, files where no transaction is open, and the epoch decides."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from attrs import define, evolve, field
from tests.unit.usecases.gallery import Gallery
from tests.unit.usecases.site import content

from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.seed import A
from imgproc_domain.errors import CacheNotReady, InvalidValue
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage, Query, Ranking, Source
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.legacy import Files, Unseen, legacy_hits
from imgproc_domain.usecases.migrate_search import start, switch
from imgproc_domain.usecases.search import search
from imgproc_domain.vector import Vector


class WatchedBlobs(NameBlobs):
    """Notes what is looked for, and lets something happen meanwhile."""

    def __init__(self, uow: "CountedUnitOfWork") -> None:
        super().__init__()
        self.looked: list[str] = []
        self.strange: set[str] = set()
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []
        self._uow = uow

    async def has(self, scope: Scope, storage_key: str) -> bool:
        assert self._uow.open == 0, "no transaction is open while a file is looked for"
        self.looked.append(storage_key)
        if self.meanwhile:
            await self.meanwhile.pop()()
        if storage_key in self.strange:
            raise InvalidValue("a storage key leads through a link")
        return await super().has(scope, storage_key)


@define(eq=False)
class CountedUnitOfWork:
    """Counts the transactions that were begun, and that are open."""

    inner: UnitOfWork
    open: int = field(init=False, default=0)
    begun: int = field(init=False, default=0)

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        self.open += 1
        self.begun += 1
        try:
            async with self.inner.begin(scope) as tx:
                yield tx
        finally:
            self.open -= 1


class Old:
    """A gallery whose scope reads its legacy index."""

    def __init__(self) -> None:
        self.gallery = Gallery()
        self.uow = CountedUnitOfWork(self.gallery.site.uow)
        self.blobs = WatchedBlobs(self.uow)
        self.deployment = evolve(self.gallery.deployment, uow=self.uow, blobs=self.blobs)

    async def hang(self, count: int) -> list[Meme]:
        memes = await self.gallery.hang(count)
        await self.gallery.to_legacy()
        return memes

    async def lose(self, memes: Sequence[Meme]) -> None:
        for meme in memes:
            await self.blobs.remove(A, meme.picture.storage_key)

    async def found(self, limit: int = 100) -> list[MemeId]:
        answer = await search(self.deployment, A, Query("picture", limit, ranking=Ranking.SEMANTIC))
        assert answer.source is Source.LEGACY
        return [hit.meme_id for hit in answer.hits]

    async def nearest(self, wanted: int) -> list[MemeId]:
        """Ask as a search does that wants exactly so many."""
        vector = await self.gallery.text.embed_query("picture")
        assert isinstance(vector, Vector)
        files = Files(self.blobs, A)
        while True:
            async with self.deployment.uow.begin(A) as tx:
                generation = await tx.generations.readable()
                assert generation is not None
                hits = await legacy_hits(tx, files, generation, vector, wanted)
            if not isinstance(hits, Unseen):
                return [hit.meme_id for hit in hits]
            await files.look(hits.keys)


@pytest.fixture
def old() -> Old:
    return Old()


async def test_the_nearest_of_the_generation_are_found(old: Old) -> None:
    memes = await old.hang(5)
    everything = await old.found()
    assert set(everything) == {meme.meme_id for meme in memes}
    assert await old.found(2) == everything[:2]


async def test_what_became_findable_later_is_not_in_it(old: Old) -> None:
    memes = await old.hang(1)
    await old.gallery.site.upload("later")
    await old.gallery.site.work_off()
    assert await old.found() == [memes[0].meme_id]
    answer = await search(old.deployment, A, Query("picture"))
    assert (answer.ranking, answer.coverage) == (Ranking.SEMANTIC, Coverage(1, 2)), "its rows have no words"


@pytest.mark.parametrize("change", ["edited", "replaced", "deleted"])
async def test_what_has_changed_since_is_not_found(old: Old, change: str) -> None:
    memes = await old.hang(3)
    match change:
        case "edited":
            await old.gallery.describe(memes[0], "other words")
        case "replaced":
            await replace_picture(old.gallery.old, A, memes[0].meme_id, None, content("another"))
        case _:
            await delete_meme(old.gallery.old, A, memes[0].meme_id)
    assert set(await old.found()) == {meme.meme_id for meme in memes[1:]}
    await old.gallery.site.work_off()
    assert set(await old.found()) == {meme.meme_id for meme in memes[1:]}, "a new vector is none of the old index"


async def test_a_picture_whose_file_is_gone_is_not_found_and_its_place_is_filled(old: Old) -> None:
    memes = await old.hang(6)
    everything = await old.found()
    by_id = {meme.meme_id: meme for meme in memes}
    await old.lose([by_id[meme_id] for meme_id in everything[:3]])
    assert await old.found(2) == everything[3:5]
    assert await old.found(100) == everything[3:]


async def test_a_library_without_its_files_is_soon_through(old: Old) -> None:
    memes = await old.hang(40)
    last = (await old.found())[-1]
    await old.lose([meme for meme in memes if meme.meme_id != last])
    old.blobs.looked.clear()
    before = old.uow.begun
    assert await old.nearest(1) == [last], "the place of what is gone is filled"
    assert sorted(old.blobs.looked) == sorted(meme.picture.storage_key for meme in memes), "each file once"
    assert old.uow.begun - before < len(memes) // 4, "the pages grow"


async def test_a_file_that_the_store_does_not_know_is_none(old: Old) -> None:
    memes = await old.hang(2)
    old.blobs.strange.add(memes[0].picture.storage_key)
    assert await old.found() == [memes[1].meme_id]


async def test_what_changes_while_files_are_looked_for_is_not_found(old: Old) -> None:
    memes = await old.hang(3)
    old.blobs.meanwhile.append(lambda: delete_meme(old.gallery.old, A, memes[0].meme_id))
    assert set(await old.found()) == {meme.meme_id for meme in memes[1:]}


async def test_a_switch_while_files_are_looked_for_is_obeyed(old: Old) -> None:
    memes = await old.hang(2)
    later = await old.gallery.site.upload("later picture")
    await old.gallery.site.work_off()

    async def leave() -> None:
        await start(old.gallery.deployment, A)
        await switch(old.gallery.deployment, A)

    old.blobs.meanwhile.append(leave)
    answer = await search(old.deployment, A, Query("picture", 100))
    assert answer.source is Source.INCREMENTAL
    assert {hit.meme_id for hit in answer.hits} == {meme.meme_id for meme in (*memes, later)}
    assert answer.epoch == (await old.gallery.state()).epoch


async def test_a_newer_generation_takes_the_place_of_the_old_one(old: Old) -> None:
    await old.hang(1)
    await old.gallery.site.upload("later")
    await old.gallery.site.work_off()
    await old.gallery.build()
    assert len(await old.found()) == 2


async def test_where_everything_has_changed_nothing_is_ready(old: Old) -> None:
    (meme,) = await old.hang(1)
    await old.gallery.describe(meme, "other words")
    with pytest.raises(CacheNotReady):
        await old.found()


async def test_a_page_is_told_only_when_all_its_files_are_known(old: Old) -> None:
    memes = await old.hang(3)
    vector = await old.gallery.text.embed_query("picture")
    assert isinstance(vector, Vector)
    files = Files(old.blobs, A)
    async with old.gallery.site.uow.begin(A) as tx:
        generation = await tx.generations.readable()
        assert generation is not None
        first = await legacy_hits(tx, files, generation, vector, 2)
        assert isinstance(first, Unseen)
        assert len(first.keys) == 2
    await files.look(first.keys)
    await files.look(first.keys)
    assert sorted(old.blobs.looked) == sorted(first.keys), "what is known is not looked for again"
    async with old.gallery.site.uow.begin(A) as tx:
        assert not isinstance(hits := await legacy_hits(tx, files, generation, vector, 2), Unseen)
    assert len({hit.meme_id for hit in hits} & {meme.meme_id for meme in memes}) == 2
