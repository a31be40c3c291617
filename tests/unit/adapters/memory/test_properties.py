"""Whatever comes from outside is kept as it is, and found in the right order."""

import asyncio

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from imgproc_adapters.testing.factories import make_context, make_meme, make_text_product, make_words
from imgproc_adapters.testing.seed import store
from imgproc_adapters.testing.strategies import descriptions, scopes, vectors
from imgproc_adapters.testing.world import TEXT_SPACE, memory_world
from imgproc_domain.context import Description
from imgproc_domain.scope import Scope
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector


@settings(max_examples=40, deadline=None)
@given(scopes, descriptions)
def test_a_description_is_read_back_as_it_was_written(scope: Scope, description: Description) -> None:
    async def run() -> None:
        world, meme = memory_world(), make_meme(scope)
        context = evolve(make_context(meme), description=description)
        await store(world, meme, context)
        async with world.uow.begin(scope) as tx:
            assert await tx.contexts.get([meme.meme_id]) == {meme.meme_id: context}
            stamps = await tx.products.stamps([meme.meme_id])
        assert stamps[meme.meme_id].context == context
        assert (context.metadata_hash is None) == (description.embeddable_text() == "")

    asyncio.run(run())


@settings(max_examples=40, deadline=None)
@given(st.lists(vectors(8), max_size=8), vectors(8), st.integers(1, 9))
def test_the_nearest_are_those_of_an_exhaustive_search(stored: list[Vector], query: Vector, limit: int) -> None:
    async def run() -> None:
        world = memory_world()
        memes = [make_meme() for _ in stored]
        if memes:
            await store(world, *memes)
        async with world.uow.begin(Scope("local")) as tx:
            described = [(meme, make_context(meme)) for meme in memes]
            pairs = zip(described, stored, strict=True)
            products = [make_text_product(*pair, made, TEXT_SPACE) for pair, made in pairs]
            await tx.search.publish(products, make_words(*described))
            found = await tx.search.nearest(TEXT_SPACE.id, query, limit)
        expected = sorted(v.cosine_distance(query) for v in stored)[:limit]
        assert [round(n.distance, 4) for n in found] == [round(d, 4) for d in expected]
        assert list(found) == sorted(found, key=lambda n: (n.distance, n.meme_id))
        assert all(isinstance(n, Neighbour) for n in found)

    asyncio.run(run())
