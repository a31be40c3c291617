"""What is let in, why the rest is not, and that every file becomes the same kind of pixels."""

import contextlib
import io
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from imgproc_adapters.imaging import Limits, normalize, probe, thumbnail
from imgproc_domain.errors import PictureRejected

RED, LIME, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def encoded(image: Image.Image, name: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()


def flag() -> Image.Image:
    """64 x 40, white, its upper left quarter red: every turn and flip of it is another picture."""
    image = Image.new("RGB", (64, 40), "white")
    ImageDraw.Draw(image).rectangle((0, 0, 31, 19), fill="red")
    return image


def noisy(side: int = 64) -> Image.Image:
    return Image.effect_noise((side, side), 90).convert("RGB")


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(header: bytes, pixels: bytes, *more: bytes) -> bytes:
    body = png_chunk(b"IDAT", zlib.compress(pixels, 9))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + b"".join(more) + body + png_chunk(b"IEND", b"")


def bomb(side: int) -> bytes:
    """A few kilobytes that promise, and hold, side x side one-bit pixels."""
    row = bytes(1 + (side + 7) // 8)
    return png(struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0), row * side)


def grey16(levels: Sequence[int]) -> bytes:
    """A PNG of one row of 16-bit grey pixels."""
    row = b"\0" + struct.pack(f">{len(levels)}H", *levels)
    return png(struct.pack(">IIBBBBB", len(levels), 1, 16, 0, 0, 0, 0), row)


def animation(name: str, frames: Sequence[Image.Image]) -> bytes:
    return encoded(frames[0], name, save_all=True, append_images=list(frames[1:]), duration=50, loop=0)


def turned(orientation: int) -> bytes:
    """`flag` stored so that EXIF `orientation` turns it upright."""
    undo: Final = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    image = flag()
    stored = image.transpose(undo[orientation]) if orientation in undo else image
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(stored, "JPEG", exif=exif, quality=95)


def black_text_on_nothing() -> bytes:
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    ImageDraw.Draw(image).text((8, 24), "HI", fill=(0, 0, 0, 255))
    return encoded(image, "PNG")


def transparent_palette() -> bytes:
    image = Image.new("P", (32, 32))
    image.putpalette([0, 0, 0] + [200, 10, 10] * 255)
    image.paste(1, (8, 8, 24, 24))
    return encoded(image, "PNG", transparency=bytes([0] + [255] * 255))


def colours(count: int) -> list[Image.Image]:
    return [Image.new("L", (8, 8), i % 256) for i in range(count)]


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'

ACCEPTED: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "plain.jpg": ("JPEG", lambda: encoded(flag(), "JPEG")),
    "plain.png": ("PNG", lambda: encoded(flag(), "PNG")),
    "plain.webp": ("WEBP", lambda: encoded(flag(), "WEBP")),
    "lossless.webp": ("WEBP", lambda: encoded(flag(), "WEBP", lossless=True)),
    "plain.avif": ("AVIF", lambda: encoded(flag(), "AVIF")),
    "plain.gif": ("GIF", lambda: encoded(flag(), "GIF")),
    "tail.jpg": ("JPEG", lambda: encoded(flag(), "JPEG") + bytes(4096)),
    "cmyk.jpg": ("JPEG", lambda: encoded(flag().convert("CMYK"), "JPEG")),
    "alpha.png": ("PNG", black_text_on_nothing),
    "palette.png": ("PNG", transparent_palette),
    "moving.gif": ("GIF", lambda: animation("GIF", colours(300))),
    "moving.webp": ("WEBP", lambda: animation("WEBP", [Image.new("RGB", (9, 9), c) for c in (RED, BLUE)])),
    "moving.png": ("PNG", lambda: animation("PNG", [Image.new("RGB", (9, 9), c) for c in (RED, BLUE)])),
    "png_inside.jpg": ("PNG", lambda: encoded(flag(), "PNG")),
    "webp_inside.gif": ("WEBP", lambda: encoded(flag(), "WEBP")),
    "no_extension": ("JPEG", lambda: encoded(flag(), "JPEG")),
    "UPPER.JPG": ("JPEG", lambda: encoded(flag(), "JPEG")),
    "微信图片_\U0001f923.jpg": ("JPEG", lambda: encoded(flag(), "JPEG")),
    "dot.png": ("PNG", lambda: encoded(Image.new("RGB", (1, 1)), "PNG")),
    "deep.png": ("PNG", lambda: grey16([0, 30_000, 65_535])),
    **{f"turned{n}.jpg": ("JPEG", lambda n=n: turned(n)) for n in range(1, 9)},  # type: ignore[misc] # a bound loop variable
}

REJECTED: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "empty.jpg": ("unsupported_media", lambda: b""),
    "words.jpg": ("unsupported_media", lambda: b"not an image\n"),
    "script.svg": ("unsupported_media", lambda: SVG),
    "svg_inside.png": ("unsupported_media", lambda: SVG),
    "tiff.jpg": ("unsupported_media", lambda: encoded(flag(), "TIFF")),
    "half.jpg": ("image_corrupt", lambda: (d := encoded(noisy(), "JPEG", quality=95))[: len(d) // 2]),
    "half.png": ("image_corrupt", lambda: (d := encoded(noisy(), "PNG"))[: len(d) // 2]),
    "half.webp": ("image_corrupt", lambda: (d := encoded(noisy(), "WEBP"))[: len(d) // 2]),
    "half.avif": ("image_corrupt", lambda: (d := encoded(noisy(), "AVIF"))[: len(d) // 2]),
    "half.gif": ("image_corrupt", lambda: (d := encoded(noisy(), "GIF"))[: len(d) // 2]),
    "header.jpg": ("image_corrupt", lambda: encoded(flag(), "JPEG")[:20]),
    "bomb_10000.png": ("too_many_pixels", lambda: bomb(10_000)),
    "bomb_20000.png": ("too_many_pixels", lambda: bomb(20_000)),
    "long.png": (
        "too_many_pixels",
        lambda: png(struct.pack(">IIBBBBB", 40_000, 1, 1, 0, 0, 0, 0), bytes(5001)),
    ),
    "lying.webp": ("too_many_pixels", lambda: b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6),
    "frames.gif": ("too_many_frames", lambda: animation("GIF", colours(1_001))),
    "chatty.png": (
        "image_too_large",
        lambda: png(
            struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0),
            bytes(2),
            *[png_chunk(b"tEXt", b"k\0" + b"x" * 100_000)] * 11,
        ),
    ),
}


def stored(folder: Path, data: bytes, name: str = "picture") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_sound_picture_is_accepted_by_its_content(name: str, tmp_path: Path) -> None:
    expected, make = ACCEPTED[name]
    path = stored(tmp_path, make(), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        info = probe(path)
        picture = normalize(path)
    assert info.media_type == f"image/{expected.lower()}"
    assert picture.mode == "RGB"
    assert picture.size == (info.width, info.height)


@pytest.mark.parametrize("name", REJECTED)
def test_every_other_file_is_refused_with_its_stable_code(name: str, tmp_path: Path) -> None:
    expected, make = REJECTED[name]
    path = stored(tmp_path, make(), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PictureRejected) as refusal:
            probe(path)
    assert refusal.value.code == expected


def test_a_file_over_the_byte_limit_is_refused_unread(tmp_path: Path) -> None:
    path = stored(tmp_path, encoded(flag(), "PNG"))
    with pytest.raises(PictureRejected) as refusal:
        probe(path, Limits(max_bytes=50))
    assert refusal.value.code == "image_too_large"


@pytest.mark.parametrize("name", ["GIF", "WEBP", "PNG", "AVIF"])
def test_the_frame_limit_holds_for_every_animated_format(name: str, tmp_path: Path) -> None:
    frames = [noisy(16) for _ in range(4)]
    path = stored(tmp_path, animation(name, frames))
    assert probe(path, Limits(max_frames=4)).frames == 4
    with pytest.raises(PictureRejected) as refusal:
        probe(path, Limits(max_frames=3))
    assert refusal.value.code == "too_many_frames"


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "WEBP", "AVIF"])
def test_the_pixel_limit_holds_for_every_format(name: str, tmp_path: Path) -> None:
    path = stored(tmp_path, encoded(flag(), name))
    assert probe(path, Limits(max_pixels=64 * 40)).width == 64
    with pytest.raises(PictureRejected) as refusal:
        probe(path, Limits(max_pixels=64 * 40 - 1))
    assert refusal.value.code == "too_many_pixels"


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    target = stored(tmp_path, encoded(flag(), "PNG"), "target")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(OSError, match=os.strerror(40)):
        probe(link)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photograph_is_shown_upright(orientation: int, tmp_path: Path) -> None:
    path = stored(tmp_path, turned(orientation))
    picture = normalize(path)
    info = probe(path)
    assert picture.size == (info.width, info.height) == (64, 40)
    red, white = picture.getpixel((8, 6)), picture.getpixel((56, 34))
    assert isinstance(red, tuple)
    assert isinstance(white, tuple)
    assert red[0] > 200
    assert max(red[1:]) < 60
    assert min(white) > 240


def test_transparency_becomes_white_so_black_text_stays_readable(tmp_path: Path) -> None:
    pixels = np.asarray(normalize(stored(tmp_path, black_text_on_nothing())))
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels.min() < 30


def test_a_transparent_palette_colour_becomes_white(tmp_path: Path) -> None:
    pixels = np.asarray(normalize(stored(tmp_path, transparent_palette())))
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[16, 16].tolist() == [200, 10, 10]


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    pixels = np.asarray(normalize(stored(tmp_path, grey16([0, 257 * 100, 65_535]))))
    assert pixels[0, :, 0].tolist() == [0, 100, 255]


@pytest.mark.parametrize("name", ["GIF", "WEBP"])
def test_an_animation_is_seen_by_its_first_telling_frame(name: str, tmp_path: Path) -> None:
    blank = Image.new("RGB", (64, 40), "white")
    path = stored(tmp_path, animation(name, [blank, flag(), noisy().resize((64, 40))]))
    pixels = np.asarray(normalize(path)).astype(int)
    assert pixels[5, 5, 0] > 200
    assert pixels[5, 5, 1] < 60
    assert pixels[35, 60].min() > 240


def test_an_animation_of_blank_frames_is_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, LIME, BLUE)]
    pixels = np.asarray(normalize(stored(tmp_path, animation("GIF", frames))))
    assert pixels[0, 0].tolist() == [255, 0, 0]


def test_the_longest_side_is_capped_and_small_pictures_stay_small(tmp_path: Path) -> None:
    path = stored(tmp_path, encoded(noisy(400).resize((400, 100)), "JPEG"))
    assert normalize(path, max_side=200).size == (200, 50)
    assert normalize(path, max_side=2000).size == (400, 100)


def test_a_thumbnail_is_small_re_encoded_and_carries_no_metadata(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    picture = noisy(640)
    path = stored(tmp_path, encoded(picture, "JPEG", exif=exif, icc_profile=b"secret profile"))
    data = thumbnail(path, 160)
    with Image.open(io.BytesIO(data)) as small:
        assert (small.format, small.size) == ("WEBP", (160, 160))
        assert "exif" not in small.info
        assert "icc_profile" not in small.info
    assert b"secret" not in data


@pytest.mark.parametrize("name", ["plain.jpg", "plain.png", "moving.gif", "moving.webp", "plain.webp", "plain.avif"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_is_a_refusal_never_another_error(name: str, data: st.DataObject, tmp_path: Path) -> None:
    sound = bytearray(ACCEPTED[name][1]())
    for _ in range(data.draw(st.integers(1, 4))):
        sound[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    path = stored(tmp_path, bytes(sound))
    with contextlib.suppress(PictureRejected):
        probe(path)
        normalize(path)
