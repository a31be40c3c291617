"""What the local agent says, and that it says no more than it knows."""

import numpy as np
import pytest

from imgproc_adapters.agent.describe import Evidence, describe
from imgproc_adapters.agent.ocr import TextLine, in_reading_order
from imgproc_adapters.agent.words import keywords
from imgproc_adapters.visual.concepts import Tag, concepts, tags


def line(text: str, *, left: float = 0, top: float = 0, height: float = 20, confidence: float = 0.98) -> TextLine:
    return TextLine(text, confidence, left, top, height)


CAT = Tag("cat", "猫", 0.87)


def test_text_and_subjects_make_a_description_in_both_languages() -> None:
    read = (line("My answer is no", top=0), line("没喝咖啡的早晨", top=40))
    told = describe(Evidence(read, (CAT,)))
    assert told.title == "My answer is no"
    assert told.visible_text == "My answer is no\n没喝咖啡的早晨"
    assert told.subjects == ("cat", "猫")
    assert told.keywords == ("answer", "没喝咖啡", "早晨")
    assert told.meaning is None
    assert told.references == ()
    assert told.source_urls == ()


def test_everything_guessed_is_named_as_uncertain() -> None:
    told = describe(Evidence((line("blurred", confidence=0.6),), (CAT,)))
    assert "text read by OCR with confidence 0.60" in told.uncertainties
    assert '"blurred" was read with confidence 0.60' in told.uncertainties
    assert 'subject "cat" comes from an image classifier (0.87)' in told.uncertainties


def test_the_title_is_the_first_of_the_tallest_lines() -> None:
    read = (line("small print", height=8), line("HEADLINE", top=20, height=40), line("second", top=70, height=39))
    assert describe(Evidence(read, ())).title == "HEADLINE"


def test_a_long_line_gives_a_bounded_title() -> None:
    title = describe(Evidence((line("word " * 60),), ())).title
    assert len(title) <= 80
    assert title.endswith("…")


def test_without_text_the_title_names_the_subject() -> None:
    assert describe(Evidence((), (CAT,))).title == "Picture of cat / 猫"


def test_a_picture_that_shows_nothing_known_still_has_a_valid_description() -> None:
    told = describe(Evidence((), ()))
    assert told.embeddable_text()
    assert told.subjects == ()
    assert told.visible_text == ""


def test_hostile_text_is_cleaned() -> None:
    told = describe(Evidence((line("a\x00b\u202ec\ud800d"),), ()))
    assert "\x00" not in told.visible_text
    assert "\ud800" not in told.embeddable_text()
    told.embeddable_text().encode("utf-8")


def test_lines_are_read_top_down_and_boxes_of_one_line_left_to_right() -> None:
    boxes = [
        line("d", top=60, left=5),
        line("b", top=3, left=200),
        line("c", top=30, left=0),
        line("a", top=0, left=10),
    ]
    assert [box.text for box in in_reading_order(boxes)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, THE CAT and the dog's bone", ("cat", "dog's", "bone")),
        ("没喝咖啡的早晨", ("没喝咖啡", "早晨")),
        ("我们比他们还清楚", ("还清楚",)),
        ("Friday上线 2024", ("friday", "上线")),
        ("", ()),
        ("的了吗", ()),
    ],
)
def test_keywords_of_mixed_languages(text: str, expected: tuple[str, ...]) -> None:
    assert keywords([text]) == expected


def test_keywords_are_bounded() -> None:
    assert len(keywords([" ".join(f"word{'x' * n}" for n in range(100))])) == 24


def test_every_concept_has_two_names_and_known_classes() -> None:
    table = concepts()
    assert len({concept.english for concept in table}) == len(table)
    assert all(concept.chinese for concept in table)
    assert all(concept.classes <= set(range(1000)) for concept in table)


def test_the_probabilities_of_all_breeds_count_as_dog() -> None:
    logits = np.full(1000, -10, np.float32)
    logits[151:269] = 5
    (tag,) = tags(logits)
    assert (tag.english, tag.chinese) == ("dog", "狗")
    assert tag.confidence > 0.99


def test_the_more_special_of_two_sure_concepts_comes_first() -> None:
    logits = np.full(1000, -10, np.float32)
    logits[296] = 10
    assert [tag.english for tag in tags(logits)] == ["polar bear", "bear"]


def test_an_unsure_classifier_names_nothing() -> None:
    assert tags(np.zeros(1000, np.float32)) == ()
