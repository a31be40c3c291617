"""The tenant boundary has one spelling."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import LOCAL, parse_scope


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}", fullmatch=True))
def test_a_scope_is_kept_as_it_is_written(raw: str) -> None:
    assert parse_scope(raw) == raw


@given(st.text(max_size=120))
def test_a_text_is_a_scope_or_an_error_and_never_another_scope(raw: str) -> None:
    try:
        assert parse_scope(raw) == raw
    except InvalidValue:
        assert not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}", raw)


@pytest.mark.parametrize(
    "raw",
    ["", " ", ".hidden", "-x", ":x", "_x", "a b", "a/b", "../a", "a\n", "\na", "a\0", "ä", "猫", "a" * 101],
)
def test_nothing_that_could_be_a_path_or_a_trick_is_a_scope(raw: str) -> None:
    with pytest.raises(InvalidValue, match="1-100 characters"):
        parse_scope(raw)


@pytest.mark.parametrize("raw", ["a", "0", "local", "team:42", "a.b-c_d", "x" * 100])
def test_scopes_by_example(raw: str) -> None:
    assert parse_scope(raw) == raw


def test_the_default_scope_is_one() -> None:
    assert parse_scope(LOCAL) == LOCAL
