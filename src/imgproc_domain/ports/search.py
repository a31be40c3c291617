"""What may be found now."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.migration import Generation, SearchState
from imgproc_domain.product import TextProduct
from imgproc_domain.search import Coverage, Neighbour, WordMatch
from imgproc_domain.vector import Vector
from imgproc_domain.words import Words


@frozen
class Entry:
    """An entry of a generation that may still be found, its cosine distance (0..2), and where its picture lies."""

    meme_id: MemeId
    distance: float
    storage_key: str


@frozen
class Readable:
    """What legacy searches read: the newest complete generation of a scope, and the space of its vectors."""

    generation_id: GenerationId
    space: VectorSpace


class SearchStore(Protocol):
    """At most one findable vector of a meme and space. Whoever writes here holds the meme's lock."""

    async def publish(self, products: Sequence[TextProduct], words: Mapping[MemeId, Words]) -> None:
        """Make these vectors the findable ones of their memes, in place of any earlier one of the same space.

        ``words`` has an entry a meme: the words of its present context and file name. A scope that serves no space
        yet serves the first product's from now on.
        """
        ...

    async def refresh(self, meme_ids: Collection[MemeId]) -> None:
        """Bring the findable vectors of these memes into line with what is stored now (I14), in every space.

        Called in the transaction that changed a picture, a context, a file name or a meme's existence. A vector stays,
        or comes back from the history of text vectors, exactly if the meme exists, its context is ``partial`` or
        ``ready``, and picture and metadata hash are the vector's; any other stops being findable. The words of those
        that stay are those of the present context and file name.
        """
        ...

    async def nearest(self, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Return the ``limit`` findable memes nearest to ``vector``, by cosine distance, then by id.

        Never a short page while more findable memes exist, and the same order for every ``limit``. An approximate
        index may miss a few of the first: those come behind what it found.
        """
        ...

    async def worded(self, space_id: str, vector: Vector, words: Sequence[str], limit: int) -> Sequence[WordMatch]:
        """Return the ``limit`` findable memes that have most of a query's ``words``, of which there is one or more.

        Best share first, then those with fewer words of their own, then by id. A share under `LEAST_SHARE` is none.
        """
        ...

    async def coverage(self, space_id: str) -> Coverage:
        """Count the findable memes of a space and the live memes of the scope.

        In a scope with many memes the numbers may be a few seconds old.
        """
        ...

    async def state(self) -> SearchState:
        """Return the scope's search mode and epoch."""
        ...

    async def begin_reading(self) -> SearchState:
        """Return the scope's search mode and epoch, and let all that follows be read as it is at this moment.

        The first call of a transaction that writes nothing: whatever it reads afterwards, in any of its stores, is of
        the one state that was committed then (counts that may be old are old all the same).
        """
        ...


class GenerationStore(Protocol):
    """Legacy generations: whole-scope copies that never touch what incremental search can find.

    An entry is *usable* if its meme exists, picture and metadata hash are the entry's, the context is ``partial`` or
    ``ready``, and its vector has the dimension of the generation's space.
    """

    async def of_task(self, task_id: TaskId) -> Generation | None:
        """Return the generation that this task began, with the number of its entries."""
        ...

    async def newest(self) -> Generation | None:
        """Return the scope's newest complete generation, with the number of its entries, which are counted."""
        ...

    async def readable(self) -> Readable | None:
        """Return which generation searches read, the newest complete one, at a cost that does not grow with it."""
        ...

    async def add(self, generation: Generation) -> None:
        """Insert an empty generation; raises `Conflict` if its id is taken."""
        ...

    async def copy_page(self, generation_id: GenerationId, after: MemeId | None, limit: int) -> MemeId | None:
        """Copy up to ``limit`` findable vectors of the generation's space into it, in meme order, behind ``after``.

        An entry that is there already stays. Returns the last meme copied, None when there are no more.
        """
        ...

    async def complete(self, generation_id: GenerationId) -> None:
        """Make the generation readable, at the database's clock."""
        ...

    async def nearest(self, generation_id: GenerationId, vector: Vector, limit: int) -> Sequence[Entry]:
        """Return the ``limit`` usable entries of a complete generation nearest to ``vector``, by distance, then by id.

        Exact. A vector of another dimension than the generation's finds nothing.
        """
        ...

    async def coverage(self, generation_id: GenerationId) -> Coverage:
        """Count the usable entries of a complete generation and the live memes of the scope.

        Where that are many the numbers may be a few seconds old.
        """
        ...
