"""Slots that wait for calls of a worker that was lost, as `imgproc status` sees them."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.lost_calls import slots_of_lost_calls
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_domain.scope import LOCAL
from imgproc_domain.stage import Lane

OCCUPY = text(
    "UPDATE lane_slots SET scope_id = :scope, task_id = :task, generation = 1, free_at = :at WHERE number = :n"
)


async def test_only_slots_of_calls_that_may_still_run_are_counted(engine: AsyncEngine, uow: PostgresUnitOfWork) -> None:
    async with uow.begin(LOCAL) as tx:
        await tx.slots.resize(Lane.AGENT, 4)
        now = await tx.now()
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    # the second is held by a call that is known to run, the third by one that is over, and nobody holds the fourth
    async with engine.begin() as connection:
        for number, free_at in enumerate((later, None, now - timedelta(hours=1)), 1):
            await connection.execute(OCCUPY, {"scope": LOCAL, "task": uuid4(), "at": free_at, "n": number})
    assert await slots_of_lost_calls(engine, Lane.AGENT) == [later]
    async with engine.begin() as connection:
        await connection.execute(OCCUPY, {"scope": LOCAL, "task": uuid4(), "at": soon, "n": 4})
    found = await slots_of_lost_calls(engine, Lane.AGENT)
    assert found == [soon, later]
    assert found[0].astimezone(UTC) > datetime.now(UTC)
    assert await slots_of_lost_calls(engine, Lane.TEXT) == []
