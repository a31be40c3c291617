"""One revision of processing one meme, and the stages it walks through."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.claim import UNCLAIMED, JobClaim, Lease
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import JobId, MemeId, Sha256, TaskId
from imgproc_domain.machine import Edges, live, move
from imgproc_domain.policy import Denied
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage
from imgproc_domain.values import evolve


class JobStatus(StrEnum):
    """The statuses of a job, and of each of its stages."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown_execution"


_S = JobStatus

EDGES: Final[Edges[JobStatus]] = {
    _S.QUEUED: frozenset({_S.RUNNING, _S.SUCCEEDED, _S.FAILED, _S.BLOCKED, _S.UNKNOWN}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.BLOCKED, _S.UNKNOWN}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.BLOCKED: frozenset(),
    _S.UNKNOWN: frozenset(),
}
LIVE: Final = live(EDGES)
RETRYABLE: Final = frozenset({_S.FAILED, _S.BLOCKED, _S.UNKNOWN})


@frozen(slots=False)
class StageState:
    """One row of ``image_processing_stages``: ``queued`` until it is opened, ``running`` while its task is live.

    A queued stage with an ``error`` is not to be opened: see `withhold`.
    """

    stage: Stage
    status: JobStatus = JobStatus.QUEUED
    reused: bool = False
    task_id: TaskId | None = None
    error: Diagnosis | None = None
    retry_at: datetime | None = None


@frozen(slots=False)
class Job:
    """One row of ``image_processing_jobs`` with its three stages, in order.

    ``due_at`` is when the job wants to be reconciled next; None while it waits for its task. The lease guards the
    part of a reconcile that happens outside a transaction.
    """

    scope: Scope
    job_id: JobId
    meme_id: MemeId
    revision: int
    image_sha256: Sha256
    reverse_image_policy: ReverseImagePolicy
    config_fingerprint: str
    status: JobStatus
    stages: tuple[StageState, ...]
    created_at: datetime
    updated_at: datetime
    due_at: datetime | None
    lease: Lease = UNCLAIMED
    completed_at: datetime | None = None
    error: Diagnosis | None = None
    retry_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def claim(self) -> JobClaim:
        assert self.lease.owner is not None, "a job nobody holds has no claim"
        return JobClaim(self.scope, self.job_id, self.lease.owner, self.lease.generation)

    @property
    def current_stage(self) -> Stage | None:
        """The first stage that has not succeeded; None once all have."""
        return next((s.stage for s in self.stages if s.status is not JobStatus.SUCCEEDED), None)

    @property
    def progress(self) -> float:
        """The share of stages that succeeded, from 0 to 1."""
        return sum(s.status is JobStatus.SUCCEEDED for s in self.stages) / len(self.stages)

    @property
    def withheld(self) -> Diagnosis | None:
        """Why the agent must not be called for this job, whose agent stage is still to come; None if it may be."""
        state = self.stage(Stage.AGENT)
        return state.error if state.status is JobStatus.QUEUED else None

    def stage(self, stage: Stage) -> StageState:
        return self.stages[STAGES.index(stage)]


def new_stages() -> tuple[StageState, ...]:
    return tuple(StageState(stage) for stage in STAGES)


def reuse(job: Job, stages: Iterable[Stage]) -> Job:
    """Mark stages whose product was already valid as succeeded; those that ended by their own task stay as they are."""
    for stage in stages:
        if job.stage(stage).status in LIVE:
            state = job.stage(stage)
            status = move(EDGES, state.status, JobStatus.SUCCEEDED)
            job = _with(job, evolve(state, status=status, reused=True, error=None))
    return job


def withhold(job: Job, diagnosis: Diagnosis | None) -> Job:
    """Let the queued agent stage end with this diagnosis, instead of a call, when the job comes to it.

    What a person has written until then is reused all the same. None leaves the job as it is.
    """
    if diagnosis is None:
        return job
    state = job.stage(Stage.AGENT)
    assert state.status is JobStatus.QUEUED, "a stage that was opened has its call"
    return _with(job, evolve(state, error=diagnosis))


def open_stage(job: Job, stage: Stage, task_id: TaskId, now: datetime) -> Job:
    """Hand the stage to a task; the job waits for it and is no longer due."""
    state = job.stage(stage)
    opened = evolve(state, status=move(EDGES, state.status, JobStatus.RUNNING), task_id=task_id)
    status = job.status if job.status is JobStatus.RUNNING else move(EDGES, job.status, JobStatus.RUNNING)
    return evolve(job, stages=_replaced(job, opened), status=status, due_at=None, updated_at=now)


def complete_stage(job: Job, stage: Stage, now: datetime) -> Job:
    """The stage's task succeeded: the job is due at once."""
    state = job.stage(stage)
    done = evolve(state, status=move(EDGES, state.status, JobStatus.SUCCEEDED))
    return evolve(job, stages=_replaced(job, done), due_at=now, updated_at=now)


def finish(job: Job, now: datetime) -> Job:
    return _end(job, JobStatus.SUCCEEDED, None, now)


def fail_stage(job: Job, stage: Stage, diagnosis: Diagnosis, now: datetime) -> Job:
    """The stage and its job end as failed, or as unknown if that is the diagnosis."""
    unknown = diagnosis.code is ErrorCode.UNKNOWN_EXECUTION
    status = JobStatus.UNKNOWN if unknown else JobStatus.FAILED
    state = job.stage(stage)
    ended = evolve(state, status=move(EDGES, state.status, status), error=diagnosis)
    return _end(_with(job, ended), status, diagnosis, now)


def block(job: Job, stage: Stage, denied: Denied, now: datetime) -> Job:
    """The policy refused the stage's operation. Nothing wakes the job again; a person retries it."""
    diagnosis = denied.diagnosis
    state = job.stage(stage)
    status = move(EDGES, state.status, JobStatus.BLOCKED)
    blocked = evolve(state, status=status, error=diagnosis, retry_at=denied.retry_at)
    return evolve(_end(_with(job, blocked), JobStatus.BLOCKED, diagnosis, now), retry_at=denied.retry_at)


def close(job: Job, diagnosis: Diagnosis, now: datetime) -> Job:
    """End a job whose target or configuration is no longer current; its open stage ends with it."""
    stage = job.current_stage
    return fail_stage(job, stage, diagnosis, now) if stage else _end(job, JobStatus.FAILED, diagnosis, now)


def postpone(job: Job, until: datetime) -> Job:
    return evolve(job, due_at=until)


def _end(job: Job, status: JobStatus, diagnosis: Diagnosis | None, now: datetime) -> Job:
    return evolve(
        job,
        status=move(EDGES, job.status, status),
        error=diagnosis,
        due_at=None,
        lease=Lease(job.lease.generation),
        updated_at=now,
        completed_at=now,
    )


def _with(job: Job, state: StageState) -> Job:
    return evolve(job, stages=_replaced(job, state))


def _replaced(job: Job, state: StageState) -> tuple[StageState, ...]:
    place = STAGES.index(state.stage)
    return (*job.stages[:place], state, *job.stages[place + 1 :])
