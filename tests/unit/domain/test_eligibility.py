"""Why a picture cannot be found - or that it can (I14)."""

from itertools import product

import pytest
from attrs import evolve
from tests.unit.domain.build import CONFIG, NOW, OTHER_PICTURE, PICTURE, cat, context_of, products_up_to

from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.eligibility import Reason, why_not_searchable
from imgproc_domain.product import Products, TextStamp

MEME = cat()
COMPLETE = products_up_to(None, MEME)
SPACE = CONFIG.text


@pytest.mark.parametrize("status", [ContextStatus.PARTIAL, ContextStatus.READY])
def test_a_picture_with_usable_words_and_their_vector_can_be_found(status: ContextStatus) -> None:
    products = products_up_to(None, MEME, context_of(MEME, status=status))
    assert why_not_searchable(MEME, products, SPACE) is None


def test_one_current_vector_is_enough_among_old_ones() -> None:
    old = TextStamp(OTHER_PICTURE, PICTURE, SPACE.id, SPACE.dimension)
    assert why_not_searchable(MEME, evolve(COMPLETE, text=COMPLETE.text | {old}), SPACE) is None


def test_a_deleted_picture_is_not_found() -> None:
    assert why_not_searchable(evolve(MEME, deleted_at=NOW), COMPLETE, SPACE) is Reason.DELETED


@pytest.mark.parametrize("context", [None, context_of(MEME, status=ContextStatus.PENDING)], ids=["none", "pending"])
def test_a_picture_without_words_yet_is_not_found(context: None) -> None:
    assert why_not_searchable(MEME, evolve(COMPLETE, context=context), SPACE) is Reason.CONTEXT_PENDING


def test_a_picture_whose_words_need_repair_is_not_found() -> None:
    broken = context_of(MEME, status=ContextStatus.REPAIR_REQUIRED)
    assert why_not_searchable(MEME, evolve(COMPLETE, context=broken), SPACE) is Reason.CONTEXT_REPAIR_REQUIRED


def test_a_picture_without_embeddable_words_is_not_found() -> None:
    silent = context_of(MEME, Description(search_queries=("cat",)))
    assert why_not_searchable(MEME, evolve(COMPLETE, context=silent), SPACE) is Reason.NO_EMBEDDABLE_TEXT


def test_a_picture_without_any_vector_is_not_found() -> None:
    assert why_not_searchable(MEME, evolve(COMPLETE, text=frozenset()), SPACE) is Reason.VECTOR_MISSING


STAMP = next(iter(COMPLETE.text))
STALE = {
    "picture": evolve(STAMP, image_sha256=OTHER_PICTURE),
    "words": evolve(STAMP, metadata_hash=OTHER_PICTURE),
    "model": evolve(STAMP, space_id="text-0"),
    "dimension": evolve(STAMP, dimension=16),
}


@pytest.mark.parametrize("part", STALE)
def test_a_vector_that_differs_in_any_part_of_its_key_is_stale(part: str) -> None:
    assert why_not_searchable(MEME, evolve(COMPLETE, text=frozenset({STALE[part]})), SPACE) is Reason.VECTOR_STALE


@pytest.mark.parametrize("space", [VectorSpace("text-2", 8), VectorSpace("text-1", 16)])
def test_a_vector_counts_only_in_the_space_that_is_searched(space: VectorSpace) -> None:
    assert why_not_searchable(MEME, COMPLETE, space) is Reason.VECTOR_STALE


CONTEXTS = {
    Reason.CONTEXT_PENDING: None,
    Reason.CONTEXT_REPAIR_REQUIRED: context_of(MEME, status=ContextStatus.REPAIR_REQUIRED),
    Reason.NO_EMBEDDABLE_TEXT: context_of(MEME, Description()),
    None: COMPLETE.context,
}
VECTORS = {
    Reason.VECTOR_MISSING: frozenset[TextStamp](),
    Reason.VECTOR_STALE: frozenset({STALE["words"]}),
    None: COMPLETE.text,
}


@pytest.mark.parametrize(("deleted", "words", "vectors"), list(product([True, False], CONTEXTS, VECTORS)))
def test_of_several_reasons_the_one_that_must_be_mended_first_is_shown(
    deleted: bool, words: Reason | None, vectors: Reason | None
) -> None:
    meme = evolve(MEME, deleted_at=NOW if deleted else None)
    products = Products(COMPLETE.visual, CONTEXTS[words], VECTORS[vectors])
    expected = Reason.DELETED if deleted else words or vectors
    assert why_not_searchable(meme, products, SPACE) is expected


def test_every_reason_is_given_somewhere() -> None:
    assert {Reason.DELETED, *CONTEXTS, *VECTORS} == {*Reason, None}
