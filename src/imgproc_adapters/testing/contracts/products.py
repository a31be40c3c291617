"""Vectors with the inputs they were made from."""

import pytest

from imgproc_adapters.testing.factories import (
    make_context,
    make_meme,
    make_text_product,
    make_visual_product,
    vector,
)
from imgproc_adapters.testing.seed import A, B, store
from imgproc_adapters.testing.world import World
from imgproc_domain.product import Products, TextStamp, VisualStamp


class ProductStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_products_are_known_by_the_inputs_they_were_made_from(self, world: World) -> None:
        meme = make_meme(A)
        context = make_context(meme)
        visual = make_visual_product(meme, vector(1), world.visual_space)
        text = make_text_product(meme, context, vector(0, 1), world.text_space)
        await store(world, meme, context)
        async with world.uow.begin(A) as tx:
            await tx.products.put_visual([visual])
            await tx.products.put_text([text])
        async with world.uow.begin(A) as tx:
            stamps = await tx.products.stamps([meme.meme_id])
        sha256, space = meme.picture.sha256, world.text_space
        assert stamps[meme.meme_id] == Products(
            visual=frozenset({VisualStamp(sha256, world.visual_space.id, world.visual_space.dimension)}),
            context=context,
            text=frozenset({TextStamp(sha256, text.metadata_hash, space.id, space.dimension)}),
        )

    async def test_every_id_has_an_entry_and_foreign_products_are_not_in_it(self, world: World) -> None:
        foreign, bare = make_meme(B), make_meme(A)
        await store(world, foreign, make_context(foreign))
        await store(world, bare)
        async with world.uow.begin(B) as tx:
            await tx.products.put_visual([make_visual_product(foreign, vector(1), world.visual_space)])
        async with world.uow.begin(A) as tx:
            stamps = await tx.products.stamps([foreign.meme_id, bare.meme_id])
        assert stamps == {foreign.meme_id: Products(), bare.meme_id: Products()}

    async def test_history_stays_and_the_same_key_is_replaced(self, world: World) -> None:
        meme = make_meme(A)
        first, second = make_context(meme, "a cat"), make_context(meme, "a dog", revision=2)
        await store(world, meme, first)
        async with world.uow.begin(A) as tx:
            for context in (first, second, second):
                await tx.products.put_text([make_text_product(meme, context, vector(1), world.text_space)])
            for _ in range(2):
                await tx.products.put_visual([make_visual_product(meme, vector(1), world.visual_space)])
        async with world.uow.begin(A) as tx:
            products = (await tx.products.stamps([meme.meme_id]))[meme.meme_id]
        assert {stamp.metadata_hash for stamp in products.text} == {first.metadata_hash, second.metadata_hash}
        assert len(products.visual) == 1
