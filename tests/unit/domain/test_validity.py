"""A product is valid exactly for the inputs it was made from; a task's history never proves it."""

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.build import CONFIG, OTHER_PICTURE, PICTURE, cat, context_of, products_up_to

from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.context import USABLE, ContextStatus, Description, Origin
from imgproc_domain.product import Products
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage
from imgproc_domain.validity import first_stale_stage, is_valid

MEME = cat()
COMPLETE = products_up_to(None, MEME)
FORBID = ReverseImagePolicy.FORBID


def valid(products: Products, config: ProcessingConfig = CONFIG) -> set[Stage]:
    return {stage for stage in STAGES if is_valid(stage, PICTURE, config, FORBID, products)}


def test_products_of_the_present_inputs_are_valid() -> None:
    assert valid(COMPLETE) == set(STAGES)
    assert first_stale_stage(PICTURE, CONFIG, FORBID, COMPLETE) is None


def test_nothing_is_valid_where_nothing_is_stored() -> None:
    assert valid(Products()) == set()
    assert first_stale_stage(PICTURE, CONFIG, FORBID, Products()) is Stage.VISUAL


@pytest.mark.parametrize("stage", STAGES)
def test_no_product_is_valid_for_another_picture(stage: Stage) -> None:
    assert not is_valid(stage, OTHER_PICTURE, CONFIG, FORBID, COMPLETE)


CHANGES: dict[str, tuple[ProcessingConfig, set[Stage]]] = {
    "visual model": (evolve(CONFIG, visual=VectorSpace("visual-2", 8)), {Stage.VISUAL}),
    "visual dimension": (evolve(CONFIG, visual=VectorSpace("visual-1", 16)), {Stage.VISUAL}),
    "agent": (evolve(CONFIG, agent_fingerprint="agent-2"), {Stage.AGENT}),
    "context schema": (evolve(CONFIG, context_schema="context-2"), {Stage.AGENT}),
    "text model": (evolve(CONFIG, text=VectorSpace("text-2", 8)), {Stage.TEXT}),
    "text dimension": (evolve(CONFIG, text=VectorSpace("text-1", 16)), {Stage.TEXT}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_configuration_makes_exactly_its_own_stage_stale(change: str) -> None:
    config, stale = CHANGES[change]
    assert valid(COMPLETE, config) == set(STAGES) - stale
    assert config.fingerprint != CONFIG.fingerprint


def test_the_agents_words_are_valid_only_under_the_policy_they_were_made_under() -> None:
    assert not is_valid(Stage.AGENT, PICTURE, CONFIG, ReverseImagePolicy.AUTO, COMPLETE)
    made = products_up_to(None, MEME, context_of(MEME, policy=ReverseImagePolicy.AUTO))
    assert is_valid(Stage.AGENT, PICTURE, CONFIG, ReverseImagePolicy.AUTO, made)
    assert not is_valid(Stage.AGENT, PICTURE, CONFIG, FORBID, made)


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("status", ContextStatus)
def test_a_context_counts_only_while_it_is_usable(status: ContextStatus, origin: Origin) -> None:
    products = products_up_to(None, MEME, context_of(MEME, status=status, origin=origin))
    assert (Stage.AGENT in valid(products)) is (status in USABLE)


@pytest.mark.parametrize("policy", ReverseImagePolicy)
def test_a_person_s_words_are_valid_under_every_agent_and_policy(policy: ReverseImagePolicy) -> None:
    products = products_up_to(None, MEME, context_of(MEME, origin=Origin.PERSON))
    for config, _ in CHANGES.values():
        assert is_valid(Stage.AGENT, PICTURE, config, policy, products)


def test_a_person_s_words_about_another_picture_are_not_valid() -> None:
    products = products_up_to(None, MEME, context_of(MEME, origin=Origin.PERSON, picture=OTHER_PICTURE))
    assert Stage.AGENT not in valid(products)


def test_words_of_unknown_origin_are_not_valid() -> None:
    products = evolve(COMPLETE, context=evolve(context_of(MEME), provenance=None))
    assert Stage.AGENT not in valid(products)


@pytest.mark.parametrize(
    ("change", "still"),
    [
        (lambda d: evolve(d, title="another title"), False),
        (lambda d: evolve(d, keywords=("dog",)), False),
        (lambda d: evolve(d, search_queries=("dog",)), True),
        (lambda d: evolve(d, uncertainties=("maybe",)), True),
    ],
    ids=["title", "keywords", "search queries", "uncertainties"],
)
def test_the_text_vector_is_stale_as_soon_as_embedded_words_change(
    change: Callable[[Description], Description], still: bool
) -> None:
    assert COMPLETE.context is not None
    edited = evolve(COMPLETE.context, description=change(COMPLETE.context.description))
    assert (Stage.TEXT in valid(evolve(COMPLETE, context=edited))) is still


@pytest.mark.parametrize("context", [None, context_of(MEME, Description())], ids=["no context", "no words"])
def test_without_words_no_text_vector_is_valid(context: None) -> None:
    assert Stage.TEXT not in valid(evolve(COMPLETE, context=context))


@given(st.sets(st.sampled_from(STAGES)))
def test_the_first_stale_stage_is_the_first_in_order_whatever_comes_after(stored: set[Stage]) -> None:
    empty = Products()
    products = Products(
        COMPLETE.visual if Stage.VISUAL in stored else empty.visual,
        COMPLETE.context if Stage.AGENT in stored else empty.context,
        COMPLETE.text if Stage.TEXT in stored else empty.text,
    )
    expected = next((stage for stage in STAGES if stage not in stored), None)
    assert first_stale_stage(PICTURE, CONFIG, FORBID, products) is expected
