"""What an operator may see of the slots that wait for calls nobody answers for any more."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import statement
from imgproc_domain.stage import Lane

_WAITING: Final = statement(
    """
    SELECT free_at FROM lane_slots
    WHERE lane = %(lane)s AND NOT surplus AND scope_id IS NOT NULL AND free_at > statement_timestamp()
    ORDER BY free_at
    """
)


async def slots_of_lost_calls(engine: AsyncEngine, lane: Lane) -> Sequence[datetime]:
    """Return when each slot that a lost call may still occupy is free again, soonest first.

    Raises:
        DatabaseUnavailable: the database did not answer.
    """
    async with checked_out(engine, autocommit=True) as connection:
        with translated():
            rows = await (await connection.execute(_WAITING, {"lane": lane}, binary=True)).fetchall()
    return [free_at for (free_at,) in rows]
