"""The stages of jobs."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from imgproc_adapters.postgres.arrays import Uuids
from imgproc_adapters.postgres.rows import STAGE, in_order, job_of, stage_of
from imgproc_adapters.postgres.session import Row, Session, statement
from imgproc_domain.job import Job, StageState
from imgproc_domain.stage import Stage

_STAGES: Final = statement(
    "SELECT {stage} FROM image_processing_stages s WHERE s.scope_id = %(scope)s AND s.job_id = ANY (%(ids)s)",
    stage=STAGE,
)


async def with_stages(session: Session, rows: Sequence[Row]) -> list[Job]:
    """Complete rows of jobs, which are locked where that matters, by their stages as they are now."""
    if not rows:
        return []
    stages: dict[UUID, dict[Stage, StageState]] = {row[0]: {} for row in rows}
    for row in await session.rows(_STAGES, ids=Uuids(stages)):
        state = stage_of(row)
        stages[row[0]][state.stage] = state
    return [job_of(session.scope, row, in_order(stages[row[0]])) for row in rows]
