"""Memes, their contexts and their products."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from attrs import frozen

from imgproc_domain.context import Context
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.product import Products, TextProduct, VisualProduct


@frozen
class MemePage:
    """Memes in creation order, newest first; ``after`` is the cursor of the next page, None at the end."""

    memes: tuple[Meme, ...]
    after: MemeId | None


class MemeStore(Protocol):
    async def add(self, meme: Meme) -> None:
        """Insert a meme; raises `Conflict` if the scope already has a live one with these bytes."""
        ...

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        """Return the memes with these ids, deleted ones included; unknown and foreign ids are missing."""
        ...

    async def lock(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        """Lock memes in id order until the transaction ends and return them, deleted ones included."""
        ...

    async def by_content(self, digests: Collection[Sha256]) -> Mapping[Sha256, Meme]:
        """Return the live meme of each digest."""
        ...

    async def page(
        self, after: MemeId | None, limit: int, name_contains: str = "", status: JobStatus | None = None
    ) -> MemePage:
        """Return live memes whose file name contains the text (case-insensitive, no wildcards), newest first.

        With ``status``, only those whose newest job has it.

        Keyset paging by id (UUIDv7): begins behind ``after``.
        """
        ...

    async def save(self, meme: Meme) -> None:
        """Write file name, picture and times of a meme that this transaction has locked.

        Raises `Conflict` if the scope already has another live meme with these bytes.
        """
        ...

    async def count(self) -> int:
        """Count the scope's live memes."""
        ...


NOTHING_KNOWN: Final[Mapping[MemeId, Context | None]] = MappingProxyType({})


class ContextStore(Protocol):
    """Contexts are guarded by their meme's lock."""

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Context]: ...

    async def put(self, contexts: Sequence[Context]) -> None:
        """Insert or replace. The stored metadata hash is `Context.metadata_hash`."""
        ...


class ProductStore(Protocol):
    """Vectors with the inputs they were made from. History stays; validity is decided by their stamps."""

    async def stamps(
        self, ids: Collection[MemeId], known: Mapping[MemeId, Context | None] = NOTHING_KNOWN
    ) -> Mapping[MemeId, Products]:
        """Return what is stored for each meme, with its context; every id has an entry, empty if need be.

        ``known`` are contexts that this transaction has read, or written, under the locks of their memes; None where
        there is none. They are not read again.
        """
        ...

    async def put_visual(self, products: Sequence[VisualProduct]) -> None:
        """Insert vectors; one with the same key is replaced."""
        ...

    async def put_text(self, products: Sequence[TextProduct]) -> None:
        """Insert vectors; one with the same key (meme, picture, metadata hash, space) is replaced."""
        ...
