"""Which source and space a scope's searches read, and what a space still lacks."""

import asyncio
from collections.abc import Callable

import pytest
from attrs import evolve, frozen

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_context,
    make_meme,
    make_picture,
    make_text_product,
    make_words,
    vector,
)
from imgproc_adapters.testing.seed import A, B, rolled_back, store
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Context, ContextStatus
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope

OTHER = VectorSpace("contract-other", 4)


@frozen
class Known:
    """A meme with its context."""

    meme: Meme
    context: Context

    @property
    def meme_id(self) -> MemeId:
        return self.meme.meme_id


async def known(world: World, scope: Scope = A, **context: ContextStatus | str) -> Known:
    meme = make_meme(scope)
    made = Known(meme, make_context(meme, **context))  # type: ignore[arg-type]  # status and title
    await store(world, made.meme, made.context)
    return made


async def publish(world: World, row: Known, space: VectorSpace | None = None) -> None:
    async with world.uow.begin(row.meme.scope) as tx:
        await tx.memes.lock([row.meme_id])
        await put(tx, row, space or world.text_space)


async def put(tx: Transaction, row: Known, space: VectorSpace) -> None:
    product = make_text_product(row.meme, row.context, vector(1, dimension=space.dimension), space)
    await tx.products.put_text([product])
    await tx.search.publish([product], make_words((row.meme, row.context)))


async def change(world: World, step: Callable[[SearchState], SearchState], scope: Scope = A) -> SearchState:
    async with world.uow.begin(scope) as tx:
        after = step(await tx.migration.lock())
        await tx.migration.save(after)
    return after


async def missing(world: World, space: VectorSpace | None = None, scope: Scope = A) -> list[MemeId]:
    """Return what is missing in a space, as every question about it must answer alike."""
    space = space or world.text_space
    async with world.uow.begin(scope) as tx:
        found = await tx.migration.missing(space, None, 100)
        first = await tx.migration.first_missing(space, 100)
        every = [meme.meme_id for meme in (await tx.memes.page(None, 100)).memes]
        lacking = await tx.migration.lacking(space, every)
        assert (found.after, found.seen) == (None, len(every))
        assert list(found.meme_ids) == list(first) == sorted(lacking)
        assert await tx.migration.count_missing(space) == len(first)
    return list(first)


class MigrationStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_what_is_saved_is_read_again_in_its_scope_alone(self, world: World) -> None:
        after = SearchState(SearchMode.BACKFILL, 7, serving=world.text_space, filling=OTHER)
        assert await change(world, lambda _: after) == after
        async with world.uow.begin(A) as tx:
            assert await tx.search.state() == after == await tx.migration.lock()
        async with world.uow.begin(B) as tx:
            assert await tx.search.state() == SearchState() == await tx.migration.lock()

    async def test_a_step_that_is_rolled_back_was_none(self, world: World) -> None:
        async with rolled_back(world) as tx:
            await tx.migration.lock()
            await tx.migration.save(SearchState(epoch=2, serving=OTHER))
        async with world.uow.begin(A) as tx:
            assert await tx.search.state() == SearchState()

    async def test_of_two_steps_at_once_the_second_sees_the_first(self, world: World) -> None:
        epochs = await asyncio.gather(*(change(world, lambda s: evolve(s, epoch=s.epoch + 1)) for _ in range(5)))
        assert sorted(state.epoch for state in epochs) == [2, 3, 4, 5, 6]

    async def test_a_meme_is_missing_until_it_can_be_found(self, world: World) -> None:
        rows = [await known(world) for _ in range(3)]
        await known(world, scope=B)
        ids = [row.meme_id for row in rows]
        assert await missing(world) == ids
        await publish(world, rows[1])
        assert await missing(world) == [ids[0], ids[2]]
        assert await missing(world, OTHER) == ids

    async def test_a_vector_of_another_dimension_is_none_of_the_space(self, world: World) -> None:
        row = await known(world)
        await publish(world, row)
        assert await missing(world, evolve(world.text_space, dimension=4)) == [row.meme_id]

    async def test_a_meme_that_cannot_be_indexed_is_not_missing(self, world: World) -> None:
        bare = make_meme(A)
        deleted = make_meme(A, deleted_at=LONG_AGO)
        await store(world, bare, deleted, make_context(deleted))
        await known(world, title="")
        for status in (ContextStatus.PENDING, ContextStatus.REPAIR_REQUIRED):
            await known(world, status=status)
        partial = await known(world, status=ContextStatus.PARTIAL)
        assert await missing(world) == [partial.meme_id]

    async def test_other_words_and_another_picture_are_missing_again(self, world: World) -> None:
        edited, replaced = await known(world), await known(world)
        for row in (edited, replaced):
            await publish(world, row)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([edited.meme_id, replaced.meme_id])
            await tx.contexts.put([make_context(edited.meme, "a dog", revision=2)])
            await tx.memes.save(evolve(replaced.meme, picture=make_picture()))
            await tx.search.refresh([edited.meme_id, replaced.meme_id])
        assert await missing(world) == [edited.meme_id, replaced.meme_id]

    async def test_what_the_history_has_is_found_again_when_it_is_refreshed(self, world: World) -> None:
        row = await known(world)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([row.meme_id])
            product = make_text_product(row.meme, row.context, vector(1), world.text_space)
            await tx.products.put_text([product])
            assert await tx.migration.lacking(world.text_space, [row.meme_id]) == {row.meme_id}
            await tx.search.refresh([row.meme_id])
            assert not await tx.migration.lacking(world.text_space, [row.meme_id])
        assert await missing(world) == []

    async def test_windows_show_every_meme_once_oldest_first(self, world: World) -> None:
        rows = [await known(world) for _ in range(5)]
        await publish(world, rows[2])
        await publish(world, rows[4])
        seen: list[MemeId] = []
        windows: list[int] = []
        after: MemeId | None = None
        while True:
            async with world.uow.begin(A) as tx:
                window = await tx.migration.missing(world.text_space, after, 2)
            seen += window.meme_ids
            windows.append(window.seen)
            if (after := window.after) is None:
                break
        assert seen == [rows[i].meme_id for i in (0, 1, 3)]
        assert windows == [2, 2, 1]

    async def test_the_first_missing_are_the_oldest(self, world: World) -> None:
        rows = [await known(world) for _ in range(3)]
        async with world.uow.begin(A) as tx:
            assert list(await tx.migration.first_missing(world.text_space, 2)) == [row.meme_id for row in rows[:2]]

    async def test_nothing_is_missing_where_nothing_is_asked_for(self, world: World) -> None:
        await known(world)
        async with world.uow.begin(A) as tx:
            assert not await tx.migration.lacking(world.text_space, [])

    @pytest.mark.parametrize("way", ["published", "brought back"])
    @pytest.mark.parametrize("unsettled", ["filling", "backfill"])
    async def test_a_step_waits_for_what_is_being_made_findable(self, world: World, way: str, unsettled: str) -> None:
        """Without that a switch could pass a vector by that is being written into the old space alone."""
        row = await known(world)
        if way == "brought back":
            await publish(world, row)
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([row.meme_id])
                await tx.contexts.put([make_context(row.meme, "a dog", revision=2)])
                await tx.search.refresh([row.meme_id])
        await change(world, lambda s: _unsettled(s, unsettled, world.text_space))
        order: list[str] = []

        async def step() -> None:
            async with world.uow.begin(A) as tx:
                await tx.migration.lock()
                order.append("locked")
                assert await tx.migration.first_missing(world.text_space, 1) == []

        async with world.uow.begin(A) as tx:
            await tx.memes.lock([row.meme_id])
            if way == "published":
                await put(tx, row, world.text_space)
            else:
                await tx.contexts.put([row.context])
                await tx.search.refresh([row.meme_id])
            waiting = asyncio.create_task(step())
            # long enough for a lock that is free to be taken; one that is held is never taken in here
            await asyncio.wait([waiting], timeout=0.2)
            order.append("published")
        await waiting
        assert order == ["published", "locked"]

    async def test_those_who_make_pictures_findable_do_not_wait_for_each_other(self, world: World) -> None:
        first, second = await known(world), await known(world)
        await publish(world, await known(world))
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([first.meme_id])
            await put(tx, first, world.text_space)
            await publish(world, second)
        assert await missing(world) == []


def _unsettled(state: SearchState, how: str, serving: VectorSpace) -> SearchState:
    if how == "backfill":
        return evolve(state, epoch=state.epoch + 1, mode=SearchMode.BACKFILL, serving=serving)
    return evolve(state, epoch=state.epoch + 1, serving=serving, filling=OTHER)
