"""A client's file name is a label for people, never a path."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.build import NOW

from imgproc_adapters.testing.factories import make_meme
from imgproc_domain.meme import FILENAME_LIMIT, parse_filename


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("cat.png", "cat.png"),
        ("猫 メーム.jpg", "猫 メーム.jpg"),
        ("/etc/passwd", "passwd"),
        ("../../cat.png", "cat.png"),
        (r"C:\Users\me\cat.png", "cat.png"),
        (r"a/b\c.png", "c.png"),
        ("cat\n\tof mine.png", "cat  of mine.png"),
        ("cat\0.png", "cat.png"),
        ("  cat.png  ", "cat.png"),
        ("folder/", "picture"),
        ("", "picture"),
        (" \0 ", "picture"),
        (None, "picture"),
    ],
)
def test_the_last_part_of_a_path_is_the_name_and_a_nameless_file_is_a_picture(raw: str | None, name: str) -> None:
    assert parse_filename(raw) == name


@given(st.none() | st.text(st.characters(), max_size=600))
def test_a_name_is_one_bounded_line_without_separators(raw: str | None) -> None:
    name = parse_filename(raw)
    assert 1 <= len(name) <= FILENAME_LIMIT
    assert not set(name) & set("/\\\n\r\t\0")


def test_a_long_name_is_cut() -> None:
    assert parse_filename("x" * 1000) == "x" * (FILENAME_LIMIT - 1) + "…"


def test_a_meme_parses_its_name_and_keeps_it_when_other_things_change() -> None:
    meme = make_meme(filename="/tmp/cat.png")
    assert meme.filename == "cat.png"
    assert evolve(meme, updated_at=NOW).filename == "cat.png"


def test_a_deleted_meme_does_not_exist() -> None:
    assert make_meme().exists
    assert not make_meme(deleted_at=NOW).exists
