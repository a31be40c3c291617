"""Which files of a folder are looked at, and what is thought of each."""

import os
from pathlib import Path

import pytest

from imgproc_app.cli.folder import Candidate, NoPicture, Refused, inspect, walk
from imgproc_domain.ids import Sha256

from .terminal import SAMPLES

LIMIT = 10_000_000


def test_files_come_in_the_order_of_names_without_hidden_ones_and_links(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/z.jpg", "a/b/y.jpg", ".hidden.jpg", ".git/x.jpg", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in walk(tmp_path) if isinstance(path, Path)]
    assert found == ["b.jpg", "c.txt", "loop", "a/z.jpg", "a/b/y.jpg"]


def test_one_file_is_a_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    assert list(walk(tmp_path / "a.jpg")) == [tmp_path / "a.jpg"]


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    disguised = tmp_path / "picture.txt"
    disguised.write_bytes((SAMPLES / "bee.jpg").read_bytes())
    found = inspect(disguised, LIMIT)
    assert isinstance(found, Candidate)
    assert isinstance(found.sha256, Sha256)


@pytest.mark.parametrize(
    ("name", "content", "verdict"),
    [
        ("a.jpg", b"text", NoPicture.REJECTED),
        ("a.PNG", b"", NoPicture.REJECTED),
        ("a.txt", b"text", NoPicture.SKIPPED),
        ("a", b"", NoPicture.SKIPPED),
    ],
)
def test_only_what_claims_to_be_a_picture_is_rejected(
    tmp_path: Path, name: str, content: bytes, verdict: NoPicture
) -> None:
    (tmp_path / name).write_bytes(content)
    found = inspect(tmp_path / name, LIMIT)
    assert isinstance(found, Refused)
    assert (found.verdict, found.code) == (verdict, "unsupported_media")


def test_a_file_too_large_to_be_taken_is_not_read_for_its_hash() -> None:
    assert inspect(SAMPLES / "bee.jpg", 1_000) == Candidate(SAMPLES / "bee.jpg", None)


def test_a_pipe_does_not_block_and_a_missing_file_is_no_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    pipe, gone = inspect(tmp_path / "pipe.jpg", LIMIT), inspect(tmp_path / "gone.jpg", LIMIT)
    assert isinstance(pipe, Refused)
    assert (pipe.verdict, pipe.code) == (NoPicture.SKIPPED, "no_regular_file")
    assert isinstance(gone, Refused)
    assert gone.code == "unreadable"
