"""Every statement that locks tasks or jobs, and nothing else.

Three rules hold for each of them:

- Rows are found by ``id = ANY(array)`` behind the scope, even where they are joined to the values they get. No table
  has another index over all its rows that begins with the scope (see `schema.aside`), so this is the primary key's
  work and a statement reads what its batch needs, whatever stale statistics say about a scope's size.
- ``FOR NO KEY UPDATE`` is enough: keys never change, and a foreign key's check of another transaction does not wait.
- Locks are taken in the order of the sort under them, which is by id wherever a transaction may wait.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from imgproc_adapters.postgres.arrays import Texts, Uuids
from imgproc_adapters.postgres.changes import Table, save
from imgproc_adapters.postgres.processing_sql import SAVE_TASKS
from imgproc_adapters.postgres.rows import JOB, TASK, TASK_COLUMNS, task_of, task_state
from imgproc_adapters.postgres.session import Row, Session, Sql, statement
from imgproc_adapters.postgres.stages import with_stages
from imgproc_domain.claim import Claim, JobClaim, why_not_current
from imgproc_domain.ids import JobId, TaskId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task


def _claim(task_type: TaskType) -> Sql:
    # The literal type lets the planner use ix_tasks_queued_<type>, also in a cached generic plan: the oldest rows of
    # the scope are its first entries. SKIP LOCKED, because a row that is being claimed is no work for anybody else.
    # The CTE is materialized and read through an array, so that it is locked once and never joined.
    return statement(
        """
        WITH picked AS MATERIALIZED (
            SELECT task_id FROM tasks
            WHERE scope_id = %(scope)s AND status = 'queued' AND task_type = '{task_type}'
              AND available_at <= statement_timestamp()
            ORDER BY available_at, task_id
            LIMIT %(limit)s
            FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE tasks t
        SET status = 'running', claim_generation = t.claim_generation + 1, lease_owner = %(owner)s,
            lease_expires_at = statement_timestamp() + %(lease)s::interval,
            started_at = coalesce(t.started_at, statement_timestamp()), error_code = NULL, error_message = NULL
        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (ARRAY(SELECT task_id FROM picked))
        RETURNING {task}
        """,
        task_type=task_type.value,
        task=TASK,
    )


_CLAIM: Final = {task_type: _claim(task_type) for task_type in TaskType}

# pk_tasks
_LOCK: Final = statement(
    """
    SELECT {task} FROM tasks t WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s)
    ORDER BY t.task_id FOR NO KEY UPDATE
    """,
    task=TASK,
)

# ix_tasks_running holds only what runs now, so that filtering it by lease needs no index on the lease.
_LOCK_EXPIRED: Final = statement(
    """
    SELECT {task} FROM tasks t
    WHERE t.scope_id = %(scope)s AND t.status = 'running' AND t.task_type = ANY (%(types)s)
      AND t.lease_expires_at <= statement_timestamp()
    ORDER BY t.task_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
    """,
    task=TASK,
)

# ix_image_processing_jobs_due; held jobs stay in it, but there are never more of those than reconcilers.
_CLAIM_DUE: Final = statement(
    """
    WITH picked AS MATERIALIZED (
        SELECT job_id FROM image_processing_jobs
        WHERE scope_id = %(scope)s AND due_at IS NOT NULL AND due_at <= statement_timestamp()
          AND (lease_expires_at IS NULL OR lease_expires_at <= statement_timestamp())
        ORDER BY due_at, job_id
        LIMIT %(limit)s
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE image_processing_jobs j
    SET claim_generation = j.claim_generation + 1, lease_owner = %(owner)s,
        lease_expires_at = statement_timestamp() + %(lease)s::interval
    WHERE j.scope_id = %(scope)s AND j.job_id = ANY (ARRAY(SELECT job_id FROM picked))
    RETURNING {job}
    """,
    job=JOB,
)

# pk_image_processing_jobs
LOCK_JOBS: Final = statement(
    """
    SELECT {job} FROM image_processing_jobs j WHERE j.scope_id = %(scope)s AND j.job_id = ANY (%(ids)s)
    ORDER BY j.job_id FOR NO KEY UPDATE
    """,
    job=JOB,
)

_NOW: Final = statement("SELECT statement_timestamp()")


_TASKS: Final = Table("task", "tasks", "task_id", TASK_COLUMNS, SAVE_TASKS, task_state)


class PostgresClaims:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def claim(self, task_type: TaskType, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Task]:
        rows = await self._session.rows(_CLAIM[task_type], limit=limit, owner=owner, lease=lease)
        return sorted(self._read(rows), key=lambda task: (task.available_at, task.task_id))

    async def lock(self, claims: Collection[Claim]) -> Mapping[TaskId, Task]:
        ids = Uuids({claim.task_id for claim in claims if claim.scope == self._session.scope})
        if not ids:
            return {}
        return {task.task_id: task for task in self._read(await self._session.rows(_LOCK, ids=ids))}

    async def lock_expired(self, task_types: Collection[TaskType], limit: int) -> Sequence[Task]:
        rows = await self._session.rows(_LOCK_EXPIRED, types=Texts(task_types), limit=limit)
        return self._read(rows)

    async def save(self, tasks: Sequence[Task]) -> None:
        await save(self._session, _TASKS, self._session.read.tasks, tasks)

    def _read(self, rows: Sequence[Row]) -> list[Task]:
        tasks = [task_of(self._session.scope, row) for row in rows]
        self._session.read.tasks.update((task.task_id, task) for task in tasks)
        return tasks


class PostgresJobClaims:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def claim_due(self, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Job]:
        rows = await self._session.rows(_CLAIM_DUE, limit=limit, owner=owner, lease=lease)
        jobs = await with_stages(self._session, rows)
        return sorted(jobs, key=lambda job: (job.due_at, job.job_id))

    async def lock(self, claims: Collection[JobClaim]) -> Mapping[JobId, Job]:
        by_id = {claim.job_id: claim for claim in claims if claim.scope == self._session.scope}
        if not by_id:
            return {}
        rows = await self._session.rows(LOCK_JOBS, ids=Uuids(by_id))
        # a statement of its own: one that waited for a lock would compare with a time before the wait
        ((now,),) = await self._session.rows(_NOW)
        jobs = await with_stages(self._session, rows)
        return {job.job_id: job for job in jobs if why_not_current(job.lease, by_id[job.job_id], now) is None}
