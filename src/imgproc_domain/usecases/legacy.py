"""The legacy source of a search: the newest complete generation, read only, every row checked against what is stored.

A file is looked for where no transaction is open. So a page is asked for, its files are looked for, and the page is
asked for again, until one transaction reads a page of whose files all is known: that one decides, under its epoch.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from attrs import define, field, frozen

from imgproc_domain.errors import InvalidValue
from imgproc_domain.ids import GenerationId
from imgproc_domain.ports.blobs import BlobStore
from imgproc_domain.ports.search import Readable
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage, Neighbour
from imgproc_domain.vector import Vector

_AT_ONCE: Final = 32
"""Looks at a store at a time: one that is far away answers many, and none is asked for a whole library at once."""


@frozen
class Unseen:
    """Whether these files are there has to be looked at before the page can be told."""

    keys: frozenset[str]


@define
class Files:
    """Which files of a scope were there when one query looked."""

    blobs: BlobStore
    scope: Scope
    known: dict[str, bool] = field(init=False, factory=dict)

    @property
    def gone(self) -> int:
        return len(self.known) - sum(self.known.values())

    async def look(self, keys: Collection[str]) -> None:
        """Look for files; to be called outside any transaction. What is known already is not looked for again."""
        asked = [key for key in keys if key not in self.known]
        for begin in range(0, len(asked), _AT_ONCE):
            some = asked[begin : begin + _AT_ONCE]
            self.known.update(zip(some, await asyncio.gather(*map(self._has, some)), strict=True))

    async def _has(self, key: str) -> bool:
        try:
            return await self.blobs.has(self.scope, key)
        except InvalidValue:
            return False


async def legacy_hits(
    tx: Transaction, files: Files, generation: Readable, vector: Vector, wanted: int
) -> Sequence[Neighbour] | Unseen:
    """Return the ``wanted`` entries nearest to ``vector`` whose files are there, by distance, then by id.

    Fewer only where there are no more. `Unseen` asks for `Files.look` and another call: every call asks for further
    rows than the one before, twice as many as were in vain, so that a library without its files is soon through.
    """
    limit = wanted + 2 * files.gone
    page = await tx.generations.nearest(generation.generation_id, vector, limit)
    unseen = frozenset(entry.storage_key for entry in page if entry.storage_key not in files.known)
    if unseen:
        return Unseen(unseen)
    there = [Neighbour(entry.meme_id, entry.distance) for entry in page if files.known[entry.storage_key]]
    return there[:wanted]


async def legacy_coverage(tx: Transaction, generation_id: GenerationId | None) -> Coverage:
    """Count the entries that may still be found, none without a generation, and the live memes of the scope."""
    if generation_id is None:
        return Coverage(0, await tx.memes.count())
    return await tx.generations.coverage(generation_id)
