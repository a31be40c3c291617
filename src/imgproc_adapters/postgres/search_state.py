"""Which source and space a scope's searches read, and what a space still lacks."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from imgproc_adapters.postgres.arrays import Uuids
from imgproc_adapters.postgres.library import USABLE_STATUSES
from imgproc_adapters.postgres.session import Row, Session, statement
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.ports.migration import Missing

STATE: Final = "s.mode, s.epoch, s.serving_space_id, s.serving_dimension, s.filling_space_id, s.filling_dimension"

# against everybody who shares it, not only against those who would write it
_LOCK: Final = statement("SELECT {state} FROM search_migrations s WHERE s.scope_id = %(scope)s FOR UPDATE", state=STATE)
_SAVE: Final = statement(
    """
    UPDATE search_migrations
    SET mode = %(mode)s, epoch = %(epoch)s, serving_space_id = %(serving)s, serving_dimension = %(serving_dimension)s,
        filling_space_id = %(filling)s, filling_dimension = %(filling_dimension)s, updated_at = statement_timestamp()
    WHERE scope_id = %(scope)s
    """
)


def _part(template: str, **parts: str) -> str:
    return template.format(**parts)


_FOUND: Final = """
    v.scope_id = %(scope)s AND v.space_id = %(space)s AND v.meme_id = m.meme_id AND v.dimension = %(dimension)s
    AND v.image_sha256 = m.image_sha256 AND v.metadata_hash = c.metadata_hash AND v.words IS NOT NULL
"""

# A probe of a key each for a meme's context and its vector, whatever the planner thinks of how many memes there are.
_PROBED: Final = _part(
    """
    LEFT JOIN LATERAL (
        SELECT c.metadata_hash FROM meme_contexts c
        WHERE c.scope_id = %(scope)s AND c.meme_id = m.meme_id AND c.status = ANY (%(usable)s) LIMIT 1
    ) c ON true
    LEFT JOIN LATERAL (SELECT v.meme_id FROM search_vectors v WHERE {found} LIMIT 1) v ON true
    """,
    found=_FOUND,
)
# From one meme to the next, because that needs no idea of how many there are: asked for a page at once, a planner that
# thinks a scope small reads and sorts all that is left of it, for every window.
_WINDOW: Final = statement(
    """
    WITH RECURSIVE m (number, meme_id, image_sha256) AS (
        (SELECT 1, meme_id, image_sha256 FROM memes
         WHERE scope_id = %(scope)s AND deleted_at IS NULL AND meme_id > %(after)s ORDER BY meme_id LIMIT 1)
        UNION ALL
        SELECT m.number + 1, behind.* FROM m CROSS JOIN LATERAL (
            SELECT meme_id, image_sha256 FROM memes
            WHERE scope_id = %(scope)s AND deleted_at IS NULL AND meme_id > m.meme_id ORDER BY meme_id LIMIT 1
        ) behind
        WHERE m.number < %(limit)s
    )
    SELECT m.meme_id, c.metadata_hash IS NOT NULL AND v.meme_id IS NULL FROM m {probed} ORDER BY m.number
    """,
    probed=_PROBED,
)
_LACKING: Final = statement(
    """
    WITH m AS MATERIALIZED (
        SELECT meme_id, image_sha256, deleted_at FROM memes WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s)
    )
    SELECT m.meme_id FROM m {probed}
    WHERE m.deleted_at IS NULL AND c.metadata_hash IS NOT NULL AND v.meme_id IS NULL
    """,
    probed=_PROBED,
)

# The whole scope, whose rows stand in the order of their memes in an index of each of the three tables: read side by
# side they take a quarter of the time that a probe each takes, and a switch makes others wait for this.
_MISSING: Final = _part(
    """
    FROM memes m
    JOIN meme_contexts c ON c.scope_id = m.scope_id AND c.meme_id = m.meme_id
        AND c.status = ANY (%(usable)s) AND c.metadata_hash IS NOT NULL
    LEFT JOIN search_vectors v ON {found}
    WHERE m.scope_id = %(scope)s AND c.scope_id = %(scope)s AND m.deleted_at IS NULL AND v.meme_id IS NULL
    """,
    found=_FOUND,
)
# Nothing but that is left to the planner, which would compare each with each wherever the statistics lag behind.
_ORDERS: Final = ("nestloop", "hashjoin", "sort", "seqscan", "bitmapscan")
_BESIDE: Final = statement(
    "SELECT {off}", off=", ".join(f"set_config('enable_{name}', 'off', true)" for name in _ORDERS)
)
_AS_EVER: Final = statement("SELECT {on}", on=", ".join(f"set_config('enable_{name}', 'on', true)" for name in _ORDERS))
_COUNT: Final = statement("SELECT count(*) {missing}", missing=_MISSING)
_FIRST: Final = statement("SELECT m.meme_id {missing} ORDER BY m.meme_id LIMIT %(limit)s", missing=_MISSING)

_BEGINNING: Final = UUID(int=0)


def state_of(row: Row) -> SearchState:
    mode, epoch, serving, serving_dimension, filling, filling_dimension = row
    return SearchState(
        SearchMode(mode),
        epoch,
        VectorSpace(serving, serving_dimension) if serving is not None else None,
        VectorSpace(filling, filling_dimension) if filling is not None else None,
    )


def _space(space: VectorSpace) -> dict[str, object]:
    return {"space": space.id, "dimension": space.dimension, "usable": USABLE_STATUSES}


class PostgresMigration:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def lock(self) -> SearchState:
        (row,) = await self._session.rows(_LOCK)
        return state_of(row)

    async def save(self, state: SearchState) -> None:
        serving, filling = state.serving, state.filling
        await self._session.run(
            _SAVE,
            mode=state.mode,
            epoch=state.epoch,
            serving=serving.id if serving else None,
            serving_dimension=serving.dimension if serving else None,
            filling=filling.id if filling else None,
            filling_dimension=filling.dimension if filling else None,
        )

    async def missing(self, space: VectorSpace, after: MemeId | None, window: int) -> Missing:
        rows = await self._session.rows(_WINDOW, after=after or _BEGINNING, limit=window + 1, **_space(space))
        page = rows[:window]
        missing = tuple(MemeId(meme_id) for meme_id, is_missing in page if is_missing)
        return Missing(missing, len(page), MemeId(page[-1][0]) if len(rows) > window else None)

    async def lacking(self, space: VectorSpace, meme_ids: Collection[MemeId]) -> Collection[MemeId]:
        if not meme_ids:
            return ()
        rows = await self._session.rows(_LACKING, ids=Uuids(set(meme_ids)), **_space(space))
        return {MemeId(meme_id) for (meme_id,) in rows}

    async def first_missing(self, space: VectorSpace, limit: int) -> Sequence[MemeId]:
        rows = await self._session.rows_between(_BESIDE, _FIRST, _AS_EVER, limit=limit, **_space(space))
        return [MemeId(meme_id) for (meme_id,) in rows]

    async def count_missing(self, space: VectorSpace) -> int:
        ((count,),) = await self._session.rows_between(_BESIDE, _COUNT, _AS_EVER, **_space(space))
        return int(count)
