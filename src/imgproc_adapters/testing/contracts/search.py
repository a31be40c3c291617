"""What may be found now."""

import math
import random
from collections.abc import Sequence

import pytest
from attrs import evolve

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
from imgproc_domain.context import Context, ContextStatus, Description
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchState
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage
from imgproc_domain.vector import Vector
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, WORDS_LIMIT, Field, query_words, words_of

TOLERANCE = 5e-3
"""Distances may come from half-precision components."""


async def _put(
    world: World, memes: Sequence[Meme], contexts: Sequence[Context], vectors: Sequence[Vector]
) -> list[MemeId]:
    await store(world, *memes, *contexts)
    rows = zip(memes, contexts, vectors, strict=True)
    # youngest first, so that ids and the order of writing disagree
    products = [make_text_product(*row, world.text_space) for row in rows][::-1]
    async with world.uow.begin(memes[0].scope) as tx:
        await tx.memes.lock([meme.meme_id for meme in memes])
        await tx.products.put_text(products)
        await tx.search.publish(products, make_words(*zip(memes, contexts, strict=True)))
    return [meme.meme_id for meme in memes]


async def _findable(world: World, vectors: Sequence[Vector], scope: Scope = A) -> list[MemeId]:
    memes = [make_meme(scope) for _ in vectors]
    return await _put(world, memes, [make_context(meme) for meme in memes], vectors)


async def _described(
    world: World, descriptions: Sequence[Description], *, filename: str = "1.gif", scope: Scope = A
) -> list[MemeId]:
    memes = [make_meme(scope, filename=filename) for _ in descriptions]
    pairs = zip(memes, descriptions, strict=True)
    contexts = [evolve(make_context(meme), description=description) for meme, description in pairs]
    return await _put(world, memes, contexts, [vector(1)] * len(memes))


async def _titled(world: World, titles: Sequence[str], scope: Scope = A) -> list[MemeId]:
    return await _described(world, [Description(title=title) for title in titles], scope=scope)


async def _worded(world: World, words: Sequence[str], limit: int) -> list[MemeId]:
    async with world.uow.begin(A) as tx:
        return [match.meme_id for match in await tx.search.worded(world.text_space.id, vector(1), words, limit)]


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
            assert await tx.search.coverage("another-space") == Coverage(0, 1)
            assert await tx.search.coverage(world.text_space.id) == Coverage(1, 1)

    async def test_a_new_vector_takes_the_place_of_the_old_one(self, world: World) -> None:
        meme = make_meme(A)
        context = make_context(meme)
        await store(world, meme, context)
        for made in (vector(-1), vector(1)):
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([meme.meme_id])
                product = make_text_product(meme, context, made, world.text_space)
                await tx.search.publish([product], make_words((meme, context)))
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
            product = make_text_product(meme, context, vector(1), world.text_space)
            await tx.search.publish([product], make_words((meme, context)))
        assert await _nearest(world, vector(1), 10) == []

    async def test_a_new_scope_searches_incrementally(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            assert await tx.search.state() == SearchState()

    async def test_what_is_read_is_of_the_moment_at_which_reading_began(self, world: World) -> None:
        """Between two lists another picture is edited, and one deleted: neither list, nor anything else, shows it."""
        edited, gone = ids = await _titled(world, ["cat", "cat nap"])
        async with world.uow.begin(A) as tx:
            await tx.search.begin_reading()
            near = await tx.search.nearest(world.text_space.id, vector(1), 10)
            async with world.uow.begin(A) as other:
                memes = await other.memes.lock(ids)
                await other.memes.save(evolve(memes[gone], deleted_at=LONG_AGO))
                await other.contexts.put([make_context(memes[edited], "dog", revision=2)])
                await other.search.refresh(ids)
                state = await other.migration.lock()
                await other.migration.save(evolve(state, epoch=state.epoch + 1))
            worded = await tx.search.worded(world.text_space.id, vector(1), ["cat"], 10)
            assert [n.meme_id for n in near] == [match.meme_id for match in worded] == ids
            assert await tx.search.coverage(world.text_space.id) == Coverage(2, 2)
            assert (await tx.memes.get([gone]))[gone].exists
            assert (await tx.contexts.get([edited]))[edited].description.title == "cat"
            assert (await tx.search.state()).epoch == state.epoch
        async with world.uow.begin(A) as tx:
            assert (await tx.search.begin_reading()).epoch == state.epoch + 1
            assert not await tx.search.worded(world.text_space.id, vector(1), ["cat"], 10)

    async def test_those_with_most_of_the_words_come_first_with_their_share_and_distance(self, world: World) -> None:
        one, both, none = await _titled(world, ["a cat asleep", "a cat at a keyboard", "dogs"])
        async with world.uow.begin(A) as tx:
            found = await tx.search.worded(world.text_space.id, vector(0, 1), ["cat", "keyboard"], 10)
        assert [(match.meme_id, match.share) for match in found] == [(both, 1.0), (one, 0.5)]
        assert [match.distance for match in found] == pytest.approx([1.0, 1.0], abs=TOLERANCE)
        assert none not in [match.meme_id for match in found]

    async def test_a_word_counts_for_what_the_best_field_it_is_in_counts_for(self, world: World) -> None:
        words = ["cat", "dog", "owl", "bee", "fox"]
        described = Description(title="cat", visible_text="CAT dog", keywords=["dog", "owl"])
        (meme_id,) = await _described(world, [described], filename="owl_bee.png")
        async with world.uow.begin(A) as tx:
            for asked in (words[:1], words[1:2], words[2:3], words[3:4], words):
                (found,) = await tx.search.worded(world.text_space.id, vector(1), asked, 10)
                weights = [WEIGHTS[field] for field, word in zip(Field, words, strict=False) if word in asked]
                assert (found.meme_id, found.share) == (meme_id, round(sum(weights) / len(asked), SHARE_DIGITS))

    async def test_of_equal_shares_those_with_fewer_words_come_first_and_then_the_older(self, world: World) -> None:
        titles = ["cat on a mat", "cat nap", "cat bed", "cat"]
        ids = await _titled(world, titles)
        assert await _worded(world, ["cat"], 10) == [ids[3], ids[1], ids[2], ids[0]]
        assert await _worded(world, ["cat"], 2) == [ids[3], ids[1]]

    async def test_too_small_a_share_is_none(self, world: World) -> None:
        (meme_id,) = await _titled(world, ["cat"])
        fewest = math.floor(1 / LEAST_SHARE)
        others = [f"word{number}" for number in range(fewest)]
        assert await _worded(world, ["cat", *others[: fewest - 1]], 10) == [meme_id]
        assert await _worded(world, ["cat", *others], 10) == []

    async def test_chinese_is_found_by_its_pairs_of_characters(self, world: World) -> None:
        (meme_id,) = await _titled(world, ["一只惊讶的猫"])
        for asked in ("惊讶", "的猫", "一只惊讶"):
            assert await _worded(world, query_words(asked).words, 10) == [meme_id]
        assert await _worded(world, query_words("讶猫").words, 10) == []

    @pytest.mark.parametrize("text", ['it\'s 100%_sure \\ "so"', "a & b | !c <-> (d):* 'e'"])
    async def test_what_would_be_an_operator_elsewhere_is_only_what_ends_a_word(self, world: World, text: str) -> None:
        described = Description(title=text, visible_text=text, keywords=[text])
        (meme_id,) = await _described(world, [described], filename=text)
        await _titled(world, ["something else altogether"])
        words = query_words(text).words
        async with world.uow.begin(A) as tx:
            (found,) = await tx.search.worded(world.text_space.id, vector(1), words, 10)
        assert (found.meme_id, found.share) == (meme_id, 1.0)

    async def test_words_of_other_scopes_are_never_found(self, world: World) -> None:
        (own,) = await _titled(world, ["cat on a mat"])
        await _titled(world, ["cat"], scope=B)
        assert await _worded(world, ["cat"], 10) == [own]

    async def test_words_beside_vectors_of_other_spaces_are_never_found(self, world: World) -> None:
        await _titled(world, ["cat"])
        async with world.uow.begin(A) as tx:
            assert not await tx.search.worded("another-space", vector(1), ["cat"], 10)

    async def test_as_many_words_as_a_meme_can_have_are_kept(self, world: World) -> None:
        many = [f"{'ä' * 60}{number:04}" for number in range(WORDS_LIMIT)]
        (meme_id,) = await _described(world, [Description(title="cat", visible_text=" ".join(many))])
        kept = words_of(Description(title="cat", visible_text=" ".join(many)), "1.gif").by_field[Field.VISIBLE_TEXT]
        assert await _worded(world, ["cat"], 10) == [meme_id]
        assert await _worded(world, [max(kept)], 10) == [meme_id]

    async def test_a_new_file_name_is_found_and_the_old_one_is_not(self, world: World) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        assert await _worded(world, ["png"], 10) == [meme_id]
        async with world.uow.begin(A) as tx:
            (meme,) = (await tx.memes.lock([meme_id])).values()
            await tx.memes.save(evolve(meme, filename="holiday.jpeg"))
            await tx.search.refresh([meme_id])
        assert (await _worded(world, ["holiday"], 10), await _worded(world, ["png"], 10)) == ([meme_id], [])

    async def test_an_edit_hides_words_and_its_undoing_brings_them_back(self, world: World) -> None:
        (meme_id,) = await _findable(world, [vector(1)])
        found = [await _worded(world, ["surprised"], 10)]
        for revision, title in enumerate(("something else", "a surprised cat"), start=2):
            async with world.uow.begin(A) as tx:
                (meme,) = (await tx.memes.lock([meme_id])).values()
                await tx.contexts.put([make_context(meme, title, revision=revision)])
                await tx.search.refresh([meme_id])
            found.append(await _worded(world, ["surprised"], 10))
        assert found == [[meme_id], [], [meme_id]]

    async def test_the_first_vector_decides_what_a_scope_is_searched_in(self, world: World) -> None:
        meme = make_meme(A)
        context = make_context(meme)
        await store(world, meme, context)
        serving = []
        for space in (world.text_space, VectorSpace("another-space", 8)):
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([meme.meme_id])
                product = make_text_product(meme, context, vector(1), space)
                await tx.search.publish([product], make_words((meme, context)))
                serving.append(await tx.search.state())
        assert serving == [SearchState(serving=world.text_space)] * 2
        async with world.uow.begin(B) as tx:
            assert (await tx.search.state()).serving is None
