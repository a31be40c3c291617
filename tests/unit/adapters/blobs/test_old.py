"""Bytes go when nobody has kept them for long, and never those that somebody keeps meanwhile."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.blobs.old import LocalOldBlobs
from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import Scope

A, B = Scope("a"), Scope("b")
SINCE = datetime.now(UTC) - timedelta(days=1)
LONG_AGO = (SINCE - timedelta(days=30)).timestamp()


async def _chunks() -> AsyncIterator[bytes]:
    yield b"a cat"


class Shelf:
    def __init__(self, root: Path) -> None:
        self.store = LocalBlobStore(root)
        self.old = LocalOldBlobs(self.store, root)
        self.staging = root / "staging"

    async def keep(self) -> str:
        return await self.store.keep(A, await self.store.stage(_chunks(), 100))

    async def keep_long_ago(self) -> str:
        key = await self.keep()
        os.utime(self.store.path(A, key), (LONG_AGO, LONG_AGO))
        return key


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def test_old_bytes_go_and_leave_nothing(shelf: Shelf) -> None:
    key = await shelf.keep_long_ago()
    assert await shelf.old.remove_unless_kept_since(A, key, SINCE)
    assert not shelf.store.path(A, key).exists()
    assert not list(shelf.staging.iterdir())


async def test_missing_bytes_are_gone(shelf: Shelf) -> None:
    key = await shelf.keep_long_ago()
    for _ in range(2):
        assert await shelf.old.remove_unless_kept_since(A, key, SINCE)


async def test_bytes_that_were_kept_again_stay(shelf: Shelf) -> None:
    await shelf.keep_long_ago()
    key = await shelf.keep()
    assert not await shelf.old.remove_unless_kept_since(A, key, SINCE)
    assert shelf.store.path(A, key).read_bytes() == b"a cat"


@pytest.mark.parametrize("again", [False, True])
async def test_bytes_that_are_kept_at_the_last_moment_come_back(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """An upload renames its file into place between the look at the old one and its removal, or just behind it, too."""
    key = await shelf.keep_long_ago()
    path = shelf.store.path(A, key)
    rename = Path.rename

    def upload_first(self: Path, target: Path) -> Path:
        os.utime(self)
        moved = rename(self, target)
        if again:
            path.write_bytes(b"a cat")
        return moved

    monkeypatch.setattr(Path, "rename", upload_first)
    assert not await shelf.old.remove_unless_kept_since(A, key, SINCE)
    assert path.read_bytes() == b"a cat"
    assert not list(shelf.staging.iterdir())


async def test_a_store_that_starts_and_sweeps_takes_nothing_but_old_bytes(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await shelf.keep_long_ago()
    rename = Path.rename

    def sweep_behind(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        target.unlink()
        return moved

    monkeypatch.setattr(Path, "rename", sweep_behind)
    assert await shelf.old.remove_unless_kept_since(A, key, SINCE)
    assert not list(shelf.staging.iterdir())


async def test_a_key_of_another_scope_is_refused(shelf: Shelf) -> None:
    key = await shelf.keep_long_ago()
    with pytest.raises(InvalidValue):
        await shelf.old.remove_unless_kept_since(B, key, SINCE)
