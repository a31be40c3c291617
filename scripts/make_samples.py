"""Draws the pictures of `samples/` again, from photographs that installed packages bring.

Needs, besides the project's own environment:

- the dependency group `samples` (scikit-image and scikit-learn; only their files are read), and
- the Debian packages gcompris-qt-data, lomiri-wallpapers-16.04 and fonts-noto-cjk, either installed or
  unpacked under a folder given with `--root`.

The words come from `samples/captions.json`, the credits are in `samples/CREDITS.md`. With the same versions
of the packages and of Pillow the files come out the same byte for byte.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import struct
import zlib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from attrs import frozen
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY: Final = Path(__file__).resolve().parents[1]
BACKGROUNDS: Final = "usr/share/backgrounds"
BUNDLES: Final = "usr/share/gcompris-qt/rcc"
FONT: Final = "usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc"
FONT_INDEX_SIMPLIFIED_CHINESE: Final = 2

WIDTH: Final = 560
JPEG_QUALITY: Final = 82
LARGEST_TEXT: Final = 46
SMALLEST_TEXT: Final = 26
MARGIN: Final = 12
EXIF_ORIENTATION: Final = 0x0112
ROTATE_CLOCKWISE_TO_SHOW: Final = 6

WHOLE: Final = (0.0, 0.0, 1.0, 1.0)
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom, as parts of the width and the height."""


@frozen
class PackageFile:
    """A file inside an importable package."""

    package: str
    path: str


@frozen
class SystemFile:
    """A file that a Debian package installs, relative to the root."""

    path: str


@frozen
class Bundled:
    """A file inside a Qt resource bundle of gcompris-qt-data."""

    activity: str
    path: str


Source: TypeAlias = PackageFile | SystemFile | Bundled


class Form(Enum):
    """What is made of a photograph."""

    OUTLINED = "words with an outline on the photograph"
    BAR = "black words on a white bar above the photograph"
    TURNED = "as OUTLINED, the pixels stored on their side under an EXIF orientation"
    CUT_OUT = "the bright orange subject on transparency, with dark words"
    CLOSING_IN = "an animation that closes in on the centre"
    BLANK_FIRST = "an animation whose first frame is blank"


@frozen
class Recipe:
    file: str
    source: Source
    form: Form = Form.OUTLINED
    crop: Box = WHOLE


@frozen
class Words:
    """The lines above and below the middle of a picture; either may be empty."""

    top: str
    bottom: str


RECIPES: Final[tuple[Recipe, ...]] = (
    Recipe("cat-meeting.jpg", PackageFile("skimage", "data/chelsea.png")),
    Recipe("coffee-loading.jpg", PackageFile("skimage", "data/coffee.png")),
    Recipe("rocket-friday.jpg", PackageFile("skimage", "data/rocket.jpg")),
    Recipe("astronaut.jpg", PackageFile("skimage", "data/astronaut.png")),
    Recipe("owl-overtime.jpg", Bundled("explore_farm_animals", "animals/owl.webp")),
    Recipe("panda-diet.jpg", Bundled("explore_world_animals", "animals/panda.webp")),
    Recipe("red-panda-snack.jpg", Bundled("erase", "red_panda.webp")),
    Recipe("meerkats-boss.jpg", Bundled("erase", "meerkats.webp"), Form.BAR),
    Recipe(
        "koala-five-minutes.jpg",
        Bundled("explore_world_animals", "animals/koala.webp"),
        crop=(0, 0.1, 1, 0.75),
    ),
    Recipe("sheep-haircut.jpg", Bundled("explore_farm_animals", "animals/sheep.webp"), Form.BAR),
    Recipe("lemurs-architecture.jpg", Bundled("explore_world_animals", "animals/lemur.webp")),
    Recipe("penguin-pace.jpg", Bundled("erase", "penguin.webp"), Form.BAR, crop=(0.15, 0, 0.85, 1)),
    Recipe("gosling-first-day.jpg", Bundled("erase", "gosling.webp"), Form.BAR, crop=(0.15, 0, 0.85, 1)),
    Recipe("crab-sideways.jpg", Bundled("erase", "crab.webp")),
    Recipe("caterpillar-growing.jpg", Bundled("erase", "caterpillar.webp")),
    Recipe("chickens-standup.jpg", Bundled("explore_farm_animals", "animals/chicken.webp"), Form.BAR),
    Recipe("mountain-trail.jpg", SystemFile(f"{BACKGROUNDS}/picosdeeuropa_by_Aitzol_Berasategi.jpg")),
    Recipe("hedgehog-prickly.jpg", Bundled("explore_world_animals", "animals/hedgehog.webp")),
    Recipe("temple-holiday.jpg", PackageFile("sklearn", "datasets/images/china.jpg")),
    Recipe("dogs-window.jpg", SystemFile(f"{BACKGROUNDS}/friends_by_Aitzol_Berasategi.jpg"), Form.TURNED),
    Recipe(
        "flower-season.png",
        PackageFile("sklearn", "datasets/images/flower.jpg"),
        Form.CUT_OUT,
        crop=(0.25, 0.177, 0.715, 0.875),
    ),
    Recipe("calf-question.gif", Bundled("erase", "calf.webp"), Form.CLOSING_IN),
    Recipe("cheetah-deadline.webp", Bundled("erase", "cheetah.webp"), Form.BLANK_FIRST),
    Recipe("macaw.jpg", Bundled("explore_world_animals", "animals/scarlet_macaw.webp")),
    Recipe("bee.jpg", Bundled("erase", "bee.webp"), crop=(0, 0.3, 0.55, 0.95)),
)


def bundle_files(bundle: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the bytes of each file in a Qt resource bundle.

    The layout is the one Qt's `rcc --binary` writes: a header, then a tree of 14-byte nodes (22 bytes from
    version 2 on) that point into a table of names and one of data. Raises ValueError for anything else.
    """
    if bundle[:4] != b"qres":
        raise ValueError("not a Qt resource bundle")
    version, tree, data, names = struct.unpack_from(">4I", bundle, 4)
    node_size = 14 if version < 2 else 22
    pending = [(0, "")]
    while pending:
        node, parent = pending.pop()
        at = tree + node * node_size
        name_at, flags, first, second = struct.unpack_from(">IHII", bundle, at)
        length = struct.unpack_from(">H", bundle, names + name_at)[0] if node else 0
        name = bundle[names + name_at + 6 : names + name_at + 6 + 2 * length].decode("utf-16-be")
        path = f"{parent}/{name}" if node else ""
        if flags & 2:
            pending.extend((child, path) for child in range(second, second + first))
            continue
        start = data + second + 4
        content = bundle[start : start + struct.unpack_from(">I", bundle, data + second)[0]]
        yield path, zlib.decompress(content[4:]) if flags & 1 else content


def photograph(source: Source, root: Path) -> Image.Image:
    """Opens a source as RGB; raises FileNotFoundError if its package is not there."""
    match source:
        case PackageFile(package, path):
            spec = importlib.util.find_spec(package)
            if spec is None or spec.origin is None:
                raise FileNotFoundError(f"package {package} is not installed")
            return Image.open(Path(spec.origin).parent / path).convert("RGB")
        case SystemFile(path):
            return Image.open(root / path).convert("RGB")
        case Bundled(activity, path):
            wanted = f"/gcompris/src/activities/{activity}/resource/{path}"
            for name, content in bundle_files((root / BUNDLES / f"{activity}.rcc").read_bytes()):
                if name == wanted:
                    with Image.open(io.BytesIO(content)) as opened:
                        return opened.convert("RGB")
            raise FileNotFoundError(f"{wanted} is not in its bundle")
        case _:
            assert_never(source)


def framed(photo: Image.Image, crop: Box, width: int = WIDTH) -> Image.Image:
    """Crops to a box and scales to a width."""
    left, top, right, bottom = crop
    box = (left * photo.width, top * photo.height, right * photo.width, bottom * photo.height)
    height = round(width * (box[3] - box[1]) / (box[2] - box[0]))
    return photo.resize((width, height), Image.Resampling.LANCZOS, box=box)


class Lettering:
    """Fits lines of a caption to a width, in one typeface for both languages."""

    def __init__(self, font: Path) -> None:
        self._font = font

    def fitted(self, line: str, width: int) -> ImageFont.FreeTypeFont:
        """The largest size that fits; raises ValueError if a line would have to be too small to read."""
        for size in range(LARGEST_TEXT, SMALLEST_TEXT - 1, -1):
            font = ImageFont.truetype(self._font, size, index=FONT_INDEX_SIMPLIFIED_CHINESE)
            if font.getlength(line) <= width - 2 * MARGIN:
                return font
        raise ValueError(f"too long to be legible: {line}")

    def outlined(self, picture: Image.Image, words: Words) -> Image.Image:
        """White words with a black outline at the upper and the lower edge."""
        result = picture.copy()
        draw = ImageDraw.Draw(result)
        middle = result.width / 2
        for line, y, anchor in ((words.top, MARGIN, "ma"), (words.bottom, result.height - MARGIN, "md")):
            if line:
                font = self.fitted(line, result.width)
                stroke = round(font.size / 11)
                draw.text((middle, y), line, "white", font, anchor, stroke_width=stroke, stroke_fill="black")
        return result

    def under_bar(self, picture: Image.Image, words: Words) -> Image.Image:
        """Black words on a white bar above the picture."""
        lines = [line for line in (words.top, words.bottom) if line]
        font = min((self.fitted(line, picture.width) for line in lines), key=lambda each: each.size)
        step = round(font.size * 1.25)
        bar = step * len(lines) + 2 * MARGIN
        result = Image.new("RGB", (picture.width, picture.height + bar), "white")
        result.paste(picture, (0, bar))
        draw = ImageDraw.Draw(result)
        for number, line in enumerate(lines):
            draw.text((picture.width / 2, MARGIN + step * number + step / 2), line, "black", font, "mm")
        return result

    def dark(self, picture: Image.Image, words: Words, room: int) -> Image.Image:
        """Near-black words on transparency, in `room` pixels added above and below an RGBA picture."""
        result = Image.new("RGBA", (picture.width, picture.height + 2 * room), (0, 0, 0, 0))
        result.paste(picture, (0, room))
        draw = ImageDraw.Draw(result)
        for line, y in ((words.top, room / 2), (words.bottom, result.height - room / 2)):
            draw.text((result.width / 2, y), line, (20, 20, 20, 255), self.fitted(line, result.width), "mm")
        return result


def orange_alone(photo: Image.Image) -> Image.Image:
    """Keeps what is clearly redder than green and blue in the ellipse that fills the photograph."""
    red, green, blue = photo.split()
    petals = ImageChops.darker(_above(ImageChops.subtract(red, blue), 40), _above(ImageChops.subtract(red, green), 12))
    ellipse = Image.new("L", photo.size, 0)
    ImageDraw.Draw(ellipse).ellipse((0, 0, photo.width - 1, photo.height - 1), fill=255)
    smooth = ImageChops.darker(petals, ellipse).filter(ImageFilter.MedianFilter(9))
    result = photo.convert("RGBA")
    result.putalpha(smooth.filter(ImageFilter.GaussianBlur(1.2)))
    return result


def _above(channel: Image.Image, threshold: int) -> Image.Image:
    return channel.point([255 if level > threshold else 0 for level in range(256)])


def save_turned(picture: Image.Image, path: Path) -> None:
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = ROTATE_CLOCKWISE_TO_SHOW
    stored = picture.transpose(Image.Transpose.ROTATE_90)
    stored.save(path, quality=JPEG_QUALITY, optimize=True, exif=exif)


def save_closing_in(photo: Image.Image, words: Words, lettering: Lettering, path: Path) -> None:
    closer = [
        framed(photo, (near, near * 0.75, 1 - near, 1 - near * 1.25), 400) for near in (0.0, 0.08, 0.16, 0.24, 0.32)
    ]
    frames = [lettering.outlined(frame, words) for frame in closer]
    # one palette for all frames keeps the words from flickering
    palette = frames[0].quantize(128)
    indexed = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    indexed[0].save(path, save_all=True, append_images=indexed[1:], duration=500, loop=0, optimize=True)


def save_blank_first(photo: Image.Image, words: Words, lettering: Lettering, path: Path) -> None:
    wide, close = (lettering.outlined(framed(photo, crop), words) for crop in (WHOLE, (0.1, 0.1, 0.9, 0.9)))
    blank = Image.new("RGB", wide.size, "white")
    blank.save(
        path,
        save_all=True,
        append_images=[wide, close],
        duration=[120, 900, 900],
        loop=0,
        quality=75,
        method=6,
    )


def make(recipe: Recipe, words: Words, lettering: Lettering, root: Path, target: Path) -> None:
    photo = photograph(recipe.source, root)
    path = target / recipe.file
    match recipe.form:
        case Form.OUTLINED:
            drawn = lettering.outlined(framed(photo, recipe.crop), words)
            drawn.save(path, quality=JPEG_QUALITY, optimize=True)
        case Form.BAR:
            drawn = lettering.under_bar(framed(photo, recipe.crop), words)
            drawn.save(path, quality=JPEG_QUALITY, optimize=True)
        case Form.TURNED:
            save_turned(lettering.outlined(framed(photo, recipe.crop, 420), words), path)
        case Form.CUT_OUT:
            cut = orange_alone(framed(photo, recipe.crop, 400))
            lettering.dark(cut, words, room=70).save(path, optimize=True)
        case Form.CLOSING_IN:
            save_closing_in(photo, words, lettering, path)
        case Form.BLANK_FIRST:
            save_blank_first(photo, words, lettering, path)
        case _:
            assert_never(recipe.form)


def captions(path: Path) -> dict[str, Words]:
    """Words by file name: one language is split at its line break, of two each has one line."""
    words: dict[str, Words] = {}
    for entry in json.loads(path.read_text(encoding="utf-8")):
        english, chinese = entry.get("caption_en", ""), entry.get("caption_zh", "")
        top, _, bottom = (f"{english}\n{chinese}" if english and chinese else english or chinese).partition("\n")
        words[entry["file"]] = Words(top, bottom)
    return words


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw the sample pictures from photographs in packages.")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the Debian packages are unpacked")
    parser.add_argument("--target", type=Path, default=REPOSITORY / "samples", help="folder to write to")
    options = parser.parse_args(arguments)
    words = captions(REPOSITORY / "samples" / "captions.json")
    lettering = Lettering(options.root / FONT)
    options.target.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        make(recipe, words[recipe.file], lettering, options.root, options.target)
        print(f"{recipe.file}: {(options.target / recipe.file).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
