"""Jobs with their stages, and tasks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from attrs import evolve, frozen

from imgproc_adapters.memory.schema import JOBS, MEMES, TASKS
from imgproc_adapters.memory.session import Session
from imgproc_domain.ids import JobId, MemeId, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.ports.processing import JobPage, PictureVersion, TaskPage
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

Id = TypeVar("Id", bound=UUID)
Row = TypeVar("Row")


def behind(rows: Iterable[tuple[Id, Row]], after: Id | None, limit: int) -> tuple[tuple[Row, ...], Id | None]:
    """Return the page of rows, newest id first, that follows ``after``, and the cursor of the next page."""
    following = sorted(((key, row) for key, row in rows if after is None or key < after), key=lambda p: p[0])
    page = following[::-1][:limit]
    more = len(following) > len(page)
    return tuple(row for _, row in page), page[-1][0] if page and more else None


@frozen
class MemoryJobs:
    _session: Session

    async def add(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            assert job.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.insert(JOBS, job)

    async def get(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return self._session.pick(JOBS, ids)

    async def lock(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self._session.lock(JOBS, sorted(set(ids)))

    async def newest(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, Job]:
        wanted = set(meme_ids)
        return {meme_id: job for meme_id, job in self._newest().items() if meme_id in wanted}

    async def newest_of(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Job]:
        wanted = set(versions)
        jobs = sorted(self._session.rows(JOBS), key=lambda job: job.revision)
        return {PictureVersion.of(job): job for job in jobs if PictureVersion.of(job) in wanted}

    async def active(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, JobId]:
        wanted = set(meme_ids)
        return {job.meme_id: job.job_id for job in self._session.rows(JOBS) if job.live and job.meme_id in wanted}

    async def live(self, ids: Collection[JobId]) -> Collection[JobId]:
        return {job_id for job_id, job in self._session.pick(JOBS, ids).items() if job.live}

    async def save(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            old = self._session.get(JOBS, job.job_id)
            if old is None:
                raise self._session.conflict("a job to be written is gone")
            written = evolve(
                old,
                status=job.status,
                due_at=job.due_at,
                lease=job.lease,
                error=job.error,
                retry_at=job.retry_at,
                updated_at=job.updated_at,
                completed_at=job.completed_at,
                stages=job.stages,
            )
            await self._session.update(JOBS, written)

    async def page(
        self, after: JobId | None, limit: int, status: JobStatus | None = None, stage: Stage | None = None
    ) -> JobPage:
        found = (
            (job.job_id, job)
            for job in self._session.rows(JOBS)
            if (status is None or job.status is status) and (stage is None or job.current_stage is stage)
        )
        return JobPage(*behind(found, after, limit))

    async def counts(self) -> Mapping[JobStatus, int]:
        live = {meme.meme_id for meme in self._session.rows(MEMES) if meme.exists}
        return Counter(job.status for meme_id, job in self._newest().items() if meme_id in live)

    def _newest(self) -> dict[MemeId, Job]:
        return {job.meme_id: job for job in sorted(self._session.rows(JOBS), key=lambda job: job.revision)}


@frozen
class MemoryTasks:
    _session: Session

    async def add(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            assert task.scope == self._session.scope, "I1: a transaction writes one scope"
            assert task.live, "a task begins as queued, or as running for the worker that opens it"
            await self._session.insert(TASKS, task)

    async def get(self, ids: Collection[TaskId]) -> Mapping[TaskId, Task]:
        return self._session.pick(TASKS, ids)

    async def busy(self, meme_ids: Collection[MemeId]) -> Sequence[Task]:
        wanted = set(meme_ids)
        return [t for t in self._session.rows(TASKS) if t.live and t.target is not None and t.target.meme_id in wanted]

    async def last_agents(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Task]:
        wanted = set(versions)
        jobs = sorted(self._session.rows(JOBS), key=lambda job: job.revision)
        last = {PictureVersion.of(job): task_id for job in jobs if (task_id := job.stage(Stage.AGENT).task_id)}
        tasks = self._session.pick(TASKS, last.values())
        return {version: tasks[task_id] for version, task_id in last.items() if version in wanted}

    async def page(
        self,
        after: TaskId | None,
        limit: int,
        task_type: TaskType | None = None,
        status: TaskStatus | None = None,
    ) -> TaskPage:
        found = (
            (task.task_id, task)
            for task in self._session.rows(TASKS)
            if (task_type is None or task.task_type is task_type) and (status is None or task.status is status)
        )
        return TaskPage(*behind(found, after, limit))
