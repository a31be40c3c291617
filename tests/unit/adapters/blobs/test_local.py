"""Pictures as files."""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.testing.contracts import BlobStoreContract
from imgproc_adapters.testing.contracts.blobs import chunks
from imgproc_domain.errors import ImageTooLarge, InsufficientStorage, InvalidValue
from imgproc_domain.scope import Scope

A = Scope("tenant-a")
LIMIT = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(root: Path) -> LocalBlobStore:
    return LocalBlobStore(root)


def staged_files(root: Path) -> list[Path]:
    return list((root / "staging").iterdir())


class TestLocalBlobStore(BlobStoreContract): ...


class TestFiles:
    async def test_folders_and_files_are_private(self, blobs: LocalBlobStore, root: Path) -> None:
        key = await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        path = blobs.path(A, key)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        folders = [path.parent, path.parent.parent, root / "objects", root / "staging", root]
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}

    async def test_the_text_of_a_scope_is_no_part_of_a_path(self, blobs: LocalBlobStore) -> None:
        key = await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        assert A not in str(blobs.path(A, key))
        assert A not in key

    async def test_a_link_in_the_place_of_a_folder_is_not_followed(
        self, blobs: LocalBlobStore, root: Path, tmp_path: Path
    ) -> None:
        key = await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        folder = blobs.path(A, key).parent
        outside = tmp_path / "outside"
        folder.rename(outside)
        folder.symlink_to(outside)
        with pytest.raises(InvalidValue):
            blobs.path(A, key)
        staged = await blobs.stage(chunks([b"picture"]), LIMIT)
        with pytest.raises(OSError, match=r"directory|links"):
            await blobs.keep(A, staged)

    async def test_a_link_in_the_place_of_a_picture_is_not_followed_but_replaced(
        self, blobs: LocalBlobStore, tmp_path: Path
    ) -> None:
        key = await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        path, secret = blobs.path(A, key), tmp_path / "secret"
        secret.write_bytes(b"secret")
        path.unlink()
        path.symlink_to(secret)
        with pytest.raises(InvalidValue):
            blobs.path(A, key)
        await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        assert blobs.path(A, key).read_bytes() == b"picture"
        assert secret.read_bytes() == b"secret"

    async def test_keeping_again_mends_a_damaged_copy(self, blobs: LocalBlobStore) -> None:
        key = await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        blobs.path(A, key).write_bytes(b"pic")
        await blobs.keep(A, await blobs.stage(chunks([b"picture"]), LIMIT))
        assert blobs.path(A, key).read_bytes() == b"picture"


class TestNothingIsLeftBehind:
    async def test_after_too_many_bytes(self, blobs: LocalBlobStore, root: Path) -> None:
        with pytest.raises(ImageTooLarge):
            await blobs.stage(chunks([b"12345", b"6"]), 5)
        assert staged_files(root) == []

    async def test_after_an_upload_that_breaks_off(self, blobs: LocalBlobStore, root: Path) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield b"12345"
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            await blobs.stage(broken(), LIMIT)
        assert staged_files(root) == []

    async def test_after_a_cancellation(self, blobs: LocalBlobStore, root: Path) -> None:
        began = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield b"12345"
            began.set()
            await asyncio.Event().wait()

        staging = asyncio.create_task(blobs.stage(endless(), LIMIT))
        await began.wait()
        staging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await staging
        assert staged_files(root) == []

    # a full disk cannot be made without the right to mount one, so the system call is told to report it
    @pytest.mark.parametrize("call", ["write", "fsync"])
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    async def test_after_the_disk_is_full(
        self, blobs: LocalBlobStore, root: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
    ) -> None:
        def full(*_args: object) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(f"imgproc_adapters.blobs.files.os.{call}", full)
        with pytest.raises(InsufficientStorage):
            await blobs.stage(chunks([b"12345"]), LIMIT)
        assert staged_files(root) == []

    async def test_of_uploads_that_a_crash_left_once_they_are_stale(self, blobs: LocalBlobStore, root: Path) -> None:
        crashed = await blobs.stage(chunks([b"crashed"]), LIMIT)
        kept = await blobs.keep(A, await blobs.stage(chunks([b"kept"]), LIMIT))
        LocalBlobStore(root)
        assert crashed.path.exists()
        LocalBlobStore(root, stale_after=timedelta(seconds=-60))
        assert staged_files(root) == []
        assert blobs.path(A, kept).exists()


class TestEventLoop:
    async def test_file_work_never_runs_on_the_event_loop(
        self, blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: set[int] = set()
        real_write, real_fsync, real_rename = os.write, os.fsync, os.rename

        def write(file: int, data: bytes) -> int:
            threads.add(threading.get_ident())
            return real_write(file, data)

        def fsync(file: int) -> None:
            threads.add(threading.get_ident())
            real_fsync(file)

        def rename(source: Path, target: str, *, dst_dir_fd: int) -> None:
            threads.add(threading.get_ident())
            real_rename(source, target, dst_dir_fd=dst_dir_fd)

        for name, spy in (("write", write), ("fsync", fsync), ("rename", rename)):
            monkeypatch.setattr(f"imgproc_adapters.blobs.files.os.{name}", spy)
        await blobs.keep(A, await blobs.stage(chunks([b"one", b"two"]), LIMIT))
        assert threads
        assert threading.get_ident() not in threads
