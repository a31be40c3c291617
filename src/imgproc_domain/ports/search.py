"""What may be found now."""

from collections.abc import Collection, Sequence
from typing import Protocol

from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchState
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
