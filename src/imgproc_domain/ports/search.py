"""What may be found now."""

from collections.abc import Collection, Sequence
from typing import Protocol

from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.migration import Generation, SearchState
from imgproc_domain.product import TextProduct
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector


class SearchStore(Protocol):
    """At most one findable vector of a meme and space. Whoever writes here holds the meme's lock."""

    async def publish(self, products: Sequence[TextProduct]) -> None:
        """Make these vectors the findable ones of their memes, in place of any earlier one of the same space."""
        ...

    async def refresh(self, meme_ids: Collection[MemeId]) -> None:
        """Bring the findable vectors of these memes into line with what is stored now (I14), in every space.

        Called in the transaction that changed a picture, a context or a meme's existence. A vector stays, or comes
        back from the history of text vectors, exactly if the meme exists, its context is ``partial`` or ``ready``, and
        picture and metadata hash are the vector's; any other stops being findable.
        """
        ...

    async def nearest(self, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Return the ``limit`` findable memes nearest to ``vector``, by cosine distance, then by id.

        Exact: never a short page while more findable memes exist.
        """
        ...

    async def searchable(self, space_id: str) -> int:
        """Count the findable memes of a space."""
        ...

    async def state(self) -> SearchState:
        """Return the scope's search mode and epoch."""
        ...


class GenerationStore(Protocol):
    """Legacy generations: whole-scope copies that never touch what incremental search can find."""

    async def of_task(self, task_id: TaskId) -> Generation | None:
        """Return the generation that this task began, with the number of its entries."""
        ...

    async def newest(self) -> Generation | None:
        """Return the scope's newest complete generation."""
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
