"""Follow jobs until they end, and have a worker where nobody else works."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from attrs import Factory, define, frozen

from imgproc_app.lifecycle import Runtime, working
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ids import JobId, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.scope import Scope
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.deployment import Deployment

_LOOKED_AT: Final = 256
_TASKS_LOOKED_AT: Final = 50
_PATIENCE: Final = 2.0

_REPLACED: Final = frozenset({ErrorCode.CONFIGURATION_CHANGED, ErrorCode.TARGET_CHANGED})


@frozen
class Followed:
    """A job under the name that a person knows its picture by."""

    name: str
    job: Job


@define
class JobFollower:
    """Looks at the oldest unfinished jobs first, a bounded number at a time: they end in about that order."""

    deployment: Deployment
    scope: Scope
    _open: dict[JobId, str] = Factory(dict)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, name: str, job_id: JobId) -> None:
        self._open[job_id] = name

    async def look(self) -> Sequence[Followed]:
        """Return the oldest open jobs as they are now; those that have ended are forgotten.

        A job that was closed in favour of a newer revision is followed there. A database
        that does not answer shows nothing new.
        """
        ids = [job_id for job_id, _ in zip(self._open, range(_LOOKED_AT), strict=False)]
        if not ids:
            return ()
        try:
            jobs, newest = await self._read(ids)
        except DatabaseUnavailable:
            return ()
        seen = [Followed(self._open[job_id], jobs[job_id]) for job_id in ids if job_id in jobs]
        ended = [job_id for job_id in ids if job_id not in jobs or not jobs[job_id].live]
        for job_id in ended:
            name = self._open.pop(job_id)
            if job_id in newest:
                self._open[newest[job_id].job_id] = name
        if not ended:
            # these wait for something: the others have their turn now
            for job_id in ids:
                self._open[job_id] = self._open.pop(job_id)
        return [followed for followed in seen if followed.job.job_id not in newest]

    async def _read(self, ids: Sequence[JobId]) -> tuple[Mapping[JobId, Job], Mapping[JobId, Job]]:
        """Return the jobs, and the successor of each that was closed in favour of one."""
        async with self.deployment.uow.begin(self.scope) as tx:
            jobs = await tx.jobs.get(ids)
            replaced = [job for job in jobs.values() if job.error is not None and job.error.code in _REPLACED]
            newest = await tx.jobs.newest({job.meme_id for job in replaced}) if replaced else {}
        later = {job.job_id: newest[job.meme_id] for job in replaced if job.meme_id in newest}
        return jobs, {job_id: job for job_id, job in later.items() if job.job_id != job_id}


class SpareWorker:
    """A worker of this process that starts only once nobody else seems to work.

    Claims would keep two apart, but models of a second process cost memory that a running service already spends.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stack = AsyncExitStack()
        self._started = False
        self._idle_since: float | None = None

    async def __aenter__(self) -> Self:
        if self._runtime.alone:
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def consider(self) -> None:
        """Start if no task of the scope has been running for two seconds. Called while something waits."""
        if self._started:
            return
        now = asyncio.get_running_loop().time()
        if await self._somebody_works():
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > _PATIENCE:
            await self._start()

    async def _start(self) -> None:
        await self._stack.enter_async_context(working(self._runtime))
        self._started = True

    async def _somebody_works(self) -> bool:
        try:
            return bool(await running_tasks(self._runtime))
        except DatabaseUnavailable:
            return True


async def running_tasks(runtime: Runtime) -> frozenset[TaskId]:
    """Return the newest tasks of the scope that somebody works on: under a lease that has not run out."""
    async with runtime.deployment.uow.begin(runtime.scope) as tx:
        now = await tx.now()
        page = await tx.tasks.page(None, _TASKS_LOOKED_AT, status=TaskStatus.RUNNING)
    return frozenset(t.task_id for t in page.tasks if t.lease.expires_at is not None and t.lease.expires_at > now)


def failure_of(job: Job) -> tuple[str, str, str]:
    """Return stage, code and message of a job that did not succeed."""
    stage = job.current_stage
    code = job.error.code.value if job.error else job.status.value
    return stage.value if stage else "", code, job.error.message if job.error else ""


def succeeded(job: Job) -> bool:
    return job.status is JobStatus.SUCCEEDED
