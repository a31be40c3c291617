"""Visual vectors, asked for what looks alike."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from imgproc_adapters.postgres.arrays import Half, cosine_distance
from imgproc_adapters.postgres.session import Row, Session, statement
from imgproc_domain.ids import MemeId
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector

_VECTOR: Final = statement(
    """
    SELECT e.embedding FROM memes m
    JOIN visual_embeddings e ON e.scope_id = m.scope_id AND e.meme_id = m.meme_id AND e.image_sha256 = m.image_sha256
    WHERE m.scope_id = %(scope)s AND m.meme_id = %(meme)s AND m.deleted_at IS NULL
      AND e.scope_id = %(scope)s AND e.meme_id = %(meme)s AND e.space_id = %(space)s
    """
)

# The scope's vectors are read once, by pk_visual_embeddings, and only the nearest few are looked up in memes: joining
# all of them costs half as much again. That is a scalar subquery, because an EXISTS may be hashed over the whole scope.
# Few vectors are history, so that a page is rarely short; if it is, more are taken. The dimension is a filter because
# vectors of two dimensions cannot be compared; with the sums no approximate index can ever answer.
_NEAREST: Final = statement(
    """
    WITH nearest AS MATERIALIZED (
        SELECT meme_id, image_sha256, embedding <#> %(query)s AS product FROM visual_embeddings
        WHERE scope_id = %(scope)s AND space_id = %(space)s AND dimension = %(dimension)s
          AND meme_id IS DISTINCT FROM %(without)s::uuid
        ORDER BY (embedding <#> %(query)s) + 0, meme_id, image_sha256
        LIMIT %(candidates)s
    )
    SELECT n.meme_id, 1 + n.product, (
        SELECT count(*) FROM memes m WHERE m.scope_id = %(scope)s AND m.meme_id = n.meme_id
          AND m.image_sha256 = n.image_sha256 AND m.deleted_at IS NULL
    ) > 0
    FROM nearest n ORDER BY n.product + 0, n.meme_id, n.image_sha256
    """
)
_SPARE: Final = 32
_MORE: Final = 8
_HEAD: Final = 4


class PostgresSimilar:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def vector(self, meme_id: MemeId, space_id: str) -> Vector | None:
        rows = await self._session.rows(_VECTOR, meme=meme_id, space=space_id)
        return _vector(rows[0][0]) if rows else None

    async def nearest(
        self, space_id: str, vector: Vector, limit: int, without: MemeId | None = None
    ) -> Sequence[Neighbour]:
        query, candidates = Half.of(vector), limit + _SPARE
        while True:
            rows: Sequence[Row] = await self._session.rows(
                _NEAREST,
                query=query,
                space=space_id,
                dimension=vector.dimension,
                without=without,
                candidates=candidates,
            )
            present = [(meme_id, distance) for meme_id, distance, is_present in rows if is_present]
            if len(present) >= limit or len(rows) < candidates:
                return [Neighbour(meme_id, cosine_distance(distance)) for meme_id, distance in present[:limit]]
            candidates *= _MORE


def _vector(received: bytes) -> Vector:
    """Read pgvector's binary ``halfvec``: two bytes of dimension, two unused, then big-endian half floats."""
    return Vector.unit(np.frombuffer(received, dtype=">f2", offset=_HEAD).tolist())
