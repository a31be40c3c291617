"""Visual vectors, asked for what looks alike."""

from collections.abc import Sequence

from attrs import frozen

from imgproc_adapters.memory.schema import MEMES, VISUAL
from imgproc_adapters.memory.search import distances
from imgproc_adapters.memory.session import Session
from imgproc_domain.ids import MemeId
from imgproc_domain.product import VisualProduct
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector


@frozen
class MemorySimilar:
    _session: Session

    async def vector(self, meme_id: MemeId, space_id: str) -> Vector | None:
        return next((row.vector for row in self._present(space_id) if row.meme_id == meme_id), None)

    async def nearest(
        self, space_id: str, vector: Vector, limit: int, without: MemeId | None = None
    ) -> Sequence[Neighbour]:
        dimension = vector.dimension
        rows = [r for r in self._present(space_id) if r.meme_id != without and r.vector.dimension == dimension]
        near = zip(rows, distances([row.vector for row in rows], vector), strict=True)
        found = (Neighbour(row.meme_id, distance) for row, distance in near)
        return sorted(found, key=lambda neighbour: (neighbour.distance, neighbour.meme_id))[:limit]

    def _present(self, space_id: str) -> list[VisualProduct]:
        return [row for row in self._session.rows(VISUAL) if row.space_id == space_id and self._is_present(row)]

    def _is_present(self, row: VisualProduct) -> bool:
        meme = self._session.get(MEMES, row.meme_id)
        return meme is not None and meme.exists and meme.picture.sha256 == row.image_sha256
