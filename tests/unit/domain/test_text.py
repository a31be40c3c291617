"""Text from outside is safe to store, log and show after one cleaning, and the same after two."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imgproc_domain.text import clean

ANY_TEXT = st.text(st.characters(), max_size=80)
"""Any code points at all: lone surrogates, NULs and unassigned ones included."""
LIMITS = st.integers(1, 40)


@given(ANY_TEXT, LIMITS)
def test_nothing_is_left_that_a_database_or_a_terminal_would_choke_on(raw: str, limit: int) -> None:
    cleaned = clean(raw, limit)
    assert len(cleaned) <= limit
    assert not {c for c in cleaned if unicodedata.category(c) in {"Cc", "Cs"}} - {"\n", "\t"}
    assert cleaned == cleaned.strip()
    assert cleaned.encode().decode() == cleaned


@given(ANY_TEXT, LIMITS)
@example("e\0\u0301", 10)
def test_cleaned_text_is_in_normal_form_and_cleaning_it_again_changes_nothing(raw: str, limit: int) -> None:
    cleaned = clean(raw, limit)
    assert unicodedata.is_normalized("NFC", cleaned)
    assert clean(cleaned, limit) == cleaned


@given(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=60), LIMITS)
def test_text_that_fits_is_kept_and_what_was_cut_shows_it(raw: str, limit: int) -> None:
    whole = unicodedata.normalize("NFC", raw).strip()
    cleaned = clean(raw, limit)
    if len(whole) <= limit:
        assert cleaned == whole
    else:
        assert cleaned.endswith("…")
        assert whole.startswith(cleaned[:-1])


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("a\0b", "ab"),
        ("a\ud800b", "ab"),
        ("a\x1b[31mb", "a[31mb"),
        ("a\x7fb\x9fc", "abc"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("  \n padded \t ", "padded"),
        ("e\u0301", "é"),
        ("猫\uffffも", "猫も"),
        ("👨‍👩‍👧 🏳️‍🌈", "👨‍👩‍👧 🏳️‍🌈"),
        ("\0\0\0", ""),
    ],
)
def test_cleaning_by_example(raw: str, cleaned: str) -> None:
    assert clean(raw, 40) == cleaned


@pytest.mark.parametrize(("raw", "cleaned"), [("abcd", "abcd"), ("abcde", "abc…"), ("ab  cd", "ab…")])
def test_a_cut_leaves_room_for_its_mark(raw: str, cleaned: str) -> None:
    assert clean(raw, 4) == cleaned


def test_a_hundred_megabytes_cost_no_more_than_the_limit_asks_for() -> None:
    assert clean("x" * 100_000_000, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("filler", ["\0", " "])
def test_what_lies_behind_a_long_run_of_nothing_is_not_lost_without_a_mark(filler: str) -> None:
    assert clean("a" + filler * 100 + "b", 10) != "a"


@pytest.mark.parametrize("line_break", ["\r", "\x0b", "\x0c", "\x85"])
def test_a_line_break_of_any_kind_keeps_words_apart(line_break: str) -> None:
    assert clean(f"one{line_break}two", 40) != "onetwo"
