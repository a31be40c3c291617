"""The sample pictures are what their lists say, and the odd ones are odd in the way the pipeline must handle."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageOps, ImageSequence, ImageStat

if TYPE_CHECKING:
    from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "samples"
LISTS = {"captions.json", "queries.json", "CREDITS.md"}
FREE = {"CC0 1.0", "CC BY 2.0", "CC BY 4.0", "CC BY-SA 4.0", "public domain"}


def load(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((SAMPLES / name).read_text(encoding="utf-8"))
    return entries


CAPTIONS = load("captions.json")
QUERIES = load("queries.json")
PICTURES = sorted(path.name for path in SAMPLES.iterdir() if path.name not in LISTS)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_samples", REPOSITORY / "scripts" / "make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_lists_name_exactly_the_pictures(script: ModuleType) -> None:
    assert sorted(entry["file"] for entry in CAPTIONS) == PICTURES
    assert sorted(recipe.file for recipe in script.RECIPES) == PICTURES


def test_the_pictures_stay_small() -> None:
    assert sum((SAMPLES / name).stat().st_size for name in PICTURES) < 2_500_000


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_decodes_to_a_modest_size(name: str) -> None:
    with Image.open(SAMPLES / name) as picture:
        picture.load()
        assert 400 <= max(picture.size) <= 640
        assert set(picture.getexif()) <= {0x0112}


def test_captions_come_in_each_language_in_both_and_in_none() -> None:
    kinds = {("caption_en" in entry, "caption_zh" in entry) for entry in CAPTIONS}
    assert kinds == {(True, False), (False, True), (True, True), (False, False)}
    assert all(entry["shows_en"] and entry["shows_zh"] for entry in CAPTIONS)


def test_every_picture_is_credited_once_under_a_free_licence() -> None:
    rows = re.findall(
        r"^\| (\S+\.\w+) \| .+? \| (.+?) \| (.+?) \| .+? \|$",
        (SAMPLES / "CREDITS.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert sorted(name for name, _, _ in rows) == PICTURES
    assert {licence for _, _, licence in rows} <= FREE
    assert all(author.strip() for _, author, _ in rows)


def test_queries_are_balanced_and_point_at_pictures() -> None:
    assert [entry["language"] for entry in QUERIES].count("zh") == len(QUERIES) / 2 == 10
    assert {entry["file"] for entry in QUERIES} <= set(PICTURES)
    assert sum(entry.get("cross", False) for entry in QUERIES) <= 4


def test_no_query_copies_its_caption() -> None:
    by_file = {entry["file"]: entry for entry in CAPTIONS}
    for entry in QUERIES:
        caption = by_file[entry["file"]].get(f"caption_{entry['language']}", "")
        for line in filter(None, caption.split("\n")):
            assert line.casefold() not in entry["query"].casefold()
            assert entry["query"].casefold() not in line.casefold()


def test_one_photograph_lies_on_its_side_under_its_orientation() -> None:
    with Image.open(SAMPLES / "dogs-window.jpg") as stored:
        assert stored.getexif()[0x0112] == 6
        upright = ImageOps.exif_transpose(stored)
        assert (upright.width, upright.height) == (stored.height, stored.width)
        assert upright.height > upright.width


def test_one_picture_is_readable_only_on_white() -> None:
    with Image.open(SAMPLES / "flower-season.png") as picture:
        assert picture.mode == "RGBA"
        words = picture.crop((0, 0, picture.width, 60))
        assert words.getchannel("A").getextrema() == (0, 255)
        on_black, on_white = (Image.new("RGB", words.size, ground) for ground in ("black", "white"))
        for ground in (on_black, on_white):
            ground.paste(words, mask=words.getchannel("A"))
        assert max(ImageStat.Stat(on_black).stddev) < 10
        assert max(ImageStat.Stat(on_white).stddev) > 30


def test_the_animations_move_and_one_begins_blank() -> None:
    with Image.open(SAMPLES / "calf-question.gif") as animation:
        frames = [frame.convert("RGB").tobytes() for frame in ImageSequence.Iterator(animation)]
        assert len(frames) == len(set(frames)) == 5
    with Image.open(SAMPLES / "cheetah-deadline.webp") as animation:
        spreads = [max(ImageStat.Stat(frame.convert("L")).stddev) for frame in ImageSequence.Iterator(animation)]
    assert spreads[0] < 1
    assert min(spreads[1:]) > 20


def bundle(name: str, content: bytes, *, flags: int) -> bytes:
    """A version-1 resource bundle with one file in its root."""
    names = struct.pack(">HI", len(name), 0) + name.encode("utf-16-be")
    data = struct.pack(">I", len(content)) + content
    tree = struct.pack(">IHII", 0, 2, 1, 1) + struct.pack(">IHHHI", 0, flags, 0, 0, 0)
    at_data = 20
    at_names = at_data + len(data)
    header = b"qres" + struct.pack(">4I", 1, at_names + len(names), at_data, at_names)
    return header + data + names + tree


def test_a_resource_bundle_is_read_plain_and_compressed(script: ModuleType) -> None:
    packed = struct.pack(">I", 5) + zlib.compress(b"bytes")
    assert list(script.bundle_files(bundle("图.webp", b"bytes", flags=0))) == [("/图.webp", b"bytes")]
    assert list(script.bundle_files(bundle("a.webp", packed, flags=1))) == [("/a.webp", b"bytes")]


def test_other_bytes_are_no_resource_bundle(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="not a Qt resource bundle"):
        list(script.bundle_files(b"RIFF" + bytes(40)))
