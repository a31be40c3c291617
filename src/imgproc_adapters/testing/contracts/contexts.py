"""What memes mean."""

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import (
    make_context,
    make_meme,
)
from imgproc_adapters.testing.seed import A, B, store
from imgproc_adapters.testing.world import World
from imgproc_domain.context import ContextStatus, Description, Origin, Provenance, Reference, Usage
from imgproc_domain.ids import AttemptId
from imgproc_domain.stage import ReverseImagePolicy


class ContextStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_context_is_read_back_whole(self, world: World) -> None:
        meme = make_meme(A)
        description = Description(
            title="惊讶的猫",
            summary="A cat\nlooks up.",
            subjects=["cat"],
            visible_text='"quoted" \\ text',
            references=[Reference("Surprised Pikachu", confirmed=True, url="https://example.org/1"), Reference("?")],
            meaning=None,
            keywords=["surprise", "惊讶"],
            search_queries=["why"],
            uncertainties=["breed"],
            source_urls=["https://example.org/2"],
        )
        provenance = Provenance(
            origin=Origin.AGENT,
            image_sha256=meme.picture.sha256,
            agent_fingerprint="agent-1",
            reverse_image_policy=ReverseImagePolicy.AUTO,
            attempt_id=AttemptId("a" * 32),
            usage=Usage(input_tokens=10, output_tokens=None, turns=1),
        )
        context = evolve(make_context(meme, revision=7), description=description, provenance=provenance)
        await store(world, meme, context)
        async with world.uow.begin(A) as tx:
            assert await tx.contexts.get([meme.meme_id]) == {meme.meme_id: context}

    async def test_putting_a_context_replaces_the_earlier_one(self, world: World) -> None:
        meme = make_meme(A)
        after = evolve(make_context(meme, "a dog", revision=2, status=ContextStatus.PENDING), provenance=None)
        await store(world, meme, make_context(meme, "a cat"))
        async with world.uow.begin(A) as tx:
            await tx.contexts.put([after])
        async with world.uow.begin(A) as tx:
            assert await tx.contexts.get([meme.meme_id]) == {meme.meme_id: after}

    async def test_contexts_of_other_scopes_and_unknown_memes_are_missing(self, world: World) -> None:
        meme, bare = make_meme(B), make_meme(A)
        await store(world, meme, make_context(meme))
        await store(world, bare)
        async with world.uow.begin(A) as tx:
            assert not await tx.contexts.get([meme.meme_id, bare.meme_id])
