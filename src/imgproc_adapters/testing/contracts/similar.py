"""What pictures look like, and which of them may be seen."""

import random
from collections.abc import Callable

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_meme, make_picture, make_visual_product, vector
from imgproc_adapters.testing.seed import A, B, rolled_back, store
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector

TOLERANCE = 5e-3
"""Distances may come from half-precision components."""


async def _seen(world: World, vectors: list[Vector], scope: Scope = A) -> list[MemeId]:
    memes = [make_meme(scope) for _ in vectors]
    await store(world, *memes)
    # youngest first, so that ids and the order of writing disagree
    await _looked_at(world, list(zip(memes, vectors, strict=True))[::-1])
    return [meme.meme_id for meme in memes]


async def _looked_at(world: World, made: list[tuple[Meme, Vector]], space: VectorSpace | None = None) -> None:
    products = [make_visual_product(meme, found, space or world.visual_space) for meme, found in made]
    async with world.uow.begin(made[0][0].scope) as tx:
        await tx.products.put_visual(products)


async def _nearest(
    world: World, query: Vector, limit: int = 10, *, without: MemeId | None = None, scope: Scope = A
) -> list[MemeId]:
    async with world.uow.begin(scope) as tx:
        return [n.meme_id for n in await tx.similar.nearest(world.visual_space.id, query, limit, without)]


async def _change(world: World, meme_id: MemeId, change: Callable[[Meme], Meme]) -> None:
    async with world.uow.begin(A) as tx:
        meme = (await tx.memes.lock([meme_id]))[meme_id]
        await tx.memes.save(change(meme))


def _deleted(meme: Meme) -> Meme:
    return evolve(meme, deleted_at=LONG_AGO)


class SimilarStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_the_nearest_pictures_come_first_with_their_cosine_distance(self, world: World) -> None:
        far, near, opposite = await _seen(world, [vector(1, 1), vector(1), vector(-1)])
        async with world.uow.begin(A) as tx:
            found = await tx.similar.nearest(world.visual_space.id, vector(1), 10)
        assert [n.meme_id for n in found] == [near, far, opposite]
        assert [n.distance for n in found] == pytest.approx([0.0, 1 - 0.5**0.5, 2.0], abs=TOLERANCE)

    async def test_pictures_that_are_equally_near_are_ordered_by_id(self, world: World) -> None:
        # more of them than any adapter would look up for a short page
        ids = await _seen(world, [vector(1)] * 60)
        assert await _nearest(world, vector(1), 4) == ids[:4]
        assert await _nearest(world, vector(0, 1), 60) == ids

    async def test_rounding_brings_no_distance_below_nothing(self, world: World) -> None:
        draw = random.Random(11)  # noqa: S311 - a test's data
        vectors = [vector(*(draw.gauss(0, 1) for _ in range(8))) for _ in range(20)]
        await _seen(world, vectors)
        async with world.uow.begin(A) as tx:
            for made in vectors:
                (itself,) = await tx.similar.nearest(world.visual_space.id, made, 1)
                assert 0.0 <= itself.distance < TOLERANCE

    async def test_a_page_of_pictures_is_never_short_while_there_are_more(self, world: World) -> None:
        draw = random.Random(7)  # noqa: S311 - a test's data
        await _seen(world, [vector(*(draw.gauss(0, 1) for _ in range(8))) for _ in range(60)])
        await _seen(world, [vector(1)] * 60, scope=B)
        for limit in (1, 59, 60, 100):
            assert len(set(await _nearest(world, vector(1), limit))) == min(limit, 60)

    async def test_a_page_is_not_short_because_nearer_pictures_are_gone(self, world: World) -> None:
        # more of them than any adapter would read ahead at first
        gone = await _seen(world, [vector(1)] * 400)
        stay = await _seen(world, [vector(1, 1)] * 3)
        async with world.uow.begin(A) as tx:
            for meme in (await tx.memes.lock(gone)).values():
                await tx.memes.save(_deleted(meme))
        assert await _nearest(world, vector(1), 2) == stay[:2]
        assert await _nearest(world, vector(1), 10) == stay

    async def test_pictures_of_other_scopes_are_never_seen(self, world: World) -> None:
        (own,) = await _seen(world, [vector(-1)])
        (foreign,) = await _seen(world, [vector(1)], scope=B)
        assert await _nearest(world, vector(1)) == [own]
        async with world.uow.begin(A) as tx:
            assert await tx.similar.vector(foreign, world.visual_space.id) is None

    async def test_vectors_of_another_space_or_dimension_are_not_compared(self, world: World) -> None:
        other, misfit, own = make_meme(A), make_meme(A), make_meme(A)
        await store(world, other, misfit, own)
        await _looked_at(world, [(other, vector(1))], VectorSpace("another-space", 8))
        await _looked_at(world, [(misfit, vector(1, dimension=4)), (own, vector(-1))])
        assert await _nearest(world, vector(1)) == [own.meme_id]
        async with world.uow.begin(A) as tx:
            assert await tx.similar.vector(other.meme_id, world.visual_space.id) is None

    async def test_one_picture_can_be_left_out(self, world: World) -> None:
        first, second = await _seen(world, [vector(1), vector(-1)])
        assert await _nearest(world, vector(1), 1, without=first) == [second]

    async def test_the_vector_of_a_picture_is_the_one_that_was_stored(self, world: World) -> None:
        made = vector(3, -2, 0.25)
        (meme_id,) = await _seen(world, [made])
        async with world.uow.begin(A) as tx:
            found = await tx.similar.vector(meme_id, world.visual_space.id)
        assert found is not None
        assert list(found.components) == pytest.approx(list(made.components), abs=TOLERANCE)

    async def test_a_deleted_picture_is_not_seen_any_more(self, world: World) -> None:
        gone, stays = await _seen(world, [vector(1), vector(1)])
        await _change(world, gone, _deleted)
        assert await _nearest(world, vector(1)) == [stays]
        async with world.uow.begin(A) as tx:
            assert await tx.similar.vector(gone, world.visual_space.id) is None

    async def test_a_replaced_picture_is_seen_as_it_is_now_and_never_as_it_was(self, world: World) -> None:
        (meme_id,) = await _seen(world, [vector(1)])
        await _change(world, meme_id, lambda meme: evolve(meme, picture=make_picture()))
        assert await _nearest(world, vector(1)) == []
        async with world.uow.begin(A) as tx:
            assert await tx.similar.vector(meme_id, world.visual_space.id) is None
            replaced = (await tx.memes.get([meme_id]))[meme_id]
        await _looked_at(world, [(replaced, vector(0, 1))])
        async with world.uow.begin(A) as tx:
            (found,) = await tx.similar.nearest(world.visual_space.id, vector(1), 10)
        assert found.distance == pytest.approx(1.0, abs=TOLERANCE)

    async def test_a_vector_that_is_rolled_back_is_not_seen(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme)
        async with rolled_back(world) as tx:
            await tx.products.put_visual([make_visual_product(meme, vector(1), world.visual_space)])
        assert await _nearest(world, vector(1)) == []
