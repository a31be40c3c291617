"""Leases over tasks and over jobs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from imgproc_adapters.memory.schema import JOBS, TASKS
from imgproc_adapters.memory.session import Session
from imgproc_domain import task as tasks
from imgproc_domain.claim import Claim, JobClaim, take, why_not_current
from imgproc_domain.ids import JobId, TaskId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task, TaskStatus

_WRITABLE: Final = (
    "status",
    "lease",
    "failures",
    "lease_losses",
    "available_at",
    "started_at",
    "completed_at",
    "error",
    "grant_id",
)


def is_claimable(task: Task, task_type: TaskType, now: datetime) -> bool:
    return task.task_type is task_type and task.status is TaskStatus.QUEUED and task.available_at <= now


def has_expired(task: Task, task_types: Collection[TaskType], now: datetime) -> bool:
    end = task.lease.expires_at
    return task.task_type in task_types and task.status is TaskStatus.RUNNING and end is not None and end <= now


def is_due(job: Job, now: datetime) -> bool:
    """Whether the job is live, its time has come and nobody holds it."""
    end = job.lease.expires_at
    return job.live and job.due_at is not None and job.due_at <= now and (end is None or end <= now)


@frozen
class MemoryClaims:
    _session: Session

    async def claim(self, task_type: TaskType, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Task]:
        now = self._session.now()
        ready = [task for task in self._session.rows(TASKS) if is_claimable(task, task_type, now)]
        claimed: list[Task] = []
        for task in sorted(ready, key=lambda task: (task.available_at, task.task_id)):
            if len(claimed) >= limit:
                break
            if self._session.try_lock(TASKS, task):
                after = tasks.claim(task, owner, now, lease)
                await self._session.update(TASKS, after)
                claimed.append(after)
        return claimed

    async def lock(self, claims: Collection[Claim]) -> Mapping[TaskId, Task]:
        ours = {claim.task_id for claim in claims if claim.scope == self._session.scope}
        return await self._session.lock(TASKS, sorted(ours))

    async def lock_expired(self, task_types: Collection[TaskType], limit: int) -> Sequence[Task]:
        now = self._session.now()
        expired = [task for task in self._session.rows(TASKS) if has_expired(task, task_types, now)]
        locked: list[Task] = []
        for task in sorted(expired, key=lambda task: task.task_id):
            if len(locked) < limit and self._session.try_lock(TASKS, task):
                locked.append(task)
        return locked

    async def save(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            old = self._session.get(TASKS, task.task_id)
            if old is None:
                raise self._session.conflict("a task to be written is gone")
            written = {name: getattr(task, name) for name in _WRITABLE}
            await self._session.update(TASKS, evolve(old, **written))


@frozen
class MemoryJobClaims:
    _session: Session

    async def claim_due(self, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Job]:
        now = self._session.now()
        due = [job for job in self._session.rows(JOBS) if is_due(job, now)]
        claimed: list[Job] = []
        for job in sorted(due, key=lambda job: (job.due_at, job.job_id)):
            if len(claimed) >= limit:
                break
            if self._session.try_lock(JOBS, job):
                after = evolve(job, lease=take(job.lease, owner, now + lease))
                await self._session.update(JOBS, after)
                claimed.append(after)
        return claimed

    async def lock(self, claims: Collection[JobClaim]) -> Mapping[JobId, Job]:
        by_id = {claim.job_id: claim for claim in claims if claim.scope == self._session.scope}
        locked = await self._session.lock(JOBS, sorted(by_id))
        now = self._session.now()
        return {key: job for key, job in locked.items() if why_not_current(job.lease, by_id[key], now) is None}
