"""History: what is known of it, and its end."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from attrs import frozen

from imgproc_adapters.memory.schema import (
    ATTEMPTS,
    CONTEXTS,
    ENTRIES,
    FINDABLE,
    GENERATIONS,
    GRANTS,
    JOBS,
    LATE_RESULTS,
    MEMES,
    RELEASES,
    RESOLUTIONS,
    SLOTS,
    TASKS,
    TEXT,
    VISUAL,
)
from imgproc_adapters.memory.session import Session
from imgproc_adapters.memory.table import K, Table, V
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.ids import GenerationId, JobId, MemeId, TaskId
from imgproc_domain.job import Job
from imgproc_domain.ports.execution import Release
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.retention import (
    JobHistory,
    KeyHistory,
    MaintenanceHistory,
    MemeHistory,
    RequestKey,
    TextKey,
    VisualKey,
)
from imgproc_domain.retention import JobFacts, KeyFacts, Kind, MaintenanceFacts, MemeFacts, TaskFacts
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import Task

Id = TypeVar("Id", bound=UUID)
Doomed = dict[Kind, tuple[Table[Any, Any], Collection[Any]]]

_OF_TASKS: Final[Mapping[Kind, Table[Any, Any]]] = {
    Kind.LATE_RESULTS: LATE_RESULTS,
    Kind.RESOLUTIONS: RESOLUTIONS,
    Kind.ATTEMPTS: ATTEMPTS,
    Kind.GRANTS: GRANTS,
    Kind.TASKS: TASKS,
}


def _ahead(keys: Iterable[Id], after: Id | None, limit: int) -> tuple[list[Id], Id | None]:
    """Return the page of keys, lowest first, that follows ``after``, and the cursor of the next page."""
    following = sorted(key for key in keys if after is None or key > after)
    page = following[:limit]
    return page, page[-1] if len(following) > limit else None


@frozen
class MemoryRetention:
    _session: Session

    async def jobs(self, after: JobId | None, limit: int) -> JobHistory:
        page, behind = _ahead((job.job_id for job in self._session.rows(JOBS)), after, limit)
        return JobHistory(tuple(self._job_facts(page)), behind)

    async def lock_jobs(self, ids: Collection[JobId]) -> Sequence[JobFacts]:
        free = {job_id for job_id in ids if self._lock_all(TASKS, self._tasks_of([job_id]))}
        locked = [job for job in self._some(JOBS, sorted(free)) if self._session.try_lock(JOBS, job)]
        return self._job_facts([job.job_id for job in locked])

    async def weigh_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        return {kind: len(keys) for kind, (_, keys) in self._of_jobs(ids).items()}

    async def delete_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        doomed = self._of_jobs(ids)
        for table, keys in doomed.values():
            await self._delete(table, keys)
        return {kind: len(keys) for kind, (_, keys) in doomed.items()}

    async def deleted_memes(self, after: MemeId | None, limit: int) -> MemeHistory:
        deleted = (meme.meme_id for meme in self._session.rows(MEMES) if not meme.exists)
        page, behind = _ahead(deleted, after, limit)
        return MemeHistory(tuple(self._meme_facts(page)), behind)

    async def lock_memes(self, ids: Collection[MemeId]) -> Sequence[MemeFacts]:
        free = []
        for meme in self._some(MEMES, sorted(ids)):
            jobs = self._jobs_of([meme.meme_id])
            tasks = self._tasks_of([job.job_id for job in jobs])
            locked = self._lock_all(TASKS, tasks) and self._session.try_lock(MEMES, meme)
            if locked and self._lock_all(JOBS, jobs):
                free.append(meme.meme_id)
        return self._meme_facts(free)

    async def weigh_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        products = {kind: len(keys) for kind, (_, keys) in self._of_memes(ids).items()}
        return {**await self.weigh_jobs(self._job_ids(ids)), **products}

    async def strip_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        counts = await self.delete_jobs(self._job_ids(ids))
        doomed = self._of_memes(ids)
        for table, keys in doomed.values():
            await self._delete(table, keys)
        wanted = set(ids)
        await self._delete(CONTEXTS, self._session.pick(CONTEXTS, wanted))
        found = [(row.space_id, row.meme_id) for row in self._session.rows(FINDABLE) if row.meme_id in wanted]
        await self._delete(FINDABLE, found)
        return {**counts, **{kind: len(keys) for kind, (_, keys) in doomed.items()}}

    async def delete_memes(self, ids: Collection[MemeId]) -> None:
        await self._delete(MEMES, ids)

    async def maintenance(self, after: TaskId | None, limit: int) -> MaintenanceHistory:
        kept = (task.task_id for task in self._session.rows(TASKS) if task.task_type is TaskType.CACHE)
        page, behind = _ahead(kept, after, limit)
        return MaintenanceHistory(tuple(self._maintenance_facts(page)), behind)

    async def lock_maintenance(self, ids: Collection[TaskId]) -> Sequence[MaintenanceFacts]:
        locked = [task for task in self._some(TASKS, sorted(ids)) if self._session.try_lock(TASKS, task)]
        return self._maintenance_facts([task.task_id for task in locked])

    async def entries(self, generation_id: GenerationId) -> int:
        return sum(row.generation_id == generation_id for row in self._session.rows(ENTRIES))

    async def delete_entries(self, generation_id: GenerationId, limit: int) -> int:
        rows = [row for row in self._session.rows(ENTRIES) if row.generation_id == generation_id][:limit]
        await self._delete(ENTRIES, [(row.generation_id, row.product.meme_id) for row in rows])
        return len(rows)

    async def delete_maintenance(self, ids: Collection[TaskId]) -> Mapping[Kind, int]:
        wanted = set(ids)
        generations = [row.generation_id for row in self._session.rows(GENERATIONS) if row.task_id in wanted]
        await self._delete(GENERATIONS, generations)
        counts = await self._delete_tasks(wanted)
        return {**counts, Kind.GENERATIONS: len(generations)}

    async def tombstones(self, after: RequestKey | None, limit: int) -> KeyHistory:
        rows = sorted(self._session.rows(RELEASES), key=_key_of)
        following = [row for row in rows if after is None or _key_of(row) > after]
        page = following[:limit]
        facts = tuple(
            KeyFacts(row.operation, row.logical_request_key, row.done_at, self._in_use(_key_of(row))) for row in page
        )
        return KeyHistory(facts, _key_of(page[-1]) if len(following) > limit else None)

    async def delete_tombstones(self, keys: Collection[RequestKey]) -> Mapping[Kind, int]:
        done = [key for key, row in self._session.pick(RELEASES, keys).items() if row.done_at is not None]
        await self._delete(RELEASES, done)
        return {Kind.TOMBSTONES: len(done)}

    async def reservations(self, after: RequestKey | None, limit: int) -> KeyHistory:  # noqa: ARG002 - the port's signature
        return KeyHistory((), None)

    async def delete_reservations(self, keys: Collection[RequestKey], before: datetime) -> Mapping[Kind, int]:  # noqa: ARG002 - the port's signature
        return {}

    async def delete_vectors(self, visual: Collection[VisualKey], text: Collection[TextKey]) -> Mapping[Kind, int]:
        seen, read = self._session.pick(VISUAL, visual), self._session.pick(TEXT, text)
        found = self._session.pick(FINDABLE, [(product.space_id, product.meme_id) for product in read.values()])
        # found by the deleted vectors themselves, not by later ones of the same space
        await self._delete(FINDABLE, [key for key, row in found.items() if TEXT.key(row.product) in read])
        await self._delete(VISUAL, seen)
        await self._delete(TEXT, read)
        return {Kind.VISUAL_VECTORS: len(seen), Kind.TEXT_VECTORS: len(read)}

    async def _delete_tasks(self, ids: Collection[TaskId]) -> Mapping[Kind, int]:
        doomed = self._of_tasks(ids)
        for table, keys in doomed.values():
            await self._delete(table, keys)
        return {kind: len(keys) for kind, (_, keys) in doomed.items()}

    async def _delete(self, table: Table[K, V], keys: Iterable[K]) -> None:
        for key in list(keys):
            await self._session.delete(table, key)

    def _some(self, table: Table[K, V], keys: Iterable[K]) -> list[V]:
        return list(self._session.pick(table, keys).values())

    def _lock_all(self, table: Table[K, V], rows: Sequence[V]) -> bool:
        return all(self._session.try_lock(table, row) for row in rows)

    def _jobs_of(self, meme_ids: Collection[MemeId]) -> list[Job]:
        wanted = set(meme_ids)
        return sorted((job for job in self._session.rows(JOBS) if job.meme_id in wanted), key=lambda job: job.job_id)

    def _job_ids(self, meme_ids: Collection[MemeId]) -> list[JobId]:
        return [job.job_id for job in self._jobs_of(meme_ids)]

    def _tasks_of(self, job_ids: Collection[JobId]) -> list[Task]:
        wanted = set(job_ids)
        found = (task for task in self._session.rows(TASKS) if task.target and task.target.job_id in wanted)
        return sorted(found, key=lambda task: task.task_id)

    def _of_jobs(self, ids: Collection[JobId]) -> Doomed:
        tasks = [task.task_id for task in self._tasks_of(ids)]
        return {**self._of_tasks(tasks), Kind.JOBS: (JOBS, list(self._session.pick(JOBS, ids)))}

    def _of_tasks(self, ids: Collection[TaskId]) -> Doomed:
        wanted = set(ids)
        return {
            kind: (table, [table.key(row) for row in self._session.rows(table) if row.task_id in wanted])
            for kind, table in _OF_TASKS.items()
        }

    def _of_memes(self, ids: Collection[MemeId]) -> Doomed:
        wanted = set(ids)
        entries = (row for row in self._session.rows(ENTRIES) if row.product.meme_id in wanted)
        return {
            Kind.GENERATION_ENTRIES: (ENTRIES, [ENTRIES.key(row) for row in entries]),
            Kind.VISUAL_VECTORS: (
                VISUAL,
                [VISUAL.key(row) for row in self._session.rows(VISUAL) if row.meme_id in wanted],
            ),
            Kind.TEXT_VECTORS: (TEXT, [TEXT.key(row) for row in self._session.rows(TEXT) if row.meme_id in wanted]),
        }

    def _job_facts(self, ids: Sequence[JobId]) -> list[JobFacts]:
        targets: dict[PictureVersion, list[Job]] = {}
        for job in sorted(self._session.rows(JOBS), key=lambda job: job.revision):
            targets.setdefault(PictureVersion.of(job), []).append(job)
        facts = []
        for job in self._some(JOBS, ids):
            same = targets[PictureVersion.of(job)]
            asked = [other.job_id for other in same if other.stage(Stage.AGENT).task_id is not None]
            facts.append(
                JobFacts(
                    job_id=job.job_id,
                    completed_at=job.completed_at,
                    newest=same[-1].job_id == job.job_id,
                    last_agent=bool(asked) and asked[-1] == job.job_id,
                    releasing=any(release.logical_request_key == _agent_key(job.job_id) for release in self._pending()),
                    tasks=tuple(self._task_facts(task) for task in self._tasks_of([job.job_id])),
                )
            )
        return facts

    def _task_facts(self, task: Task) -> TaskFacts:
        attempts = [row for row in self._session.rows(ATTEMPTS) if row.task_id == task.task_id]
        unknown = [(a.task_id, a.attempt_id) for a in attempts if a.status is AttemptStatus.UNKNOWN]
        context = self._session.get(CONTEXTS, task.target.meme_id) if task.target else None
        maker = context.provenance.attempt_id if context and context.provenance else None
        keys = {row.logical_request_key for row in self._session.rows(GRANTS) if row.task_id == task.task_id}
        return TaskFacts(
            task_id=task.task_id,
            completed_at=task.completed_at,
            in_slot=any((s.scope, s.task_id) == (task.scope, task.task_id) for s in self._session.rows(SLOTS)),
            undecided=len(self._session.pick(RESOLUTIONS, unknown)) < len(unknown),
            running_until=max((a.hard_deadline_at for a in attempts if a.hard_deadline_at), default=None),
            describes=maker is not None and maker in {a.attempt_id for a in attempts},
            releasing=any(release.logical_request_key in keys for release in self._pending()),
        )

    def _meme_facts(self, ids: Sequence[MemeId]) -> list[MemeFacts]:
        memes = (meme for meme in self._some(MEMES, ids) if not meme.exists)
        return [MemeFacts(meme, tuple(self._job_facts(self._job_ids([meme.meme_id])))) for meme in memes]

    def _maintenance_facts(self, ids: Sequence[TaskId]) -> list[MaintenanceFacts]:
        generations = {row.task_id: row for row in self._session.rows(GENERATIONS)}
        facts = []
        for task in self._some(TASKS, ids):
            own = generations.get(task.task_id)
            later = [
                row.completed_at
                for row in generations.values()
                if own and row.completed_at and row.generation_id > own.generation_id
            ]
            facts.append(
                MaintenanceFacts(
                    task=self._task_facts(task),
                    generation_id=own.generation_id if own else None,
                    complete=bool(own and own.completed_at),
                    superseded_at=min(later, default=None),
                )
            )
        return facts

    def _pending(self) -> list[Release]:
        return [release for release in self._session.rows(RELEASES) if release.done_at is None]

    def _in_use(self, key: RequestKey) -> bool:
        granted = {(row.operation, row.logical_request_key) for row in self._session.rows(GRANTS)}
        jobs = {_agent_key(row.job_id) for row in self._session.rows(JOBS)}
        return key in granted or key[1] in jobs


def _key_of(row: Release) -> RequestKey:
    return (row.operation, row.logical_request_key)


def _agent_key(job_id: JobId) -> str:
    """The key of a job's agent request: see `imgproc_domain.usecases.advance.agent_request`."""
    return f"{job_id}:{Stage.AGENT}"
