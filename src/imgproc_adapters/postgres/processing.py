"""Jobs with their stages, and tasks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Texts, Uuids
from imgproc_adapters.postgres.changes import Table, save
from imgproc_adapters.postgres.claims import LOCK_JOBS
from imgproc_adapters.postgres.inserts import insert
from imgproc_adapters.postgres.processing_sql import (
    ACTIVE,
    BUSY,
    COUNTS,
    JOBS,
    LAST_AGENTS,
    LIVE_JOBS,
    NEWEST,
    NEWEST_OF,
    SAVE_JOBS,
    TASKS,
    job_page,
    task_page,
)
from imgproc_adapters.postgres.rows import (
    JOB_COLUMNS,
    job_identity,
    job_state,
    stage_arrays,
    task_identity,
    task_of,
    task_state,
)
from imgproc_adapters.postgres.session import Session, Sql
from imgproc_adapters.postgres.stages import by_id, changed_stages, save_stages, with_stages
from imgproc_domain.ids import JobId, MemeId, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.ports.processing import JobPage, PictureVersion, TaskPage
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

_JOBS: Final = Table("job", "image_processing_jobs", "job_id", JOB_COLUMNS, SAVE_JOBS, job_state)


class PostgresJobs:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, jobs: Sequence[Job]) -> None:
        if jobs:
            stages = stage_arrays([(job.job_id, state) for job in jobs for state in job.stages])
            self._session.later(insert("image_processing_jobs", "job_id", job_identity(jobs) | job_state(jobs)))
            self._session.later(insert("image_processing_stages", "job_id", stages))

    async def get(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self._jobs(JOBS, ids)

    async def lock(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return await self._jobs(LOCK_JOBS, ids)

    async def newest(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, Job]:
        rows = await self._session.rows(NEWEST, ids=Uuids(set(meme_ids))) if meme_ids else ()
        return {job.meme_id: job for job in await with_stages(self._session, rows)}

    async def newest_of(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Job]:
        rows = await self._session.rows(NEWEST_OF, **_arrays(versions)) if versions else ()
        return {PictureVersion.of(job): job for job in await with_stages(self._session, rows)}

    async def active(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, JobId]:
        rows = await self._session.rows(ACTIVE, ids=Uuids(set(meme_ids))) if meme_ids else ()
        return dict(rows)

    async def live(self, ids: Collection[JobId]) -> Collection[JobId]:
        rows = await self._session.rows(LIVE_JOBS, ids=Uuids(set(ids))) if ids else ()
        return {job_id for (job_id,) in rows}

    async def save(self, jobs: Sequence[Job]) -> None:
        session, changed = self._session, changed_stages(self._session, jobs)
        await session.together(save(session, _JOBS, session.read.jobs, jobs), save_stages(session, changed))

    async def page(
        self, after: JobId | None, limit: int, status: JobStatus | None = None, stage: Stage | None = None
    ) -> JobPage:
        rows = await self._session.rows(job_page(status, stage), after=after, limit=limit + 1)
        jobs = await with_stages(self._session, rows[:limit])
        return JobPage(tuple(jobs), jobs[-1].job_id if len(rows) > limit else None)

    async def counts(self) -> Mapping[JobStatus, int]:
        return {JobStatus(status): count for status, count in await self._session.rows(COUNTS)}

    async def _jobs(self, sql: Sql, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        return {job.job_id: job for job in await by_id(self._session, sql, ids)}


class PostgresTasks:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, tasks: Sequence[Task]) -> None:
        if tasks:
            self._session.later(insert("tasks", "task_id", task_identity(tasks) | task_state(tasks)))

    async def get(self, ids: Collection[TaskId]) -> Mapping[TaskId, Task]:
        rows = await self._session.rows(TASKS, ids=Uuids(set(ids))) if ids else ()
        return {task.task_id: task for task in (task_of(self._session.scope, row) for row in rows)}

    async def busy(self, meme_ids: Collection[MemeId]) -> Sequence[Task]:
        rows = await self._session.rows(BUSY, ids=Uuids(set(meme_ids))) if meme_ids else ()
        return [task_of(self._session.scope, row) for row in rows]

    async def last_agents(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Task]:
        rows = await self._session.rows(LAST_AGENTS, **_arrays(versions)) if versions else ()
        return {_version(task): task for task in (task_of(self._session.scope, row) for row in rows)}

    async def page(
        self,
        after: TaskId | None,
        limit: int,
        task_type: TaskType | None = None,
        status: TaskStatus | None = None,
    ) -> TaskPage:
        rows = await self._session.rows(task_page(task_type, status), after=after, limit=limit + 1)
        tasks = tuple(task_of(self._session.scope, row) for row in rows[:limit])
        return TaskPage(tasks, tasks[-1].task_id if len(rows) > limit else None)


def _arrays(versions: Collection[PictureVersion]) -> dict[str, object]:
    wanted = list(set(versions))
    return {
        "ids": Uuids(version.meme_id for version in wanted),
        "image_sha256": Texts(version.image_sha256.hex for version in wanted),
        "reverse_image_policy": Texts(version.policy for version in wanted),
    }


def _version(task: Task) -> PictureVersion:
    assert task.target is not None, "an agent's task has its target"
    return PictureVersion(task.target.meme_id, task.target.image_sha256, task.target.reverse_image_policy)
