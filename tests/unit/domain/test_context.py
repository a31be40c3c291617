"""What a picture means, in bounded clean words, and which of them are embedded."""

import unicodedata
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.domain.build import context_of

from imgproc_adapters.testing.factories import make_meme
from imgproc_domain.context import (
    ITEM_LIMIT,
    LIST_LIMIT,
    PROSE_LIMIT,
    SCHEMA_VERSION,
    TITLE_LIMIT,
    USABLE,
    VISIBLE_TEXT_LIMIT,
    ContextStatus,
    Description,
    Reference,
)
from imgproc_domain.ids import Sha256

CAT = Description(
    title="Monday",
    summary="a cat looks at a screen",
    subjects=("cat", "screen"),
    visible_text="NOT AGAIN",
    references=(Reference("Grumpy Cat", confirmed=True), Reference("Garfield")),
    meaning="nobody likes the first day",
    keywords=("cat", "猫"),
    search_queries=("cat monday",),
    uncertainties=("the breed",),
    source_urls=("https://example.org/cat",),
)
EMBEDDED = {"title", "summary", "subjects", "visible_text", "references", "meaning", "keywords"}
NEVER_EMBEDDED = {"search_queries", "uncertainties", "source_urls"}
NASTY = st.text(st.characters(), max_size=30)
LISTS = st.lists(NASTY, max_size=40)


@st.composite
def descriptions(draw: st.DrawFn) -> Description:
    references = st.builds(Reference, NASTY, st.booleans())
    return Description(
        title=draw(NASTY),
        summary=draw(NASTY),
        subjects=tuple(draw(LISTS)),
        visible_text=draw(NASTY),
        references=tuple(draw(st.lists(references, max_size=4))),
        meaning=draw(st.none() | NASTY),
        keywords=tuple(draw(LISTS)),
    )


def test_the_embedded_text_is_the_whitelisted_fields_in_order_and_nothing_else() -> None:
    assert CAT.embeddable_text() == (
        "Monday\na cat looks at a screen\ncat, screen\nNOT AGAIN\nGrumpy Cat\nnobody likes the first day\ncat, 猫"
    )


def test_every_field_is_either_embedded_or_never_embedded() -> None:
    assert {field.name for field in fields(Description)} == EMBEDDED | NEVER_EMBEDDED


@pytest.mark.parametrize("name", sorted(EMBEDDED))
def test_each_embedded_field_changes_the_hash(name: str) -> None:
    assert evolve(CAT, **_emptied(name)).metadata_hash() != CAT.metadata_hash()


@pytest.mark.parametrize("name", sorted(NEVER_EMBEDDED))
def test_no_other_field_changes_the_hash(name: str) -> None:
    assert evolve(CAT, **_emptied(name)).metadata_hash() == CAT.metadata_hash()


def _emptied(name: str) -> dict[str, Any]:
    return {name: getattr(Description(), name)}


@given(descriptions(), LISTS, LISTS, LISTS, LISTS)
def test_queries_doubts_sources_and_unconfirmed_references_never_enter_the_hash(
    described: Description, queries: list[str], doubts: list[str], urls: list[str], names: list[str]
) -> None:
    confirmed = tuple(reference for reference in described.references if reference.confirmed)
    room = LIST_LIMIT - len(confirmed)
    other = evolve(
        described,
        search_queries=tuple(queries),
        uncertainties=tuple(doubts),
        source_urls=tuple(urls),
        references=(*confirmed, *map(Reference, names[:room])),
    )
    assert other.metadata_hash() == described.metadata_hash()
    assert other.embeddable_text() == described.embeddable_text()


def test_the_file_name_never_enters_the_hash() -> None:
    named = [context_of(make_meme(content="same", filename=name), CAT) for name in ("cat.png", "holiday.png")]
    assert named[0].metadata_hash == named[1].metadata_hash == CAT.metadata_hash()


def test_confirming_a_reference_embeds_it() -> None:
    confirmed = evolve(CAT, references=(*CAT.references[:1], Reference("Garfield", confirmed=True)))
    assert "Grumpy Cat, Garfield" in confirmed.embeddable_text()
    assert confirmed.metadata_hash() != CAT.metadata_hash()


def test_the_address_of_a_reference_is_not_embedded() -> None:
    addressed = evolve(CAT, references=(Reference("Grumpy Cat", confirmed=True, url="https://example.org"),))
    assert addressed.metadata_hash() == CAT.metadata_hash()


@pytest.mark.parametrize(
    "silent",
    [
        Description(),
        Description(title=" \0 ", keywords=("", "\n")),
        Description(search_queries=("cat",), uncertainties=("dog",), source_urls=("https://example.org",)),
        Description(references=(Reference("Garfield"),)),
    ],
    ids=["empty", "blank", "only what is never embedded", "only an unconfirmed reference"],
)
def test_without_embeddable_words_there_is_no_hash(silent: Description) -> None:
    assert (silent.embeddable_text(), silent.metadata_hash()) == ("", None)


def test_the_hash_names_the_schema_it_was_made_under() -> None:
    assert CAT.metadata_hash() == Sha256.of(SCHEMA_VERSION, CAT.embeddable_text())


@given(descriptions())
def test_every_text_is_bounded_and_free_of_nul_and_lone_surrogates(described: Description) -> None:
    texts = [described.title, described.summary, described.visible_text, described.meaning or ""]
    texts += [*described.subjects, *described.keywords, *(reference.name for reference in described.references)]
    assert not [c for text in texts for c in text if c == "\0" or unicodedata.category(c) == "Cs"]
    for items in (described.subjects, described.keywords):
        assert len(items) <= LIST_LIMIT
        assert len(set(items)) == len(items)
        assert all(items)


def test_over_long_texts_are_cut_at_their_limits() -> None:
    long = "x" * 20_000
    cut = Description(title=long, summary=long, visible_text=long, meaning=long, subjects=(long,))
    assert len(cut.title) == TITLE_LIMIT
    assert len(cut.summary) == PROSE_LIMIT
    assert len(cut.visible_text) == VISIBLE_TEXT_LIMIT
    assert cut.meaning is not None
    assert len(cut.meaning) == PROSE_LIMIT
    assert len(cut.subjects[0]) == ITEM_LIMIT
    assert len(Reference(long).name) == ITEM_LIMIT


def test_over_long_lists_are_cut_and_repeated_items_kept_once() -> None:
    assert Description(keywords=tuple(map(str, range(100)))).keywords == tuple(map(str, range(LIST_LIMIT)))
    assert Description(keywords=("cat", "", " cat ", "猫", "cat")).keywords == ("cat", "猫")
    assert len(Description(references=(Reference("Garfield"),) * 100).references) == LIST_LIMIT


def test_a_person_can_say_that_a_picture_means_nothing() -> None:
    assert Description(meaning=None).meaning is None
    assert Description(meaning="").meaning is None


def test_only_partial_and_ready_contexts_are_usable() -> None:
    assert {ContextStatus.PARTIAL, ContextStatus.READY} == USABLE


def test_a_blank_meaning_is_no_meaning() -> None:
    assert Description(meaning=" \0").meaning is None


def test_references_without_a_name_are_nothing_to_embed() -> None:
    nameless = Reference("", confirmed=True)
    assert Description(references=(nameless, nameless)).metadata_hash() is None


def test_the_address_of_a_reference_is_clean_and_bounded() -> None:
    url = Reference("Garfield", url="https://example.org/\0" + "x" * 100_000).url
    assert url is not None
    assert "\0" not in url
    assert len(url) < 10_000


@given(descriptions())
@example(Description(title="e\0\u0301"))
@example(Description(meaning=" "))
def test_a_description_that_is_built_again_from_what_was_stored_is_the_same(described: Description) -> None:
    again = evolve(described)
    assert again == described
    assert again.metadata_hash() == described.metadata_hash()
