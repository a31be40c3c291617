"""Reads sizes and frame counts from the container alone, before a decoder sees the file.

Pillow's WebP and AVIF plug-ins allocate whole canvases when a file is merely opened, and its GIF plug-in
counts frames only by walking the file to its end. These few readers make the caps hold first.
"""

import struct
from collections.abc import Iterator

from attrs import frozen

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
)
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis"})
_PNG_TEXT_CHUNKS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf"})
_GIF_TRAILER, _GIF_EXTENSION, _GIF_IMAGE = 0x3B, 0x21, 0x2C


@frozen
class Header:
    """What a container promises. `size` is `None` where only the decoder's own header parser knows it."""

    size: tuple[int, int] | None
    frames: int
    text_bytes: int = 0


def sniff(data: bytes) -> str | None:
    """The format by content: one of Pillow's names, or `None` for anything not on the allow-list."""
    for signature, name in _SIGNATURES:
        if data.startswith(signature):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp":
        brands = _brands(data)
        if brands & _AVIF_BRANDS:
            return "AVIF"
        if brands & _HEIF_BRANDS:
            return "HEIF"
    return None


def read_header(data: bytes, name: str, max_frames: int) -> Header:
    """Reads the container of format `name`; counting stops one frame past `max_frames`.

    A container that ends early gives what was read so far: the decoder then says what is wrong with it.
    """
    match name:
        case "PNG":
            return _png(data)
        case "GIF":
            return Header(_gif_size(data), _count(_gif_frames(data), max_frames))
        case "WEBP":
            return Header(_webp_size(data), max(1, _count(_webp_frames(data), max_frames)))
        case "AVIF" | "HEIF":
            return Header(_largest_ispe(data), 1)
        case _:
            return Header(None, 1)


def _count(frames: Iterator[None], limit: int) -> int:
    seen = 0
    for _ in frames:
        seen += 1
        if seen > limit:
            break
    return seen


def _brands(data: bytes) -> frozenset[bytes]:
    length = min(int.from_bytes(data[:4], "big"), 256, len(data))
    return frozenset({data[8:12], *(data[i : i + 4] for i in range(16, length - 3, 4))})


def _png(data: bytes) -> Header:
    size: tuple[int, int] | None = None
    frames, text_bytes, at = 1, 0, 8
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 16]
        if kind == b"IHDR" and len(body) == 8:  # noqa: PLR2004 - two 32-bit integers
            size = struct.unpack(">II", body)
        elif kind == b"acTL" and len(body) >= 4:  # noqa: PLR2004 - one 32-bit integer
            frames = max(1, int.from_bytes(body[:4], "big"))
        elif kind in _PNG_TEXT_CHUNKS:
            text_bytes += length
        at += 12 + length
    return Header(size, frames, text_bytes)


def _gif_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 10:  # noqa: PLR2004 - signature and screen size
        return None
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _gif_frames(data: bytes) -> Iterator[None]:
    if len(data) < 13:  # noqa: PLR2004 - signature and logical screen descriptor
        return
    at = 13 + _colour_table(data[10])
    while at < len(data) and data[at] != _GIF_TRAILER:
        if data[at] == _GIF_EXTENSION:
            at = _skip_sub_blocks(data, at + 2)
        elif data[at] == _GIF_IMAGE and at + 10 <= len(data):
            yield
            at = _skip_sub_blocks(data, at + 11 + _colour_table(data[at + 9]))
        else:
            return


def _colour_table(flags: int) -> int:
    return 3 << ((flags & 0x07) + 1) if flags & 0x80 else 0


def _skip_sub_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:  # noqa: PLR2004 - the longest of the three headers
        return None
    if kind == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _webp_frames(data: bytes) -> Iterator[None]:
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind == b"ANMF":
            yield
        at += 8 + length + (length & 1)


def _largest_ispe(data: bytes) -> tuple[int, int] | None:
    """The largest extent any item of an ISO base media file declares (`ispe` property boxes)."""
    best: tuple[int, int] | None = None
    at = data.find(b"ispe")
    while at != -1 and at + 16 <= len(data):
        width, height = struct.unpack_from(">II", data, at + 8)
        if data[at - 4 : at] == b"\0\0\0\x14" and (best is None or width * height > best[0] * best[1]):
            best = width, height
        at = data.find(b"ispe", at + 4)
    return best
