"""The end of bytes that nobody has kept for long."""

import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from imgproc_adapters.blobs.files import in_thread
from imgproc_adapters.blobs.local import STAGING, LocalBlobStore
from imgproc_domain.scope import Scope


class LocalOldBlobs:
    """Works on the files of a `LocalBlobStore`.

    To keep bytes is to put a file in their place that has just been written, so that a file's age says when somebody
    kept it last. It is looked at where nobody can replace it any more: in the staging folder, from which it goes by
    itself should this process end.
    """

    def __init__(self, store: LocalBlobStore, root: Path) -> None:
        self._store = store
        self._staging = root / STAGING

    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: datetime) -> bool:
        return await in_thread(_remove, self._store.path(scope, storage_key), self._staging, since)


def _remove(path: Path, staging: Path, since: datetime) -> bool:
    try:
        if not _is_older(path, since):
            return False
        aside = staging / secrets.token_hex(16)
        path.rename(aside)
    except FileNotFoundError:
        return True
    try:
        if _is_older(aside, since):
            return True
        # somebody has kept them in between; if they did so again, theirs are the same bytes
        with suppress(FileExistsError):
            os.link(aside, path)
    except FileNotFoundError:
        # a store that has just started sweeps its staging folder, of old files alone
        return True
    else:
        return False
    finally:
        aside.unlink(missing_ok=True)


def _is_older(path: Path, since: datetime) -> bool:
    return datetime.fromtimestamp(path.stat(follow_symlinks=False).st_mtime, UTC) < since
