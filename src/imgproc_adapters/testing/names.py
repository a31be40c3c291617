"""A blob store that keeps names and throws the bytes away: for models that look at names alone."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from imgproc_domain.errors import ImageTooLarge
from imgproc_domain.ids import Sha256
from imgproc_domain.ports.blobs import Staged
from imgproc_domain.scope import Scope


class NameBlobs:
    """Paths lead nowhere; digests and sizes are true. What was not removed is there."""

    def __init__(self) -> None:
        self._removed: set[tuple[Scope, str]] = set()

    async def stage(self, chunks: AsyncIterator[bytes], limit: int) -> Staged:
        digest, size = hashlib.sha256(), 0
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise ImageTooLarge(f"more than {limit} bytes")
            digest.update(chunk)
        return Staged(Path("/nowhere") / digest.hexdigest(), Sha256(digest.hexdigest()), size)

    async def keep(self, scope: Scope, staged: Staged) -> str:
        self._removed.discard((scope, staged.sha256.hex))
        return staged.sha256.hex

    async def discard(self, staged: Staged) -> None: ...

    def path(self, scope: Scope, storage_key: str) -> Path:
        return Path("/nowhere") / scope / storage_key

    async def has(self, scope: Scope, storage_key: str) -> bool:
        return (scope, storage_key) not in self._removed

    async def remove(self, scope: Scope, storage_key: str) -> None:
        self._removed.add((scope, storage_key))
