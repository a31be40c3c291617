"""The bytes of pictures."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from attrs import frozen

from imgproc_domain.ids import Sha256
from imgproc_domain.scope import Scope


@frozen
class Staged:
    """Uploaded bytes in a private temporary file, hashed on the way in."""

    path: Path
    sha256: Sha256
    byte_size: int


class BlobStore(Protocol):
    """Content-addressed per scope: the same bytes have the same key, keys of different scopes never meet."""

    async def stage(self, chunks: AsyncIterator[bytes], limit: int) -> Staged:
        """Stream to a temporary file, never holding more than a chunk in memory.

        Raises:
            ImageTooLarge: more than ``limit`` bytes came; nothing is left behind.
            InsufficientStorage: no room; nothing is left behind.
        """
        ...

    async def keep(self, scope: Scope, staged: Staged) -> str:
        """Move staged bytes to their final place, durable when this returns, and return their storage key.

        Idempotent for the same bytes.
        """
        ...

    async def discard(self, staged: Staged) -> None:
        """Remove staged bytes; those that were kept or discarded already are left alone."""
        ...

    def path(self, scope: Scope, storage_key: str) -> Path:
        """Return where the bytes lie on this machine. Follows no link out of the store.

        Raises `InvalidValue` for a key that the store did not make.
        """
        ...

    async def has(self, scope: Scope, storage_key: str) -> bool:
        """Whether the bytes are where `path` says, as a file that is no link.

        Raises `InvalidValue` for a key that the store did not make.
        """
        ...

    async def remove(self, scope: Scope, storage_key: str) -> None:
        """Delete the bytes; missing ones are no error."""
        ...
