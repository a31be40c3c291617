"""What may be found now."""

import random

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_context,
    make_meme,
    make_picture,
    make_text_product,
    vector,
)
from imgproc_adapters.testing.seed import A, B, rolled_back, store
from imgproc_adapters.testing.world import World
from imgproc_domain.context import ContextStatus
from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchState
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

TOLERANCE = 5e-3
"""Distances may come from half-precision components."""


async def _findable(world: World, vectors: list[Vector], scope: Scope = A) -> list[MemeId]:
    memes = [make_meme(scope) for _ in vectors]
    contexts = [make_context(meme) for meme in memes]
    await store(world, *memes, *contexts)
    rows = zip(memes, contexts, vectors, strict=True)
    # youngest first, so that ids and the order of writing disagree
    products = [make_text_product(*row, world.text_space) for row in rows][::-1]
    async with world.uow.begin(scope) as tx:
        await tx.memes.lock([meme.meme_id for meme in memes])
        await tx.products.put_text(products)
        await tx.search.publish(products)
    return [meme.meme_id for meme in memes]


async def _nearest(world: World, query: Vector, limit: int, scope: Scope = A) -> list[MemeId]:
    async with world.uow.begin(scope) as tx:
        return [n.meme_id for n in await tx.search.nearest(world.text_space.id, query, limit)]


class SearchStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_the_nearest_come_first_with_their_cosine_distance(self, world: World) -> None:
        far, near, opposite = await _findable(world, [vector(1, 1), vector(1), vector(-1)])
        async with world.uow.begin(A) as tx:
            found = await tx.search.nearest(world.text_space.id, vector(1), 10)
        assert [n.meme_id for n in found] == [near, far, opposite]
        assert [n.distance for n in found] == pytest.approx([0.0, 1 - 0.5**0.5, 2.0], abs=TOLERANCE)

    async def test_equal_distances_are_ordered_by_id(self, world: World) -> None:
        ids = await _findable(world, [vector(1)] * 6)
        assert await _nearest(world, vector(1), 4) == ids[:4]
        assert await _nearest(world, vector(0, 1), 6) == ids

    async def test_a_page_is_never_short_while_more_can_be_found(self, world: World) -> None:
        draw = random.Random(7)  # noqa: S311 - a test's data
        await _findable(world, [vector(*(draw.gauss(0, 1) for _ in range(8))) for _ in range(60)])
        await _findable(world, [vector(1)] * 60, scope=B)
        for limit in (1, 59, 60, 100):
            assert len(set(await _nearest(world, vector(1), limit))) == min(limit, 60)

    async def test_other_scopes_are_never_found(self, world: World) -> None:
        (own,) = await _findable(world, [vector(-1)])
        await _findable(world, [vector(1)], scope=B)
        assert await _nearest(world, vector(1), 10) == [own]

    async def test_other_spaces_are_never_found(self, world: World) -> None:
        await _findable(world, [vector(1)])
        async with world.uow.begin(A) as tx:
            assert not await tx.search.nearest("another-space", vector(1), 10)
            assert await tx.search.searchable("another-space") == 0
            assert await tx.search.searchable(world.text_space.id) == 1

    async def test_a_new_vector_takes_the_place_of_the_old_one(self, world: World) -> None:
        meme = make_meme(A)
        context = make_context(meme)
        await store(world, meme, context)
        for made in (vector(-1), vector(1)):
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([meme.meme_id])
                await tx.search.publish([make_text_product(meme, context, made, world.text_space)])
        async with world.uow.begin(A) as tx:
            (found,) = await tx.search.nearest(world.text_space.id, vector(1), 10)
        assert found.distance == pytest.approx(0.0, abs=TOLERANCE)

    async def test_a_deleted_meme_is_not_found_any_more(self, world: World) -> None:
        gone, stays = await _findable(world, [vector(1), vector(1)])
        async with world.uow.begin(A) as tx:
            meme = (await tx.memes.lock([gone]))[gone]
            await tx.memes.save(evolve(meme, deleted_at=LONG_AGO))
            await tx.search.refresh([gone])
            assert [n.meme_id for n in await tx.search.nearest(world.text_space.id, vector(1), 10)] == [stays]
        assert await _nearest(world, vector(1), 10) == [stays]

    async def test_a_replaced_picture_is_not_found_any_more(self, world: World) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        async with world.uow.begin(A) as tx:
            meme = (await tx.memes.lock([meme_id]))[meme_id]
            await tx.memes.save(evolve(meme, picture=make_picture()))
            await tx.search.refresh([meme_id])
        assert await _nearest(world, vector(1), 10) == []

    @pytest.mark.parametrize("status", [ContextStatus.PENDING, ContextStatus.REPAIR_REQUIRED])
    async def test_a_meme_whose_context_is_not_usable_is_not_found(self, world: World, status: ContextStatus) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        async with world.uow.begin(A) as tx:
            (meme,) = (await tx.memes.lock([meme_id])).values()
            await tx.contexts.put([make_context(meme, status=status, revision=2)])
            await tx.search.refresh([meme_id])
        assert await _nearest(world, vector(1), 10) == []

    async def test_an_edit_hides_a_vector_and_its_undoing_brings_it_back(self, world: World) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        found: list[list[MemeId]] = []
        for revision, title in enumerate(("something else", "a surprised cat"), start=2):
            async with world.uow.begin(A) as tx:
                (meme,) = (await tx.memes.lock([meme_id])).values()
                await tx.contexts.put([make_context(meme, title, revision=revision)])
                await tx.search.refresh([meme_id])
            found.append(await _nearest(world, vector(1), 10))
        assert found == [[], [meme_id]]

    async def test_a_change_outside_the_embedded_text_leaves_a_vector_findable(self, world: World) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        async with world.uow.begin(A) as tx:
            (meme,) = (await tx.memes.lock([meme_id])).values()
            await tx.memes.save(evolve(meme, filename="renamed.png"))
            context = make_context(meme, status=ContextStatus.PARTIAL, revision=2)
            described = evolve(context.description, search_queries=["cat?"], uncertainties=["breed"])
            await tx.contexts.put([evolve(context, description=described)])
            await tx.search.refresh([meme_id])
        assert await _nearest(world, vector(1), 10) == [meme_id]

    async def test_a_refresh_touches_no_other_meme_and_no_other_scope(self, world: World) -> None:
        first, second = await _findable(world, [vector(1), vector(1)])
        (foreign,) = await _findable(world, [vector(1)], scope=B)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([first])
            await tx.search.refresh([first, foreign])
        assert await _nearest(world, vector(1), 10) == [first, second]
        assert await _nearest(world, vector(1), 10, scope=B) == [foreign]

    async def test_a_publication_that_is_rolled_back_is_not_found(self, world: World) -> None:
        meme = make_meme(A)
        context = make_context(meme)
        await store(world, meme, context)
        async with rolled_back(world) as tx:
            await tx.search.publish([make_text_product(meme, context, vector(1), world.text_space)])
        assert await _nearest(world, vector(1), 10) == []

    async def test_a_new_scope_searches_incrementally(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            assert await tx.search.state() == SearchState()
