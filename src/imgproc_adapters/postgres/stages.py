"""The stages of jobs."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from imgproc_adapters.postgres.arrays import Uuids
from imgproc_adapters.postgres.rows import STAGE, in_order, job_of, stage_arrays, stage_of
from imgproc_adapters.postgres.session import Row, Session, statement
from imgproc_domain.ids import JobId, TaskId
from imgproc_domain.job import Job, StageState
from imgproc_domain.stage import Stage
from imgproc_domain.values import evolve

_STAGES: Final = statement(
    "SELECT {stage} FROM image_processing_stages s WHERE s.scope_id = %(scope)s AND s.job_id = ANY (%(ids)s)",
    stage=STAGE,
)

_MOST: Final = 4

# An array of uuids without NULLs is read by position at once; finding the position compares numbers.
_SAVE_ALIKE: Final = statement(
    """
    UPDATE image_processing_stages s
    SET status = %(status)s, reused = %(reused)s, retry_at = %(retry_at)s, error_code = %(error_code)s,
        error_message = %(error_message)s, task_id = (%(task_id)s)[array_position(%(ids)s, s.job_id)]
    WHERE s.scope_id = %(scope)s AND s.job_id = ANY (%(ids)s) AND s.stage = %(stage)s
    """
)

# Most stages of a saved job are as they were: those are not written again.
_SAVE_STAGES: Final = statement(
    """
    UPDATE image_processing_stages s
    SET status = n.status, reused = n.reused, task_id = n.task_id, retry_at = n.retry_at,
        error_code = n.error_code, error_message = n.error_message
    FROM unnest(%(ids)s, %(stage)s, %(status)s, %(reused)s, %(task_id)s, %(retry_at)s,
        %(error_code)s, %(error_message)s)
        AS n (job_id, stage, status, reused, task_id, retry_at, error_code, error_message)
    WHERE s.scope_id = %(scope)s AND s.job_id = n.job_id AND s.stage = n.stage AND s.job_id = ANY (%(ids)s)
      AND (s.status, s.reused, s.task_id, s.retry_at, s.error_code, s.error_message) IS DISTINCT FROM
          (n.status, n.reused, n.task_id, n.retry_at, n.error_code, n.error_message)
    """
)


async def with_stages(session: Session, rows: Sequence[Row]) -> list[Job]:
    """Complete rows of jobs, which are locked where that matters, by their stages as they are now."""
    if not rows:
        return []
    stages: dict[UUID, dict[Stage, StageState]] = {row[0]: {} for row in rows}
    for row in await session.rows(_STAGES, ids=Uuids(stages)):
        state = stage_of(row)
        stages[row[0]][state.stage] = state
    read = [job_of(session.scope, row, in_order(stages[row[0]])) for row in rows]
    session.read.jobs.update((job.job_id, job) for job in read)
    return read


def changed_stages(session: Session, jobs: Sequence[Job]) -> list[tuple[JobId, StageState]]:
    """Return the stages that are not as this transaction read them last."""
    changed: list[tuple[JobId, StageState]] = []
    for job in jobs:
        before = session.read.jobs.get(job.job_id)
        known = before.stages if before else ()
        changed += [(job.job_id, state) for state in job.stages if not any(state is other for other in known)]
    return changed


async def save_stages(session: Session, pairs: Sequence[tuple[JobId, StageState]]) -> None:
    """Write stages of jobs that this transaction has locked, each way in which some change by one statement."""
    groups: dict[StageState, list[tuple[JobId, TaskId | None]]] = defaultdict(list)
    for job_id, state in pairs:
        groups[evolve(state, task_id=None)].append((job_id, state.task_id))
    if len(groups) > _MOST:
        await session.run(_SAVE_STAGES, **stage_arrays(pairs))
        return
    for state, rows in groups.items():
        await session.run(
            _SAVE_ALIKE,
            ids=Uuids(job_id for job_id, _ in rows),
            task_id=Uuids(task_id for _, task_id in rows),
            stage=state.stage,
            status=state.status,
            reused=state.reused,
            retry_at=state.retry_at,
            error_code=state.error.code if state.error else None,
            error_message=state.error.message if state.error else None,
        )
