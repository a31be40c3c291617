"""From a file to sound pixels: `probe`, `normalize`, `thumbnail`.

Every model sees a picture through `normalize`, so they can never disagree about orientation, transparency,
frames or colour. Blocking and CPU-bound, and fed by strangers: call from a process that may be killed.
"""

import io
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from PIL import Image, ImageFile, UnidentifiedImageError

from imgproc_adapters.imaging.headers import read_header, sniff
from imgproc_adapters.imaging.limits import Limits
from imgproc_adapters.imaging.pixels import is_blank, to_rgb
from imgproc_domain.errors import ImageCorrupt, ImageTooLarge, TooManyFrames, TooManyPixels, UnsupportedMedia
from imgproc_domain.ports.models import PictureInfo

NORMALIZATION_VERSION: Final = "n1"
"""Part of every model's space id: change it whenever `normalize` gives other pixels for the same file."""

_MEDIA_TYPES: Final = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
    "HEIF": "image/heic",
}
_ORIENTATION: Final = 0x0112
_SIDEWAYS: Final = frozenset({5, 6, 7, 8})
_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BLANK_FRAMES_SKIPPED: Final = 50
# What Pillow's decoders raise on bad data; anything else is a bug of ours and must be seen.
_DECODER_ERRORS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    struct.error,
    zlib.error,
)


def probe(path: Path, limits: Limits | None = None) -> PictureInfo:
    """Proves that the file is a picture we can use: caps from the header first, then a full decode.

    Raises:
        PictureRejected: as the subclass of the first rule it breaks.
        OSError: the file itself cannot be read.
    """
    limits = limits or Limits()
    with _opened(path, limits) as (image, name):
        width, height = image.size
        if _orientation(image) in _SIDEWAYS:
            width, height = height, width
        frames = _frame_count(image)
        if frames > limits.max_frames:
            raise TooManyFrames(f"more than {limits.max_frames} frames")
        verified = max(1, min(frames, limits.max_verified_pixels // (width * height)))
        for index in range(verified):
            image.seek(index)
            image.load()
        return PictureInfo(_MEDIA_TYPES[name], width, height, frames)


def normalize(path: Path, max_side: int = 2048, limits: Limits | None = None) -> Image.Image:
    """The picture as every model sees it: RGB, 8 bits, upright, opaque on white, longest side <= `max_side`.

    Of an animation it is the first frame that is not one flat colour. Never enlarges. Carries no metadata.

    Raises:
        PictureRejected: as `probe`, but only the frame that is used gets decoded.
        OSError: the file itself cannot be read.
    """
    limits = limits or Limits()
    with _opened(path, limits) as (image, _):
        orientation = _orientation(image)
        # libjpeg can decode at 1/2, 1/4 or 1/8; twice the wanted size keeps the final resize sharp
        image.draft("RGB", (max_side * 2, max_side * 2))
        rgb = _first_telling_frame(image, limits)
    rgb.thumbnail((max_side, max_side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    return _upright(rgb, orientation)


def thumbnail(path: Path, size: int = 320, limits: Limits | None = None) -> bytes:
    """A re-encoded WebP (`image/webp`) of at most `size` pixels a side, without any metadata of the original.

    Raises:
        PictureRejected: as `normalize`.
    """
    buffer = io.BytesIO()
    normalize(path, size, limits).save(buffer, "WEBP", quality=80, method=4)
    return buffer.getvalue()


@contextmanager
def _opened(path: Path, limits: Limits) -> Iterator[tuple[ImageFile.ImageFile, str]]:
    data = _read(path, limits)
    name = sniff(data)
    if name is None or name not in _decodable():
        raise UnsupportedMedia("not a picture of a supported format")
    header = read_header(data, name, limits.max_frames)
    if header.size is not None:
        _check_size(header.size, limits)
    if header.frames > limits.max_frames:
        raise TooManyFrames(f"more than {limits.max_frames} frames")
    if header.text_bytes > limits.max_text_bytes:
        raise ImageTooLarge(f"more than {limits.max_text_bytes} bytes of text in the file")
    with _decoder_errors(), Image.open(io.BytesIO(data), formats=[name]) as image:
        _check_size(image.size, limits)
        yield image, name


@contextmanager
def _decoder_errors() -> Iterator[None]:
    # Pillow warns of oddities it copes with; our own caps replace its bomb warning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Image.DecompressionBombError as error:
            raise TooManyPixels("more pixels than any limit allows") from error
        except UnidentifiedImageError as error:
            raise ImageCorrupt("the header cannot be read") from error
        except _DECODER_ERRORS as error:
            raise ImageCorrupt("the picture cannot be decoded to its end") from error


def _read(path: Path, limits: Limits) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        data = file.read(limits.max_bytes + 1)
    if len(data) > limits.max_bytes:
        raise ImageTooLarge(f"more than {limits.max_bytes} bytes")
    return data


def _decodable() -> frozenset[str]:
    Image.init()
    return frozenset(_MEDIA_TYPES) & frozenset(Image.OPEN)


def _check_size(size: tuple[int, int], limits: Limits) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageCorrupt("the header gives an empty size")
    if width * height > limits.max_pixels or max(size) > limits.max_side:
        allowed = f"{limits.max_pixels} pixels, {limits.max_side} a side"
        raise TooManyPixels(f"{width} x {height} pixels; allowed are {allowed}")


def _frame_count(image: Image.Image) -> int:
    frames: int = getattr(image, "n_frames", 1)
    # several pictures in one JPEG (MPO) are previews or stereo pairs of the first, not an animation
    return 1 if image.format == "MPO" else frames


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except _DECODER_ERRORS:
        # a broken metadata block says nothing about the pixels
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1  # noqa: PLR2004 - EXIF knows eight


def _first_telling_frame(image: ImageFile.ImageFile, limits: Limits) -> Image.Image:
    frames = min(_frame_count(image), _BLANK_FRAMES_SKIPPED)
    affordable = max(1, limits.max_verified_pixels // (image.width * image.height))
    first = to_rgb(image)
    frame = first
    for index in range(1, min(frames, affordable)):
        if not is_blank(frame):
            return frame
        image.seek(index)
        frame = to_rgb(image)
    return first if is_blank(frame) else frame


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    turn = _UPRIGHT.get(orientation)
    upright = image if turn is None else image.transpose(turn)
    # an encoder writes what `info` holds: colour profile, comment, position of the camera
    upright.info.clear()
    upright.getexif().clear()
    return upright
