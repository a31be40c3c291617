"""Legacy generations: whole-scope copies of what could be found."""

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_context,
    make_maintenance_task,
    make_meme,
    make_text_product,
    new_id,
    vector,
)
from imgproc_adapters.testing.seed import A, B, store
from imgproc_adapters.testing.world import World
from imgproc_domain.errors import Conflict
from imgproc_domain.ids import GenerationId, MemeId
from imgproc_domain.migration import Generation
from imgproc_domain.scope import Scope


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
        products = [make_text_product(meme, make_context(meme), vector(1), world.text_space) for meme in memes]
        await tx.search.publish(products)
    return [meme.meme_id for meme in memes]


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
            before = await tx.now()
            for generation in (second, first):
                await tx.generations.complete(generation.generation_id)
        async with world.uow.begin(A) as tx:
            newest = await tx.generations.newest()
            after = await tx.now()
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
            assert await tx.search.searchable(world.text_space.id) == len(ids)
