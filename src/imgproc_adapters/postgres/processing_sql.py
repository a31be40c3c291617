"""The statements over jobs, stages and tasks that lock nothing. Comments name indexes other than primary keys.

Rows that are joined to their new values are also found by ``id = ANY(array)``: see `claims` for why.
"""

from typing import Final

from imgproc_adapters.postgres.rows import JOB, TASK
from imgproc_adapters.postgres.session import Sql, statement
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import STAGES, Stage, TaskType
from imgproc_domain.task import TaskStatus

JOBS: Final = statement(
    "SELECT {job} FROM image_processing_jobs j WHERE j.scope_id = %(scope)s AND j.job_id = ANY (%(ids)s)", job=JOB
)

# uq_image_processing_jobs_revision, backwards: one entry a meme.
NEWEST: Final = statement(
    """
    SELECT {job} FROM unnest(%(ids)s) AS wanted (meme_id)
    CROSS JOIN LATERAL (
        SELECT * FROM image_processing_jobs
        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND revision >= 1
        ORDER BY revision DESC LIMIT 1
    ) j
    """,
    job=JOB,
)

# uq_image_processing_jobs_revision, backwards to the first revision of the picture version: a meme has few revisions.
NEWEST_OF: Final = statement(
    """
    SELECT {job} FROM unnest(%(ids)s, %(image_sha256)s, %(reverse_image_policy)s)
        AS wanted (meme_id, image_sha256, reverse_image_policy)
    CROSS JOIN LATERAL (
        SELECT * FROM image_processing_jobs
        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND revision >= 1
          AND image_sha256 = wanted.image_sha256 AND reverse_image_policy = wanted.reverse_image_policy
        ORDER BY revision DESC LIMIT 1
    ) j
    """,
    job=JOB,
)

# uq_image_processing_jobs_active, one probe a meme.
ACTIVE: Final = statement(
    """
    SELECT j.meme_id, j.job_id FROM unnest(%(ids)s) AS wanted (meme_id)
    CROSS JOIN LATERAL (
        SELECT meme_id, job_id FROM image_processing_jobs
        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND status IN ('queued', 'running')
        LIMIT 1
    ) j
    """
)

LIVE_JOBS: Final = statement(
    """
    SELECT job_id FROM image_processing_jobs
    WHERE scope_id = %(scope)s AND job_id = ANY (%(ids)s) AND status IN ('queued', 'running')
    """
)

SAVE_JOBS: Final = statement(
    """
    UPDATE image_processing_jobs j
    SET status = n.status, updated_at = n.updated_at, due_at = n.due_at, completed_at = n.completed_at,
        retry_at = n.retry_at, claim_generation = n.claim_generation, lease_owner = n.lease_owner,
        lease_expires_at = n.lease_expires_at, error_code = n.error_code, error_message = n.error_message
    FROM unnest(%(ids)s, %(status)s, %(updated_at)s, %(due_at)s, %(completed_at)s, %(retry_at)s,
        %(claim_generation)s, %(lease_owner)s, %(lease_expires_at)s, %(error_code)s, %(error_message)s)
        AS n (job_id, status, updated_at, due_at, completed_at, retry_at,
              claim_generation, lease_owner, lease_expires_at, error_code, error_message)
    WHERE j.scope_id = %(scope)s AND j.job_id = n.job_id AND j.job_id = ANY (%(ids)s)
    """
)

SAVE_TASKS: Final = statement(
    """
    UPDATE tasks t
    SET status = n.status, grant_id = n.grant_id, available_at = n.available_at, failures = n.failures,
        lease_losses = n.lease_losses, started_at = n.started_at, completed_at = n.completed_at,
        claim_generation = n.claim_generation, lease_owner = n.lease_owner, lease_expires_at = n.lease_expires_at,
        error_code = n.error_code, error_message = n.error_message
    FROM unnest(%(ids)s, %(status)s, %(grant_id)s, %(available_at)s, %(failures)s, %(lease_losses)s, %(started_at)s,
        %(completed_at)s, %(claim_generation)s, %(lease_owner)s, %(lease_expires_at)s, %(error_code)s,
        %(error_message)s)
        AS n (task_id, status, grant_id, available_at, failures, lease_losses, started_at, completed_at,
              claim_generation, lease_owner, lease_expires_at, error_code, error_message)
    WHERE t.scope_id = %(scope)s AND t.task_id = n.task_id AND t.task_id = ANY (%(ids)s)
    """
)
TASKS: Final = statement(
    "SELECT {task} FROM tasks t WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s)", task=TASK
)

# uq_tasks_active_leaf, one probe a meme; the OFFSET keeps the planner from joining the whole scope instead.
BUSY: Final = statement(
    """
    SELECT {task} FROM unnest(%(ids)s) AS wanted (meme_id)
    CROSS JOIN LATERAL (
        SELECT * FROM tasks
        WHERE scope_id = %(scope)s AND meme_id = wanted.meme_id AND meme_id IS NOT NULL
          AND status IN ('queued', 'running')
        OFFSET 0
    ) t
    ORDER BY t.task_id
    """,
    task=TASK,
)

# As NEWEST_OF, then the stages and the task by their primary keys.
_AGENT: Final = """
    (SELECT s.task_id FROM image_processing_stages s
     WHERE s.scope_id = j.scope_id AND s.job_id = j.job_id AND s.stage = 'agent')
"""
LAST_AGENTS: Final = statement(
    """
    SELECT {task} FROM unnest(%(ids)s, %(image_sha256)s, %(reverse_image_policy)s)
        AS wanted (meme_id, image_sha256, reverse_image_policy)
    CROSS JOIN LATERAL (
        SELECT {agent} AS task_id FROM image_processing_jobs j
        WHERE j.scope_id = %(scope)s AND j.meme_id = wanted.meme_id AND j.revision >= 1
          AND j.image_sha256 = wanted.image_sha256 AND j.reverse_image_policy = wanted.reverse_image_policy
          AND {agent} IS NOT NULL
        ORDER BY j.revision DESC LIMIT 1
    ) made
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE scope_id = %(scope)s AND task_id = made.task_id LIMIT 1) t
    """,
    task=TASK,
    agent=_AGENT,
)

# One probe of uq_image_processing_jobs_revision for every live meme.
COUNTS: Final = statement(
    """
    SELECT j.status, count(*) FROM memes m
    CROSS JOIN LATERAL (
        SELECT status FROM image_processing_jobs
        WHERE scope_id = %(scope)s AND meme_id = m.meme_id AND revision >= 1
        ORDER BY revision DESC LIMIT 1
    ) j
    WHERE m.scope_id = %(scope)s AND m.deleted_at IS NULL
    GROUP BY j.status
    """
)


def job_page(status: JobStatus | None, stage: Stage | None) -> Sql:
    """Literal statuses let ix_image_processing_jobs_retryable serve what people look for most: what went wrong."""
    by_status = f"AND j.status = '{status}'" if status else ""
    # the current stage is the first one that has not succeeded
    earlier = STAGES[: STAGES.index(stage)] if stage else ()
    conditions = [_stage_is(done, "=") for done in earlier] + ([_stage_is(stage, "<>")] if stage else [])
    return statement(
        """
        SELECT {job} FROM image_processing_jobs j
        WHERE j.scope_id = %(scope)s AND (%(after)s::uuid IS NULL OR j.job_id < %(after)s) {by_status} {by_stage}
        ORDER BY j.job_id DESC LIMIT %(limit)s
        """,
        job=JOB,
        by_status=by_status,
        by_stage=" ".join(conditions),
    )


def _stage_is(stage: Stage, operator: str) -> str:
    return (
        "AND EXISTS (SELECT FROM image_processing_stages s WHERE s.scope_id = j.scope_id AND s.job_id = j.job_id"
        f" AND s.stage = '{stage}' AND s.status {operator} 'succeeded')"
    )


def task_page(task_type: TaskType | None, status: TaskStatus | None) -> Sql:
    return statement(
        """
        SELECT {task} FROM tasks t
        WHERE t.scope_id = %(scope)s AND (%(after)s::uuid IS NULL OR t.task_id < %(after)s) {by_type} {by_status}
        ORDER BY t.task_id DESC LIMIT %(limit)s
        """,
        task=TASK,
        by_type=f"AND t.task_type = '{task_type}'" if task_type else "",
        by_status=f"AND t.status = '{status}'" if status else "",
    )
