"""What pictures look like."""

from collections.abc import Sequence
from typing import Protocol

from imgproc_domain.ids import MemeId
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector


class SimilarStore(Protocol):
    """The visual vectors of live memes, each made from the very bytes its meme has now.

    Vectors of deleted memes and of earlier pictures are history, which nobody sees here.
    """

    async def vector(self, meme_id: MemeId, space_id: str) -> Vector | None:
        """Return the vector of a live meme's present picture in a space, None if there is none (yet)."""
        ...

    async def nearest(
        self, space_id: str, vector: Vector, limit: int, without: MemeId | None = None
    ) -> Sequence[Neighbour]:
        """Return the ``limit`` live memes whose pictures are nearest to ``vector``, by cosine distance, then by id.

        Exact, and never a short page while there are more pictures with a vector of this space and dimension. The
        meme ``without`` is left out.
        """
        ...
