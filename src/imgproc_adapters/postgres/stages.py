"""The stages of jobs."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from imgproc_adapters.postgres.arrays import Uuids
from imgproc_adapters.postgres.rows import STAGE, in_order, job_of, stage_arrays, stage_of
from imgproc_adapters.postgres.session import Row, Session, Sql, statement
from imgproc_domain.ids import JobId
from imgproc_domain.job import Job, StageState
from imgproc_domain.stage import Stage

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
    return _completed(session, rows, await session.rows(_STAGES, ids=Uuids(row[0] for row in rows))) if rows else []


async def by_id(session: Session, sql: Sql, ids: Collection[JobId]) -> list[Job]:
    """Return the jobs that a statement reads, and locks where it does, and then their stages."""
    if not ids:
        return []
    wanted = {"ids": Uuids(set(ids))}
    return _completed(session, *await session.rows_of((sql, wanted), (_STAGES, wanted)))


def _completed(session: Session, rows: Sequence[Row], stage_rows: Sequence[Row]) -> list[Job]:
    stages: dict[UUID, dict[Stage, StageState]] = defaultdict(dict)
    for row in stage_rows:
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
    groups: dict[tuple[object, ...], list[tuple[JobId, StageState]]] = defaultdict(list)
    for job_id, state in pairs:
        groups[state.stage, state.status, state.reused, state.error, state.retry_at].append((job_id, state))
    if len(groups) > _MOST:
        await session.run(_SAVE_STAGES, **stage_arrays(pairs))
        return
    await session.run_all([(_SAVE_ALIKE, _alike(rows)) for rows in groups.values()])


def _alike(rows: Sequence[tuple[JobId, StageState]]) -> dict[str, object]:
    """Return the values of stages that differ in their tasks alone."""
    state = rows[0][1]
    return {
        "ids": Uuids(job_id for job_id, _ in rows),
        "task_id": Uuids(each.task_id for _, each in rows),
        "stage": state.stage,
        "status": state.status,
        "reused": state.reused,
        "retry_at": state.retry_at,
        "error_code": state.error.code if state.error else None,
        "error_message": state.error.message if state.error else None,
    }
