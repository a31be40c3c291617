"""Memes."""

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    digest,
    make_job,
    make_meme,
    make_picture,
)
from imgproc_adapters.testing.seed import MINUTE, A, B, store
from imgproc_adapters.testing.world import World
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict
from imgproc_domain.ids import MemeId
from imgproc_domain.job import JobStatus, close
from imgproc_domain.meme import Meme


async def _read(world: World, meme: Meme) -> Meme:
    async with world.uow.begin(meme.scope) as tx:
        return (await tx.memes.get([meme.meme_id]))[meme.meme_id]


async def _save(world: World, meme: Meme) -> None:
    async with world.uow.begin(meme.scope) as tx:
        await tx.memes.lock([meme.meme_id])
        await tx.memes.save(meme)


class MemeStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_meme_is_read_back_as_it_was_added(self, world: World) -> None:
        meme = make_meme(A, filename="惊讶的猫.png")
        await store(world, meme)
        assert await _read(world, meme) == meme

    async def test_two_live_memes_of_a_scope_never_have_the_same_bytes(self, world: World) -> None:
        await store(world, make_meme(A, content="same"))
        await store(world, make_meme(B, content="same"))
        with pytest.raises(Conflict):
            await store(world, make_meme(A, content="same"))

    async def test_the_bytes_of_a_deleted_meme_may_come_back(self, world: World) -> None:
        old, new = make_meme(A, content="same"), make_meme(A, content="same")
        await store(world, old)
        await _save(world, evolve(old, deleted_at=LONG_AGO + MINUTE))
        await store(world, new)
        async with world.uow.begin(A) as tx:
            assert await tx.memes.by_content([digest("same"), digest("other")]) == {digest("same"): new}
            assert (await tx.memes.get([old.meme_id]))[old.meme_id].deleted_at == LONG_AGO + MINUTE
            assert old.meme_id in await tx.memes.lock([old.meme_id])
            assert await tx.memes.count() == 1

    async def test_an_id_is_never_used_twice(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme)
        with pytest.raises(Conflict):
            await store(world, evolve(meme, picture=make_picture()))

    async def test_a_saved_meme_has_its_new_name_picture_and_times(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme)
        after = evolve(meme, filename="dog.png", picture=make_picture(), updated_at=LONG_AGO + MINUTE)
        await _save(world, after)
        assert await _read(world, meme) == after

    async def test_a_picture_cannot_be_replaced_by_one_that_another_live_meme_has(self, world: World) -> None:
        first, second = make_meme(A), make_meme(A)
        await store(world, first, second)
        with pytest.raises(Conflict):
            await _save(world, evolve(second, picture=first.picture))

    async def test_pages_show_every_live_meme_once_newest_first(self, world: World) -> None:
        memes = [make_meme(A) for _ in range(5)]
        await store(world, *memes, make_meme(A, deleted_at=LONG_AGO))
        await store(world, make_meme(B))
        seen: list[Meme] = []
        after: MemeId | None = None
        async with world.uow.begin(A) as tx:
            while True:
                page = await tx.memes.page(after, 2)
                seen.extend(page.memes)
                after = page.after
                if after is None:
                    break
        assert seen == memes[::-1]

    async def test_the_last_full_page_has_no_cursor(self, world: World) -> None:
        await store(world, make_meme(A), make_meme(A))
        async with world.uow.begin(A) as tx:
            assert (await tx.memes.page(None, 2)).after is None
            assert (await tx.memes.page(None, 1)).after is not None

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("CAT", {"My cat.PNG"}),
            ("猫", {"猫_100%.png"}),
            ("_", {"猫_100%.png"}),
            ("%", {"猫_100%.png"}),
            ("\\", set()),
        ],
    )
    async def test_names_are_searched_without_case_and_wildcards(
        self, world: World, text: str, found: set[str]
    ) -> None:
        await store(world, *(make_meme(A, filename=name) for name in ("My cat.PNG", "dog.png", "猫_100%.png")))
        async with world.uow.begin(A) as tx:
            assert {meme.filename for meme in (await tx.memes.page(None, 10, text)).memes} == found

    async def test_pages_of_a_status_show_the_memes_whose_newest_job_has_it(self, world: World) -> None:
        memes = [make_meme(A) for _ in range(3)]
        ended = LONG_AGO + MINUTE
        failed = close(make_job(memes[0]), Diagnosis(ErrorCode.TARGET_CHANGED, "gone"), ended)
        also_failed = close(make_job(memes[1]), Diagnosis(ErrorCode.TARGET_CHANGED, "gone"), ended)
        await store(world, *memes, failed, also_failed, make_job(memes[1], revision=2))
        async with world.uow.begin(A) as tx:
            pages = {status: await tx.memes.page(None, 10, status=status) for status in JobStatus}
        assert pages[JobStatus.FAILED].memes == (memes[0],)
        assert pages[JobStatus.QUEUED].memes == (memes[1],)
        assert pages[JobStatus.SUCCEEDED].memes == ()
