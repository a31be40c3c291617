"""Jobs with their stages, and tasks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from imgproc_domain.ids import JobId, MemeId, Sha256, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus


@frozen
class PictureVersion:
    """What an agent is asked about: one picture of one meme under one policy, whatever the configuration."""

    meme_id: MemeId
    image_sha256: Sha256
    policy: ReverseImagePolicy

    @classmethod
    def of(cls, job: Job) -> "PictureVersion":
        return cls(job.meme_id, job.image_sha256, job.reverse_image_policy)


@frozen
class JobPage:
    """Jobs, newest first; ``after`` is the cursor of the next page, None at the end."""

    jobs: tuple[Job, ...]
    after: JobId | None


@frozen
class TaskPage:
    """Tasks, newest first; ``after`` is the cursor of the next page, None at the end."""

    tasks: tuple[Task, ...]
    after: TaskId | None


class JobStore(Protocol):
    async def add(self, jobs: Sequence[Job]) -> None:
        """Insert jobs with their stages.

        Raises `Conflict`, as the transaction ends at the latest, if a meme has that revision, or an active job.
        """
        ...

    async def get(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Return jobs with their stages; unknown and foreign ids are missing."""
        ...

    async def lock(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """Lock jobs in id order and return them. Their memes must be locked already."""
        ...

    async def newest(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, Job]:
        """Return the job with the highest revision of each meme; memes without one are missing."""
        ...

    async def newest_of(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Job]:
        """Return the job with the highest revision of each picture version; those without one are missing."""
        ...

    async def active(self, meme_ids: Collection[MemeId]) -> Mapping[MemeId, JobId]:
        """Return the id of each meme's one active job; memes without one are missing."""
        ...

    async def live(self, ids: Collection[JobId]) -> Collection[JobId]:
        """Return which of these jobs are live."""
        ...

    async def save(self, jobs: Sequence[Job]) -> None:
        """Write status, due time, lease, error, times and every stage of jobs that this transaction has locked."""
        ...

    async def page(
        self, after: JobId | None, limit: int, status: JobStatus | None = None, stage: Stage | None = None
    ) -> JobPage:
        """Return jobs, newest first, of this status and with this current stage where given. Keyset paging by id."""
        ...

    async def counts(self) -> Mapping[JobStatus, int]:
        """Count the newest job of each live meme by status."""
        ...


class TaskStore(Protocol):
    async def add(self, tasks: Sequence[Task]) -> None:
        """Insert tasks, queued or claimed at once.

        Raises `Conflict`, as the transaction ends at the latest, if one of the same target, type and policy is active
        (I2).
        """
        ...

    async def get(self, ids: Collection[TaskId]) -> Mapping[TaskId, Task]:
        """Return tasks; unknown and foreign ids are missing."""
        ...

    async def busy(self, meme_ids: Collection[MemeId]) -> Sequence[Task]:
        """Return the live leaf tasks of these memes."""
        ...

    async def last_agents(self, versions: Collection[PictureVersion]) -> Mapping[PictureVersion, Task]:
        """Return the agent task of the highest revision of each picture version that has one, live or not."""
        ...

    async def page(
        self,
        after: TaskId | None,
        limit: int,
        task_type: TaskType | None = None,
        status: TaskStatus | None = None,
    ) -> TaskPage:
        """Return tasks, newest first, of this type and status where given. Keyset paging by id."""
        ...
