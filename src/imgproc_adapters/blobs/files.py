"""File operations that follow no link, leave nothing half done, and survive a power cut."""

import asyncio
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from imgproc_domain.errors import InsufficientStorage
from imgproc_domain.ids import Sha256

P = ParamSpec("P")
T = TypeVar("T")

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700

_CLOSED: Final = -1
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread. When cancelled, wait for it first: its file must not be closed under its feet."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


@contextmanager
def reporting_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise InsufficientStorage("there is no room for the picture") from error
        raise


@contextmanager
def opened_folder(path: str, parent: int | None = None) -> Iterator[int]:
    """Open a folder, which must not be a link, and yield its descriptor."""
    folder = os.open(path, _FOLDER, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def make_folder(name: str, parent: int) -> None:
    """Create a private folder that outlives a power cut; one that is there already is kept."""
    try:
        os.mkdir(name, PRIVATE_FOLDER, dir_fd=parent)
    except FileExistsError:
        return
    os.fsync(parent)


class StagingFile:
    """A private file that is hashed while it is written. Not for use by two threads at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / secrets.token_hex(16)
        self.byte_size = 0
        self._digest = hashlib.sha256()
        self._file = _CLOSED

    def open(self) -> None:
        with reporting_full_disk():
            self._file = os.open(self.path, _NEW_FILE, PRIVATE_FILE)

    def write(self, chunk: bytes) -> None:
        with reporting_full_disk():
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        self._digest.update(chunk)
        self.byte_size += len(chunk)

    def finish(self) -> Sha256:
        """Bring the bytes to the disk, close the file and return the digest."""
        with reporting_full_disk():
            os.fsync(self._file)
        self._close()
        return Sha256(self._digest.hexdigest())

    def abandon(self) -> None:
        self._close()
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED
