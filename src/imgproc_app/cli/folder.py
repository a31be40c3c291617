"""The files of a folder: which are pictures, judged by content, and why the others are not."""

import hashlib
import os
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from attrs import frozen

from imgproc_adapters.imaging.headers import sniff
from imgproc_domain.ids import Sha256

PICTURE_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".webp", ".avif", ".heic", ".heif"}
    # kinds that are not accepted: whoever imports them is told, rather than left to wonder where they went
    | {".bmp", ".ico", ".jp2", ".jxl", ".psd", ".svg", ".tif", ".tiff"}
)
_HEAD_BYTES: Final = 512


class NoPicture(StrEnum):
    """``skipped`` never claimed to be a picture; ``rejected`` did, by its name, and is none that can be taken."""

    SKIPPED = "skipped"
    REJECTED = "rejected"


@frozen
class Candidate:
    """A file that begins like a picture; ``sha256`` is None for one that is too large to be worth reading."""

    path: Path
    sha256: Sha256 | None


@frozen
class Refused:
    path: Path
    verdict: NoPicture
    code: str
    reason: str


def walk(top: Path) -> Iterator[Path | Refused]:
    """Yield every file below ``top`` in the order of names, or ``top`` itself if it is a file.

    Hidden files and folders are not visited and links are not followed. A folder that cannot be read is refused.
    """
    if not top.is_dir():
        yield top
        return
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                visible = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            yield Refused(folder, NoPicture.REJECTED, "unreadable", f"the folder cannot be read: {error.strerror}")
            continue
        pending += [Path(e.path) for e in reversed(visible) if e.is_dir(follow_symlinks=False)]
        yield from (Path(e.path) for e in visible if not e.is_dir(follow_symlinks=False))


def inspect(path: Path, limit: int) -> Candidate | Refused:
    """Look at one file and hash it, if it is a picture of at most ``limit`` bytes."""
    try:
        # a pipe would block the reader for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return _unopened(path, error)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Refused(path, NoPicture.SKIPPED, "no_regular_file", "no regular file")
        try:
            head = file.read(_HEAD_BYTES)
            if sniff(head) is None:
                return _no_picture(path, empty=not head)
            if facts.st_size > limit:
                return Candidate(path, None)
            file.seek(0)
            return Candidate(path, Sha256(hashlib.file_digest(file, "sha256").hexdigest()))
        except OSError as error:
            return Refused(path, NoPicture.REJECTED, "unreadable", f"cannot be read: {error.strerror}")


def holds_pictures(top: Path) -> bool:
    """Return whether any file below ``top`` begins like a picture."""
    return any(isinstance(file, Path) and isinstance(inspect(file, 0), Candidate) for file in walk(top))


def _unopened(path: Path, error: OSError) -> Refused:
    if path.is_symlink():
        return Refused(path, NoPicture.SKIPPED, "no_regular_file", "a link; links are not followed")
    verdict = NoPicture.REJECTED if path.suffix.lower() in PICTURE_SUFFIXES else NoPicture.SKIPPED
    return Refused(path, verdict, "unreadable", f"cannot be read: {error.strerror}")


def _no_picture(path: Path, *, empty: bool) -> Refused:
    reason = "the file is empty" if empty else "its content is no picture of a kind that is accepted"
    verdict = NoPicture.REJECTED if path.suffix.lower() in PICTURE_SUFFIXES else NoPicture.SKIPPED
    return Refused(path, verdict, "unsupported_media", reason)
