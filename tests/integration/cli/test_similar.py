"""Pictures that look alike, asked for by file and by id."""

import io
from pathlib import Path

import pytest
from attrs import frozen
from benchmarks.edits import EDITS
from PIL import Image

from .terminal import Imgproc, copied

GOOD = ("macaw.jpg", "astronaut.jpg", "coffee-loading.jpg")


@frozen
class Library:
    imgproc: Imgproc
    folder: Path


@pytest.fixture(scope="module")
def library(imgproc: Imgproc, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("pictures")
    copied(GOOD, folder)
    assert imgproc.json("import", str(folder)).code == 0
    return Library(imgproc, folder)


def test_an_edited_file_is_near_its_original_and_not_imported(library: Library, tmp_path: Path) -> None:
    edited = tmp_path / "edited.webp"
    buffer = io.BytesIO()
    with Image.open(library.folder / "macaw.jpg") as image:
        EDITS["cropped by 5 %"](image.convert("RGB")).save(buffer, "WEBP")
    edited.write_bytes(buffer.getvalue())
    found = library.imgproc.json("similar", str(edited), "-n", "2").document
    first, second = found["results"]
    assert (first["filename"], first["kind"]) == ("macaw.jpg", "near")
    assert second["kind"] == "similar"
    again = library.imgproc.json("similar", str(library.folder / "macaw.jpg"), "--min-score", "0.9").document
    assert [(r["filename"], r["kind"], r["score"]) for r in again["results"]] == [("macaw.jpg", "exact", 1.0)]
    assert sum(library.imgproc.json("status").document["pictures"].values()) == len(GOOD)
    by_id = library.imgproc.run("similar", again["results"][0]["meme_id"])
    assert by_id.code == 0
    assert all(name in by_id.out for name in ("astronaut.jpg", "coffee-loading.jpg", "similar"))
    assert "macaw.jpg" not in by_id.out


def test_what_is_neither_a_file_nor_a_picture_of_the_library_is_an_error(library: Library, tmp_path: Path) -> None:
    nothing = library.imgproc.json("similar", "no-such-file.jpg")
    assert (nothing.code, nothing.document["error"]) == (2, "usage_error")
    unknown = library.imgproc.json("similar", "01981f4e-7c00-7abc-8def-0123456789ab")
    assert (unknown.code, unknown.document["error"]) == (2, "meme_not_found")
    (tmp_path / "words.jpg").write_text("no picture, whatever its name says")
    broken = library.imgproc.json("similar", str(tmp_path / "words.jpg"))
    assert (broken.code, broken.document["error"]) == (2, "unsupported_media")
