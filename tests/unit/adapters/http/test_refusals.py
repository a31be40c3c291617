"""What a refusal says was expected, for every kind of field there is."""

from enum import StrEnum
from typing import Annotated, Literal

import pytest
from litestar.params import Parameter

from imgproc_adapters.http.limits import size_text
from imgproc_adapters.http.refusals import Refusal, expectation, refused


class Shade(StrEnum):
    LIGHT = "light"
    DARK = "dark"


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "text"),
        (Annotated[str, Parameter(max_length=9)], "text of at most 9 characters"),
        (int, "a whole number"),
        (Annotated[int, Parameter(ge=1, le=9)], "a whole number from 1 to 9"),
        (Annotated[float, Parameter(ge=-1, le=1)] | None, "a number from -1 to 1"),
        (bool, "true or false"),
        (Literal["one"], "one"),
        (Literal["one", "two"], "one of one, two"),
        (Shade | None, "one of light, dark"),
        (int | bool, "a whole number or true or false"),
        (bytes, "a value of another kind"),
    ],
)
def test_what_was_expected_is_said_in_words(annotation: object, words: str) -> None:
    assert expectation(annotation) == words


def test_a_refusal_names_its_field_and_its_place() -> None:
    error = refused(Refusal("query", "limit", "a whole number"), Refusal("body", None, "valid JSON"))
    assert error.message == "limit in the query: expected a whole number; the body: expected valid JSON"
    assert error.details == {
        "refused": [
            {"in": "query", "field": "limit", "expected": "a whole number"},
            {"in": "body", "expected": "valid JSON"},
        ]
    }


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KB"),
        (41_943_040, "40 MB"),
        (839_909_376, "801 MB"),
        (3 << 29, "1.5 GB"),
    ],
)
def test_a_size_is_told_as_people_say_it(size: int, text: str) -> None:
    assert size_text(size) == text
