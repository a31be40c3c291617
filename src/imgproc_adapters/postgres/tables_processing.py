"""Tables of the work: jobs, their stages, tasks, attempts, grants, and the slots that bound a lane."""

from typing import Final

from sqlalchemy import Boolean, Column, Integer, Table, Text

from imgproc_adapters.postgres.schema import (
    METADATA,
    aside,
    belongs_to_scope,
    check,
    diagnosis_checks,
    diagnosis_columns,
    index,
    key,
    lease_checks,
    lease_columns,
    one_of,
    primary,
    quoted,
    refers,
    sha256_check,
    time,
    uuid,
)
from imgproc_domain import attempt, grant, job, outcome, task
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import Operation
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import TaskStatus

JOB_IS_LIVE: Final = f"status {one_of(job.LIVE)}"
TASK_IS_LIVE: Final = f"status {one_of(task.LIVE)}"
_IMAGE_TYPES: Final = quoted(t.value for t in TaskType if t in IMAGE_TASK_TYPES)

# Rows that are updated a few times in their life leave room on their page, so that those updates stay heap-only;
# tables with a large finished part are vacuumed by their live part.
_LIVELY: Final = {"fillfactor": 80, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_analyze_scale_factor": 0.02}

image_processing_jobs: Final = Table(
    "image_processing_jobs",
    METADATA,
    key("scope_id"),
    uuid("job_id"),
    uuid("meme_id"),
    Column("revision", Integer, nullable=False),
    key("image_sha256"),
    key("reverse_image_policy"),
    key("config_fingerprint"),
    Column("status", Text, nullable=False),
    time("created_at"),
    time("updated_at"),
    time("due_at", nullable=True),
    *lease_columns(),
    time("completed_at", nullable=True),
    *diagnosis_columns(),
    time("retry_at", nullable=True),
    primary("image_processing_jobs", "scope_id", "job_id"),
    refers("image_processing_jobs", "meme_id", "memes"),
    check("image_processing_jobs", "status", f"status {one_of(JobStatus)}"),
    check("image_processing_jobs", "policy", f"reverse_image_policy {one_of(ReverseImagePolicy)}"),
    check("image_processing_jobs", "revision", "revision >= 1"),
    check("image_processing_jobs", "terminal", f"({JOB_IS_LIVE}) = (completed_at IS NULL)"),
    check("image_processing_jobs", "rest", f"({JOB_IS_LIVE}) OR (due_at IS NULL AND lease_owner IS NULL)"),
    sha256_check("image_processing_jobs", "image_sha256"),
    *lease_checks("image_processing_jobs"),
    *diagnosis_checks("image_processing_jobs"),
    # a meme that goes looks for its jobs by it, too: a reference implies this condition, and no key does
    aside("image_processing_jobs", "revision", "scope_id", "meme_id", "revision", where="meme_id IS NOT NULL"),
    index("image_processing_jobs", "active", "scope_id", "meme_id", where=JOB_IS_LIVE, unique=True),
    index("image_processing_jobs", "due", "scope_id", "due_at", "job_id", where="due_at IS NOT NULL"),
    index("image_processing_jobs", "retryable", "scope_id", "job_id", where=f"status {one_of(sorted(job.RETRYABLE))}"),
    postgresql_with=_LIVELY,
)

image_processing_stages: Final = Table(
    "image_processing_stages",
    METADATA,
    key("scope_id"),
    uuid("job_id"),
    key("stage"),
    Column("status", Text, nullable=False),
    Column("reused", Boolean, nullable=False),
    uuid("task_id", nullable=True),
    *diagnosis_columns(),
    time("retry_at", nullable=True),
    primary("image_processing_stages", "scope_id", "job_id", "stage"),
    refers("image_processing_stages", "job_id", "image_processing_jobs"),
    check("image_processing_stages", "stage", f"stage {one_of(Stage)}"),
    check("image_processing_stages", "status", f"status {one_of(JobStatus)}"),
    check("image_processing_stages", "task", "status <> 'running' OR task_id IS NOT NULL"),
    *diagnosis_checks("image_processing_stages"),
    postgresql_with={"fillfactor": 70},
)

tasks: Final = Table(
    "tasks",
    METADATA,
    key("scope_id"),
    uuid("task_id"),
    key("task_type"),
    Column("status", Text, nullable=False),
    uuid("job_id", nullable=True),
    uuid("meme_id", nullable=True),
    key("image_sha256", nullable=True),
    key("config_fingerprint", nullable=True),
    key("reverse_image_policy", nullable=True),
    uuid("grant_id", nullable=True),
    *lease_columns(),
    time("available_at"),
    Column("failures", Integer, nullable=False),
    Column("lease_losses", Integer, nullable=False),
    time("created_at"),
    time("started_at", nullable=True),
    time("completed_at", nullable=True),
    *diagnosis_columns(),
    primary("tasks", "scope_id", "task_id"),
    check("tasks", "task_type", f"task_type {one_of(TaskType)}"),
    check("tasks", "status", f"status {one_of(TaskStatus)}"),
    check("tasks", "policy", f"reverse_image_policy {one_of(ReverseImagePolicy)}"),
    check(
        "tasks",
        "target",
        "num_nonnulls(job_id, meme_id, image_sha256, config_fingerprint, reverse_image_policy) ="
        f" CASE WHEN task_type IN ({_IMAGE_TYPES}) THEN 5 ELSE 0 END",
    ),
    check("tasks", "running", f"(status = '{TaskStatus.RUNNING}') = (lease_owner IS NOT NULL)"),
    check("tasks", "terminal", f"({TASK_IS_LIVE}) = (completed_at IS NULL)"),
    check("tasks", "failed", f"status <> '{TaskStatus.FAILED}' OR error_code IS NOT NULL"),
    check("tasks", "grant", f"(task_type = '{TaskType.CONTEXT}') = (grant_id IS NOT NULL)"),
    check("tasks", "counters", "failures >= 0 AND lease_losses >= 0"),
    sha256_check("tasks", "image_sha256"),
    *lease_checks("tasks"),
    *diagnosis_checks("tasks"),
    index(
        "tasks",
        "active_leaf",
        "scope_id",
        "meme_id",
        "image_sha256",
        "task_type",
        "config_fingerprint",
        "reverse_image_policy",
        where=f"{TASK_IS_LIVE} AND meme_id IS NOT NULL",
        unique=True,
    ),
    *(
        index(
            "tasks",
            f"queued_{kind.name.lower()}",
            "scope_id",
            "available_at",
            "task_id",
            where=f"status = '{TaskStatus.QUEUED}' AND task_type = '{kind}'",
        )
        for kind in TaskType
    ),
    index("tasks", "running", "scope_id", "task_id", where=f"status = '{TaskStatus.RUNNING}'"),
    index("tasks", "failed", "scope_id", "task_id", where=f"status = '{TaskStatus.FAILED}'"),
    index("tasks", "maintenance", "scope_id", "task_id", where=f"task_type = '{TaskType.CACHE}'"),
    index("tasks", "unknown", "scope_id", "task_id", where=f"error_code = '{ErrorCode.UNKNOWN_EXECUTION}'"),
    postgresql_with={**_LIVELY, "fillfactor": 50},
)

task_attempts: Final = Table(
    "task_attempts",
    METADATA,
    key("scope_id"),
    uuid("task_id"),
    Column("attempt_no", Integer, nullable=False),
    key("attempt_id"),
    Column("request_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("input_digest", Text, nullable=False),
    time("created_at"),
    time("external_started_at", nullable=True),
    time("hard_deadline_at", nullable=True),
    time("completed_at", nullable=True),
    *diagnosis_columns(),
    primary("task_attempts", "scope_id", "task_id", "attempt_no"),
    aside("task_attempts", "attempt", "scope_id", "attempt_id", where="attempt_no >= 1"),
    refers("task_attempts", "task_id", "tasks"),
    check("task_attempts", "attempt_no", "attempt_no >= 1"),
    check("task_attempts", "generation", "generation >= 0"),
    check("task_attempts", "status", f"status {one_of(AttemptStatus)}"),
    check("task_attempts", "terminal", f"(status {one_of(attempt.LIVE)}) = (completed_at IS NULL)"),
    check("task_attempts", "deadline", "(external_started_at IS NULL) = (hard_deadline_at IS NULL)"),
    sha256_check("task_attempts", "input_digest"),
    *diagnosis_checks("task_attempts"),
    postgresql_with={"fillfactor": 50},
)

operation_grants: Final = Table(
    "operation_grants",
    METADATA,
    key("scope_id"),
    uuid("grant_id"),
    key("operation"),
    key("logical_request_key"),
    Column("fingerprint", Text, nullable=False),
    Column("reservation", Text, nullable=False),
    uuid("task_id"),
    uuid("job_id"),
    Column("status", Text, nullable=False),
    time("created_at"),
    time("updated_at"),
    primary("operation_grants", "scope_id", "grant_id"),
    aside(
        "operation_grants", "request", "scope_id", "operation", "logical_request_key", where="length(fingerprint) > 0"
    ),
    check("operation_grants", "fingerprint", "length(fingerprint) > 0"),
    check("operation_grants", "operation", f"operation {one_of(Operation)}"),
    check("operation_grants", "status", f"status {one_of(grant.EDGES)}"),
    postgresql_with={"fillfactor": 60},
)

grant_releases: Final = Table(
    "grant_releases",
    METADATA,
    key("scope_id"),
    key("operation"),
    key("logical_request_key"),
    Column("reservation", Text),
    time("created_at"),
    time("done_at", nullable=True),
    primary("grant_releases", "scope_id", "operation", "logical_request_key"),
    belongs_to_scope("grant_releases"),
    check("grant_releases", "operation", f"operation {one_of(Operation)}"),
    index(
        "grant_releases",
        "pending",
        "scope_id",
        "created_at",
        "operation",
        "logical_request_key",
        where="done_at IS NULL",
    ),
)

lane_slots: Final = Table(
    "lane_slots",
    METADATA,
    key("lane"),
    Column("number", Integer, nullable=False),
    key("scope_id", nullable=True),
    uuid("task_id", nullable=True),
    Column("generation", Integer),
    time("free_at", nullable=True),
    Column("surplus", Boolean, nullable=False),
    primary("lane_slots", "lane", "number"),
    check("lane_slots", "lane", f"lane {one_of(Lane)}"),
    check("lane_slots", "number", "number >= 1"),
    check("lane_slots", "holder", "num_nonnulls(scope_id, task_id, generation) IN (0, 3)"),
    postgresql_with={"fillfactor": 50},
)

# One row a claim at most: what came back after the claim was gone. It is read by people alone.
late_results: Final = Table(
    "late_results",
    METADATA,
    key("scope_id"),
    uuid("task_id"),
    key("attempt_id"),
    Column("generation", Integer, nullable=False),
    Column("fence", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    *diagnosis_columns(),
    time("noted_at"),
    primary("late_results", "scope_id", "task_id", "attempt_id", "generation"),
    refers("late_results", "task_id", "tasks"),
    check("late_results", "fence", f"fence {one_of(Fence)}"),
    check("late_results", "outcome", f"outcome {one_of(outcome.Kind)}"),
    *diagnosis_checks("late_results"),
)

execution_resolutions: Final = Table(
    "execution_resolutions",
    METADATA,
    key("scope_id"),
    uuid("task_id"),
    key("attempt_id"),
    Column("reason", Text, nullable=False),
    Column("owner_dead", Boolean, nullable=False),
    Column("call_over", Boolean, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("resolved_by", Text, nullable=False),
    time("resolved_at"),
    primary("execution_resolutions", "scope_id", "task_id", "attempt_id"),
    refers("execution_resolutions", "task_id", "tasks"),
    check("execution_resolutions", "reason", "length(reason) BETWEEN 1 AND 500"),
    check("execution_resolutions", "evidence", "length(evidence) <= 4000"),
    check("execution_resolutions", "resolved_by", "length(resolved_by) BETWEEN 1 AND 200"),
)

processing_configuration: Final = Table(
    "processing_configuration",
    METADATA,
    Column("id", Integer, nullable=False, autoincrement=False),
    Column("fingerprint", Text, nullable=False),
    Column("configuration", Text, nullable=False),
    time("announced_at"),
    time("alive_until"),
    primary("processing_configuration", "id"),
    check("processing_configuration", "one", "id = 1"),
)
