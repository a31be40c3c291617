"""The slots that bound a lane over all processes (I18): the one table whose rows belong to no scope."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from imgproc_adapters.postgres.arrays import Ints, Texts, Times, Uuids
from imgproc_adapters.postgres.session import Session, statement
from imgproc_domain.claim import Claim
from imgproc_domain.ids import TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.stage import Lane

# A lane has a handful of rows, so these read all of it by pk_lane_slots. SKIP LOCKED: a slot that somebody else is
# just taking is not free.
_TAKE: Final = statement(
    """
    SELECT number, scope_id, task_id, generation, free_at FROM lane_slots
    WHERE lane = %(lane)s AND NOT surplus AND (scope_id IS NULL OR free_at <= statement_timestamp())
    ORDER BY number LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    """
)
_HOLD: Final = statement(
    """
    UPDATE lane_slots s
    SET scope_id = n.scope_id, task_id = n.task_id, generation = n.generation, free_at = n.free_at
    FROM unnest(%(lane)s, %(number)s, %(scope_id)s, %(task_id)s, %(generation)s, %(free_at)s)
        AS n (lane, number, scope_id, task_id, generation, free_at)
    WHERE s.lane = n.lane AND s.number = n.number
    """
)
_HELD: Final = statement(
    """
    SELECT task_id, generation FROM lane_slots
    WHERE lane = %(lane)s AND scope_id = %(scope)s AND task_id = ANY (%(ids)s)
    """
)
# A task holds one slot at most, and is one of ids once: its position there is that of its values.
# `resize` locks all of a lane in the order of its numbers, so whoever locks several slots does, or two would wait for
# each other in a circle.
_FREE: Final = statement(
    """
    WITH held AS MATERIALIZED (
        SELECT number FROM lane_slots
        WHERE lane = %(lane)s AND scope_id = %(scope)s AND task_id = ANY (%(ids)s)
          AND generation = (%(generation)s)[array_position(%(ids)s, task_id)]
        ORDER BY number FOR NO KEY UPDATE
    )
    UPDATE lane_slots
    SET scope_id = CASE WHEN (%(free_at)s)[array_position(%(ids)s, task_id)] IS NOT NULL THEN scope_id END,
        task_id = CASE WHEN (%(free_at)s)[array_position(%(ids)s, task_id)] IS NOT NULL THEN task_id END,
        generation = CASE WHEN (%(free_at)s)[array_position(%(ids)s, task_id)] IS NOT NULL THEN generation END,
        free_at = (%(free_at)s)[array_position(%(ids)s, task_id)]
    WHERE lane = %(lane)s AND number = ANY (ARRAY(SELECT number FROM held))
    RETURNING surplus
    """
)
_LOCK_LANE: Final = statement("SELECT number FROM lane_slots WHERE lane = %(lane)s ORDER BY number FOR NO KEY UPDATE")
_GROW: Final = statement(
    """
    INSERT INTO lane_slots (lane, number, surplus)
    SELECT %(lane)s, number, false FROM generate_series(1, %(size)s) AS number
    ON CONFLICT (lane, number) DO UPDATE SET surplus = false WHERE lane_slots.surplus
    """
)
_SHRINK: Final = statement(
    "UPDATE lane_slots SET surplus = true WHERE lane = %(lane)s AND number > %(size)s AND NOT surplus"
)
# A surplus slot that is locked at this moment is being freed by somebody who drops it next.
_DROP_SURPLUS: Final = statement(
    """
    DELETE FROM lane_slots WHERE lane = %(lane)s AND number = ANY (ARRAY(
        SELECT number FROM lane_slots
        WHERE lane = %(lane)s AND surplus AND (scope_id IS NULL OR free_at <= statement_timestamp())
        FOR UPDATE SKIP LOCKED
    ))
    """
)


class PostgresSlots:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def take(self, lane: Lane, limit: int) -> Sequence[Slot]:
        rows = await self._session.rows(_TAKE, lane=lane, limit=limit)
        return [Slot(lane, *row) for row in rows]

    async def hold(self, slots: Sequence[Slot]) -> None:
        if slots:
            await self._session.run(
                _HOLD,
                lane=Texts(s.lane for s in slots),
                number=Ints(s.number for s in slots),
                scope_id=Texts(s.scope for s in slots),
                task_id=Uuids(s.task_id for s in slots),
                generation=Ints(s.generation for s in slots),
                free_at=Times(s.free_at for s in slots),
            )

    async def held(self, lane: Lane, claims: Collection[Claim]) -> Collection[Claim]:
        ours = self._ours(claims)
        if not ours:
            return []
        holders = set(await self._session.rows(_HELD, lane=lane, ids=Uuids(c.task_id for c in ours)))
        return [claim for claim in ours if (claim.task_id, claim.generation) in holders]

    async def free(self, lane: Lane, claims: Collection[Claim], at: Mapping[TaskId, datetime]) -> None:
        ours = self._ours(claims)
        if not ours:
            return
        freed = await self._session.rows(
            _FREE,
            lane=lane,
            ids=Uuids(c.task_id for c in ours),
            generation=Ints(c.generation for c in ours),
            free_at=Times(at.get(c.task_id) for c in ours),
        )
        if any(surplus for (surplus,) in freed):
            await self._session.run(_DROP_SURPLUS, lane=lane)

    async def resize(self, lane: Lane, size: int) -> None:
        # locked in order first, so that processes that start at once do not wait for each other in a circle
        await self._session.rows(_LOCK_LANE, lane=lane)
        await self._session.run(_GROW, lane=lane, size=size)
        await self._session.run(_SHRINK, lane=lane, size=size)
        await self._session.run(_DROP_SURPLUS, lane=lane)

    def _ours(self, claims: Collection[Claim]) -> list[Claim]:
        return [claim for claim in claims if claim.scope == self._session.scope]
