"""Which source and space a scope's searches read, and what a space still lacks."""

from collections.abc import Collection, Sequence
from typing import Protocol

from attrs import frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchState


@frozen
class Missing:
    """A window of a scope's live memes, oldest first: those that a space lacks, and where the next window begins.

    ``seen`` is how many memes were looked at; ``after`` is None when the scope's last one was.
    """

    meme_ids: tuple[MemeId, ...]
    seen: int
    after: MemeId | None


class MigrationStore(Protocol):
    """The search state of the transaction's scope.

    A meme is *missing* in a space if it is indexable - it lives, its context is ``partial`` or ``ready`` and has
    something to embed - and no findable vector of the space is there that was made from its present picture and words,
    or its words are not known yet.

    While the state is not `SearchState.settled`, whoever makes a vector findable shares a lock on it until that is
    committed: what `lock` returns is then followed by nothing that a statement behind it has not seen.
    """

    async def lock(self) -> SearchState:
        """Lock the scope's search state until the transaction ends and return it.

        Behind tasks and memes, before jobs and slots.
        """
        ...

    async def save(self, state: SearchState) -> None:
        """Write the state that this transaction has locked, at the database's clock."""
        ...

    async def missing(self, space: VectorSpace, after: MemeId | None, window: int) -> Missing:
        """Look at up to ``window`` live memes behind ``after`` and return those that are missing in a space."""
        ...

    async def lacking(self, space: VectorSpace, meme_ids: Collection[MemeId]) -> Collection[MemeId]:
        """Return which of these memes are missing in a space."""
        ...

    async def first_missing(self, space: VectorSpace, limit: int) -> Sequence[MemeId]:
        """Return the first ``limit`` missing memes of the scope: a scan of the scope, if there are fewer."""
        ...

    async def count_missing(self, space: VectorSpace) -> int:
        """Count the scope's missing memes of a space: a scan of the scope."""
        ...
