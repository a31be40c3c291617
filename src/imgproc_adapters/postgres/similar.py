"""Visual vectors, asked for what looks alike."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from imgproc_adapters.postgres.arrays import Half, cosine_distance
from imgproc_adapters.postgres.session import Session, statement
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

# The scope's vectors are read once, by pk_visual_embeddings, and sorted; then they are looked up in memes, the nearest
# first, until there are enough. However many are history, nothing is read twice, and where few are, hardly more of the
# memes are read than are named: joining all of them costs a third more. That is a scalar subquery, because an EXISTS
# may be hashed over the whole scope, and OFFSET 0 keeps the planner from looking up before it sorts. The dimension is a
# filter because vectors of two dimensions cannot be compared; with the sum no approximate index can ever answer.
_NEAREST: Final = statement(
    """
    SELECT n.meme_id, 1 + n.product FROM (
        SELECT meme_id, image_sha256, (embedding <#> %(query)s) + 0 AS product FROM visual_embeddings
        WHERE scope_id = %(scope)s AND space_id = %(space)s AND dimension = %(dimension)s
          AND meme_id IS DISTINCT FROM %(without)s::uuid
        ORDER BY product, meme_id, image_sha256
        OFFSET 0
    ) n
    WHERE (
        SELECT count(*) FROM memes m WHERE m.scope_id = %(scope)s AND m.meme_id = n.meme_id
          AND m.image_sha256 = n.image_sha256 AND m.deleted_at IS NULL
    ) > 0
    ORDER BY n.product, n.meme_id, n.image_sha256
    LIMIT %(limit)s
    """
)
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
        rows = await self._session.rows(
            _NEAREST, query=Half.of(vector), space=space_id, dimension=vector.dimension, without=without, limit=limit
        )
        return [Neighbour(meme_id, cosine_distance(distance)) for meme_id, distance in rows]


def _vector(received: bytes) -> Vector:
    """Read pgvector's binary ``halfvec``: two bytes of dimension, two unused, then big-endian half floats."""
    return Vector.unit(np.frombuffer(received, dtype=">f2", offset=_HEAD).tolist())
