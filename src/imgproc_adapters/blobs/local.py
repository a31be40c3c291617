"""Pictures as files below one folder of this machine."""

import hashlib
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final

from imgproc_adapters.blobs.files import (
    PRIVATE_FOLDER,
    StagingFile,
    in_thread,
    make_folder,
    opened_folder,
    reporting_full_disk,
)
from imgproc_domain.errors import ImageTooLarge, InvalidValue
from imgproc_domain.ports.blobs import Staged
from imgproc_domain.scope import Scope

STALE_AFTER: Final = timedelta(hours=1)

STAGING: Final = "staging"
_OBJECTS: Final = "objects"
_KEY: Final = re.compile(r"([0-9a-f]{32})/([0-9a-f]{64})")


class LocalBlobStore:
    """``ROOT/objects/SCOPE/AB/DIGEST``, where SCOPE is a hash: the text of a scope never becomes a path.

    Staged files live in ``ROOT/staging``, on the same file system, so that keeping one is an atomic rename. Folders
    are 0700 and files 0600. All file work happens in threads. Several processes may share a root.
    """

    def __init__(self, root: Path, stale_after: timedelta = STALE_AFTER) -> None:
        """Create the folders where missing, and remove staged files untouched for ``stale_after`` (crashed uploads).

        The only part that blocks: made once, at the start.
        """
        self._root = root
        self._staging = root / STAGING
        root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with opened_folder(os.fspath(root)) as folder:
            make_folder(STAGING, folder)
            make_folder(_OBJECTS, folder)
        self._remove_stale(time.time() - stale_after.total_seconds())

    async def stage(self, chunks: AsyncIterator[bytes], limit: int) -> Staged:
        file = StagingFile(self._staging)
        try:
            await in_thread(file.open)
            async for chunk in chunks:
                _refuse_over(limit, file.byte_size + len(chunk))
                await in_thread(file.write, chunk)
            digest = await in_thread(file.finish)
        except BaseException:
            await in_thread(file.abandon)
            raise
        return Staged(file.path, digest, file.byte_size)

    async def keep(self, scope: Scope, staged: Staged) -> str:
        key = f"{_folder_of(scope)}/{staged.sha256.hex}"
        await in_thread(self._keep, key, staged.path)
        return key

    async def discard(self, staged: Staged) -> None:
        await in_thread(staged.path.unlink, missing_ok=True)

    def path(self, scope: Scope, storage_key: str) -> Path:
        folder, digest = _parse(scope, storage_key)
        path = f"{self._root}{os.sep}{_OBJECTS}"
        for part in (folder, digest[:2], digest):
            path = f"{path}{os.sep}{part}"
            # strings, because this is asked for every call of a model
            if os.path.islink(path):  # noqa: PTH114
                raise InvalidValue("a storage key leads through a link")
        return Path(path)

    async def has(self, scope: Scope, storage_key: str) -> bool:
        return await in_thread(self._has, scope, storage_key)

    async def remove(self, scope: Scope, storage_key: str) -> None:
        await in_thread(self.path(scope, storage_key).unlink, missing_ok=True)

    def _has(self, scope: Scope, storage_key: str) -> bool:
        _parse(scope, storage_key)
        try:
            return stat.S_ISREG(self.path(scope, storage_key).stat(follow_symlinks=False).st_mode)
        except (FileNotFoundError, NotADirectoryError, InvalidValue):
            # a link on the way is nothing that the store has made
            return False

    def _keep(self, key: str, source: Path) -> None:
        """Rename into place and bring every folder on the way to the disk.

        Replacing bytes that are there already is harmless, as they are the same, and mends a damaged copy.
        """
        folder, digest = key.split("/")
        with (
            reporting_full_disk(),
            opened_folder(os.fspath(self._root / _OBJECTS)) as objects,
            _subfolder(folder, objects) as scope_folder,
            _subfolder(digest[:2], scope_folder) as shelf,
        ):
            try:
                os.rename(source, digest, dst_dir_fd=shelf)
            except FileNotFoundError:
                if not _is_file(digest, shelf):
                    raise InvalidValue("the staged bytes are gone") from None
            os.fsync(shelf)

    def _remove_stale(self, before: float) -> None:
        with os.scandir(self._staging) as entries:
            for entry in entries:
                # another process that starts at the same time may be quicker
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before:
                        Path(entry.path).unlink()


def _refuse_over(limit: int, byte_size: int) -> None:
    if byte_size > limit:
        raise ImageTooLarge(f"the picture has more than {limit} bytes", limit=limit)


@contextmanager
def _subfolder(name: str, parent: int) -> Iterator[int]:
    make_folder(name, parent)
    with opened_folder(name, parent) as folder:
        yield folder


def _is_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@lru_cache(maxsize=4096)
def _folder_of(scope: Scope) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:32]


def _parse(scope: Scope, storage_key: str) -> tuple[str, str]:
    """Split a key into its folder and digest; raises `InvalidValue` for one that was not made for this scope."""
    match = _KEY.fullmatch(storage_key)
    if match is None or match[1] != _folder_of(scope):
        raise InvalidValue("a storage key is one that the store made for this scope")
    return match[1], match[2]
