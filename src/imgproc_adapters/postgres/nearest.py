"""The nearest vectors: compared one by one, or found by an index of the scope's own.

Both ways give the same distances. Unit vectors, so that the inner product is the cosine.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Half, Uuids
from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.schema import COVERED, MOST_COVERED
from imgproc_adapters.postgres.session import Row, Session, Sql, statement
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector

AHEAD: Final = 200
"""So many of the nearest are taken from an index; whoever wants more gets the others behind them, compared one by one.

So the pages of one query fit together: what the index has missed comes behind those first ones, neither twice nor
never.
"""

REMEMBERED: Final = 5.0
"""How long, in seconds, it is known whether a scope has an index. Being wrong meanwhile costs time, no result."""

_TIES: Final = 28
INDEX_PREFIX: Final = "hnsw_search_vectors_"

# What is returned is what is sorted by, so that each distance is computed once; and as no index has it, no approximate
# one can ever give the order. Rounding may bring the distance of two equal vectors a hair below nothing.
_EXACT: Final = """
    SELECT meme_id, greatest(0, 1 + (embedding <#> %(query)s)) AS distance FROM search_vectors
    WHERE scope_id = %(scope)s AND space_id = %(space)s {rows}
    ORDER BY distance, meme_id
    LIMIT %(limit)s
"""
# ix_search_vectors_near alone: it says literally what the index says of ``dimension``, so that a plan for any scope may
# use it, and asks the vector itself for its size, which is in the index. Vectors of two sizes cannot be compared, and
# one misfit must not fail everybody's search.
_SLIM: Final = f"AND {COVERED} AND vector_dims(embedding) = %(dimension)s"
# pk_search_vectors and the rows
_WIDE: Final = "AND dimension = %(dimension)s"
_OTHERS: Final = "AND meme_id <> ALL (%(seen)s)"

_NEAREST_SLIM: Final = statement(_EXACT, rows=_SLIM)
_NEAREST_WIDE: Final = statement(_EXACT, rows=_WIDE)
_FURTHER_SLIM: Final = statement(_EXACT, rows=f"{_SLIM} {_OTHERS}")
_FURTHER_WIDE: Final = statement(_EXACT, rows=f"{_WIDE} {_OTHERS}")

# False while it is being built, or after its building was interrupted.
_IS_THERE: Final = statement("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%(index)s)")

# For this transaction alone, as a pooler demands. A plan made for any scope could not use a scope's own index. Without
# sorting nothing but the index gives the order, whatever the statistics say; its detour must not look worth compiling.
_PREPARE: Final = statement(
    """
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_sort', 'off', true),
           set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
           set_config('hnsw.ef_search', '400', true), set_config('hnsw.max_scan_tuples', '4000', true)
    """
)
_RESTORE: Final = statement("SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_sort', 'on', true)")


def index_name(scope: Scope, space_id: str, dimension: int) -> str:
    """Return the name of the index that a scope has, or would have, for the vectors of a space."""
    digest = hashlib.sha256(f"{scope}\0{space_id}\0{dimension}".encode()).hexdigest()
    return INDEX_PREFIX + digest[:24]


def by_index(dimension: int) -> Sql:
    """Return the statement that reads the index of a scope's own for vectors of this dimension."""
    return statement(
        """
        SELECT meme_id, greatest(0, 1 + (embedding <#> %(query)s)) FROM search_vectors
        WHERE scope_id = %(scope)s AND space_id = %(space)s AND dimension = %(dimension)s
        ORDER BY embedding::halfvec({dimension}) <#> %(query)s
        LIMIT %(limit)s
        """,
        dimension=str(int(dimension)),
    )


class Nearest:
    """Finds neighbours for all transactions of a process."""

    def __init__(self, known: Lately[str, bool] | None = None) -> None:
        self._known = known if known is not None else Lately()

    async def find(self, session: Session, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Return the ``limit`` vectors of the scope nearest to ``vector``; fewer only if there are no more.

        By distance, then by id. With an index those among the first `AHEAD` that it has missed, one or two in a
        hundred, come behind them.
        """
        ahead = await self._ahead(session, space_id, vector, limit)
        if len(ahead) == limit:
            return ahead
        return [*ahead, *await _one_by_one(session, space_id, vector, limit - len(ahead), [n.meme_id for n in ahead])]

    async def _ahead(self, session: Session, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Return the first neighbours by the scope's own index; none at all if it has none, or an unfit one."""
        if not await self._is_there(session, index_name(session.scope, space_id, vector.dimension)):
            return []
        wanted = min(limit, AHEAD)
        rows = await session.rows_between(
            _PREPARE,
            by_index(vector.dimension),
            _RESTORE,
            space=space_id,
            query=Half.of(vector),
            dimension=vector.dimension,
            limit=wanted + _TIES,
        )
        # what is found later may be nearer, and equals come as they please
        found = sorted((distance, meme_id) for meme_id, distance in rows)
        is_short = len(found) < wanted + _TIES
        if is_short or found[wanted - 1][0] == found[-1][0]:
            # much around here was deleted, or there are more equals than were looked at: only looking at all will do
            return []
        return [Neighbour(meme_id, distance) for distance, meme_id in found[:wanted]]

    async def _is_there(self, session: Session, index: str) -> bool:
        known = self._known.get(index)
        if known is None:
            rows = await session.rows(_IS_THERE, index=index)
            known = rows == [(True,)]
            self._known.put(index, known, REMEMBERED)
        return known


async def _one_by_one(
    session: Session, space_id: str, vector: Vector, limit: int, seen: Collection[MemeId]
) -> Sequence[Neighbour]:
    is_slim = vector.dimension <= MOST_COVERED
    if seen:
        further = _FURTHER_SLIM if is_slim else _FURTHER_WIDE
        return await _compared(session, further, space_id, vector, limit, seen=Uuids(seen))
    return await _compared(session, _NEAREST_SLIM if is_slim else _NEAREST_WIDE, space_id, vector, limit)


async def _compared(
    session: Session, sql: Sql, space_id: str, vector: Vector, limit: int, **more: object
) -> Sequence[Neighbour]:
    rows: Sequence[Row] = await session.rows(
        sql, space=space_id, query=Half.of(vector), dimension=vector.dimension, limit=limit, **more
    )
    return [Neighbour(meme_id, distance) for meme_id, distance in rows]
