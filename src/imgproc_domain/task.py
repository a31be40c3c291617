"""The leaf unit of execution and its state machine."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.claim import UNCLAIMED, Claim, Fence, Lease, drop, revoke, take, why_not_current
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import GrantId, JobId, MemeId, Sha256, TaskId, WorkerId
from imgproc_domain.machine import Edges, live, move
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.stage import LANE_OF, STAGE_OF, Lane, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.values import evolve


class TaskStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


EDGES: Final[Edges[TaskStatus]] = {
    TaskStatus.QUEUED: frozenset({TaskStatus.RUNNING, TaskStatus.FAILED}),
    TaskStatus.RUNNING: frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.QUEUED}),
    TaskStatus.SUCCEEDED: frozenset(),
    TaskStatus.FAILED: frozenset(),
}
LIVE: Final = live(EDGES)


@frozen(slots=False)
class Target:
    """Which picture version a leaf task works on, under which job. Maintenance tasks have none."""

    job_id: JobId
    meme_id: MemeId
    image_sha256: Sha256
    config_fingerprint: str
    reverse_image_policy: ReverseImagePolicy


@frozen(slots=False)
class Task:
    """One row of ``tasks``. Times are the database's; ``failures`` counts definite transient answers."""

    scope: Scope
    task_id: TaskId
    task_type: TaskType
    status: TaskStatus
    target: Target | None
    available_at: datetime
    created_at: datetime
    lease: Lease = UNCLAIMED
    grant_id: GrantId | None = None
    failures: int = 0
    lease_losses: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: Diagnosis | None = None

    @property
    def lane(self) -> Lane:
        return LANE_OF[self.task_type]

    @property
    def stage(self) -> Stage | None:
        return STAGE_OF.get(self.task_type)

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def claim(self) -> Claim:
        """The claim of the current holder; only running tasks have one."""
        assert self.lease.owner is not None, "a task nobody holds has no claim"
        return Claim(self.scope, self.task_id, self.lease.owner, self.lease.generation)


def why_fenced(task: Task | None, claim: Claim, now: datetime) -> Fence | None:
    """Return why ``claim`` may not write back ``task`` (as read under its lock), or None if it may."""
    if task is None:
        return Fence.MISSING
    if task.status is not TaskStatus.RUNNING:
        return Fence.NOT_RUNNING
    return why_not_current(task.lease, claim, now)


def claim(task: Task, owner: WorkerId, now: datetime, lease: timedelta) -> Task:
    """queued -> running under the next generation."""
    return evolve(
        task,
        status=move(EDGES, task.status, TaskStatus.RUNNING),
        lease=take(task.lease, owner, now + lease),
        started_at=task.started_at or now,
        error=None,
    )


def succeed(task: Task, now: datetime) -> Task:
    return evolve(
        task,
        status=move(EDGES, task.status, TaskStatus.SUCCEEDED),
        lease=drop(task.lease),
        completed_at=now,
        error=None,
    )


def fail(task: Task, diagnosis: Diagnosis, now: datetime) -> Task:
    return evolve(
        task,
        status=move(EDGES, task.status, TaskStatus.FAILED),
        lease=drop(task.lease),
        completed_at=now,
        error=diagnosis,
    )


def retry(task: Task, diagnosis: Diagnosis, now: datetime, policy: RetryPolicy, after: timedelta | None) -> Task:
    """running -> queued after a definite transient answer, with back-off; failed once the attempts are used up."""
    failures = task.failures + 1
    counted = evolve(task, failures=failures)
    if failures >= policy.max_attempts:
        return fail(counted, diagnosis, now)
    return _requeue(counted, drop(task.lease), now + policy.backoff(failures, after), diagnosis)


def give_back(task: Task, diagnosis: Diagnosis, now: datetime) -> Task:
    """running -> queued by the holder itself, at once and without counting against the task."""
    return _requeue(task, drop(task.lease), now, diagnosis)


def postpone(task: Task, diagnosis: Diagnosis, until: datetime) -> Task:
    """running -> queued by the holder itself: nobody can decide anything before ``until``."""
    return _requeue(task, drop(task.lease), until, diagnosis)


def expire(task: Task, now: datetime, policy: RetryPolicy) -> Task:
    """Take an expired lease away: the generation rises (I3); too many losses end the task as ``lease_exhausted``."""
    assert task.lease.expires_at is not None, "only a claimed task expires"
    assert task.lease.expires_at <= now, "the lease has not expired"
    losses = task.lease_losses + 1
    lost = evolve(task, lease_losses=losses, lease=revoke(task.lease))
    if losses >= policy.max_lease_losses:
        message = f"the worker of this task was lost {losses} times"
        return evolve(
            lost,
            status=move(EDGES, task.status, TaskStatus.FAILED),
            completed_at=now,
            error=Diagnosis(ErrorCode.LEASE_EXHAUSTED, message),
        )
    return _requeue(lost, lost.lease, now, Diagnosis(ErrorCode.LEASE_LOST, "the worker of this task was lost"))


def _requeue(task: Task, lease: Lease, available_at: datetime, diagnosis: Diagnosis) -> Task:
    return evolve(
        task,
        status=move(EDGES, task.status, TaskStatus.QUEUED),
        lease=lease,
        available_at=available_at,
        error=diagnosis,
    )
