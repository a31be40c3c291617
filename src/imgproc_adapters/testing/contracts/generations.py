"""Legacy generations: whole-scope copies of what could be found."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest
from attrs import evolve

from imgproc_adapters.testing.contracts.migration import Known, known
from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_context,
    make_maintenance_task,
    make_meme,
    make_picture,
    make_text_product,
    make_words,
    new_id,
    vector,
)
from imgproc_adapters.testing.seed import A, B, store
from imgproc_adapters.testing.world import World
from imgproc_domain.context import ContextStatus
from imgproc_domain.errors import Conflict
from imgproc_domain.ids import GenerationId, MemeId
from imgproc_domain.migration import Generation
from imgproc_domain.ports.search import Readable
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage
from imgproc_domain.vector import Vector

TOLERANCE = 5e-3
"""Distances may come from half-precision components."""


async def _begin(world: World, scope: Scope = A) -> Generation:
    task = make_maintenance_task(scope)
    generation = Generation(scope, GenerationId(new_id()), task.task_id, world.text_space, LONG_AGO)
    await store(world, task)
    async with world.uow.begin(scope) as tx:
        await tx.generations.add(generation)
    return generation


async def _findable(world: World, count: int, scope: Scope = A) -> list[MemeId]:
    memes = [make_meme(scope) for _ in range(count)]
    await store(world, *memes)
    async with world.uow.begin(scope) as tx:
        described = [(meme, make_context(meme)) for meme in memes]
        products = [make_text_product(*pair, vector(1), world.text_space) for pair in described]
        await tx.search.publish(products, make_words(*described))
    return [meme.meme_id for meme in memes]


async def _complete(world: World, vectors: list[Vector]) -> tuple[list[Known], Generation]:
    """Store memes of these vectors and a complete generation over them."""
    rows = [await known(world) for _ in vectors]
    generation = await _begin(world)
    async with world.uow.begin(A) as tx:
        await tx.memes.lock([row.meme_id for row in rows])
        pairs = zip(rows, vectors, strict=True)
        products = [make_text_product(row.meme, row.context, made, world.text_space) for row, made in pairs]
        await tx.products.put_text(products)
        await tx.search.publish(products, make_words(*((row.meme, row.context) for row in rows)))
        await tx.generations.copy_page(generation.generation_id, None, len(rows) + 1)
        await tx.generations.complete(generation.generation_id)
    return rows, generation


async def _delete(tx: Transaction, row: Known) -> None:
    await tx.memes.save(evolve(row.meme, deleted_at=LONG_AGO))


async def _replace(tx: Transaction, row: Known) -> None:
    await tx.memes.save(evolve(row.meme, picture=make_picture()))


async def _edit(tx: Transaction, row: Known) -> None:
    await tx.contexts.put([make_context(row.meme, "a dog", revision=2)])


async def _unusable(tx: Transaction, row: Known) -> None:
    await tx.contexts.put([evolve(row.context, status=ContextStatus.REPAIR_REQUIRED)])


_Spoil = Callable[[Transaction, Known], Awaitable[None]]
SPOILT: Final[Mapping[str, _Spoil]] = {
    "deleted": _delete,
    "replaced": _replace,
    "edited": _edit,
    "unusable": _unusable,
}


class GenerationStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_generation_belongs_to_the_task_that_began_it(self, world: World) -> None:
        generation = await _begin(world)
        other = make_maintenance_task(A)
        async with world.uow.begin(A) as tx:
            assert await tx.generations.of_task(generation.task_id) == generation
            assert await tx.generations.of_task(other.task_id) is None
        async with world.uow.begin(B) as tx:
            assert await tx.generations.of_task(generation.task_id) is None

    async def test_an_id_is_never_used_twice(self, world: World) -> None:
        generation = await _begin(world)
        with pytest.raises(Conflict):
            async with world.uow.begin(A) as tx:
                await tx.generations.add(generation)

    async def test_it_is_filled_page_by_page_with_what_can_be_found(self, world: World) -> None:
        ids = await _findable(world, 5)
        await _findable(world, 1, scope=B)
        generation = await _begin(world)
        cursors: list[MemeId] = []
        after: MemeId | None = None
        while True:
            async with world.uow.begin(A) as tx:
                after = await tx.generations.copy_page(generation.generation_id, after, 2)
            if after is None:
                break
            cursors.append(after)
        assert cursors == [ids[1], ids[3], ids[4]]
        async with world.uow.begin(A) as tx:
            filled = await tx.generations.of_task(generation.task_id)
        assert filled == evolve(generation, entries=len(ids))

    async def test_a_page_that_is_copied_again_adds_nothing(self, world: World) -> None:
        ids = await _findable(world, 2)
        generation = await _begin(world)
        for _ in range(2):
            async with world.uow.begin(A) as tx:
                assert await tx.generations.copy_page(generation.generation_id, None, 10) == ids[-1]
        async with world.uow.begin(A) as tx:
            assert await tx.generations.of_task(generation.task_id) == evolve(generation, entries=len(ids))

    async def test_only_complete_generations_can_be_read_and_the_newest_is(self, world: World) -> None:
        first, second, _incomplete = await _begin(world), await _begin(world), await _begin(world)
        async with world.uow.begin(A) as tx:
            assert await tx.generations.newest() is None
            assert await tx.generations.readable() is None
            before = await tx.now()
            for generation in (second, first):
                await tx.generations.complete(generation.generation_id)
        async with world.uow.begin(A) as tx:
            newest = await tx.generations.newest()
            readable = await tx.generations.readable()
            after = await tx.now()
        assert readable == Readable(second.generation_id, world.text_space)
        assert newest is not None
        assert newest.generation_id == second.generation_id
        assert newest.completed_at is not None
        assert before <= newest.completed_at <= after

    async def test_filling_a_generation_leaves_what_can_be_found_alone(self, world: World) -> None:
        ids = await _findable(world, 2)
        generation = await _begin(world)
        async with world.uow.begin(A) as tx:
            await tx.generations.copy_page(generation.generation_id, None, 10)
            await tx.generations.complete(generation.generation_id)
        async with world.uow.begin(A) as tx:
            assert (await tx.search.coverage(world.text_space.id)).searchable == len(ids)

    async def test_the_nearest_entries_come_first_with_the_place_of_their_picture(self, world: World) -> None:
        made = [vector(1, 1), vector(1), vector(-1), vector(1)]
        rows, generation = await _complete(world, made)
        async with world.uow.begin(A) as tx:
            found = await tx.generations.nearest(generation.generation_id, vector(1), 10)
            some = await tx.generations.nearest(generation.generation_id, vector(1), 2)
        assert [entry.meme_id for entry in found] == [rows[i].meme_id for i in (1, 3, 0, 2)]
        assert list(some) == list(found[:2])
        assert [entry.distance for entry in found] == pytest.approx([0.0, 0.0, 1 - 0.5**0.5, 2.0], abs=TOLERANCE)
        assert found[0].storage_key == rows[1].meme.picture.storage_key

    @pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
    async def test_an_entry_is_compared_with_what_is_stored_now(self, world: World, spoil: _Spoil) -> None:
        (near, far), generation = await _complete(world, [vector(1), vector(1, 1)])
        async with world.uow.begin(A) as tx:
            assert await tx.generations.coverage(generation.generation_id) == Coverage(2, 2)
            await tx.memes.lock([near.meme_id])
            await spoil(tx, near)
        async with world.uow.begin(A) as tx:
            found = await tx.generations.nearest(generation.generation_id, vector(1), 1)
            assert [entry.meme_id for entry in found] == [far.meme_id], "the page is filled with those behind"
            assert (await tx.generations.coverage(generation.generation_id)).searchable == 1

    async def test_what_is_undone_is_found_again(self, world: World) -> None:
        (row,), generation = await _complete(world, [vector(1)])
        for context, usable in ((make_context(row.meme, "a dog", revision=2), 0), (row.context, 1)):
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([row.meme_id])
                await tx.contexts.put([context])
                assert (await tx.generations.coverage(generation.generation_id)).searchable == usable

    async def test_an_incomplete_a_foreign_and_an_unknown_generation_find_nothing(self, world: World) -> None:
        _, generation = await _complete(world, [vector(1)])
        incomplete = await _begin(world)
        async with world.uow.begin(A) as tx:
            await tx.generations.copy_page(incomplete.generation_id, None, 10)
            for generation_id in (incomplete.generation_id, GenerationId(new_id())):
                assert not await tx.generations.nearest(generation_id, vector(1), 10)
                assert (await tx.generations.coverage(generation_id)).searchable == 0
        async with world.uow.begin(B) as tx:
            assert not await tx.generations.nearest(generation.generation_id, vector(1), 10)
            assert (await tx.generations.coverage(generation.generation_id)).searchable == 0

    async def test_vectors_of_another_dimension_are_not_compared(self, world: World) -> None:
        _, generation = await _complete(world, [vector(1), vector(1, dimension=4)])
        async with world.uow.begin(A) as tx:
            assert len(await tx.generations.nearest(generation.generation_id, vector(1), 10)) == 1
            assert not await tx.generations.nearest(generation.generation_id, vector(1, dimension=4), 10)
            assert (await tx.generations.coverage(generation.generation_id)).searchable == 1
