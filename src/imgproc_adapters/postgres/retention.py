"""History: what is known of it, and its end."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from imgproc_adapters.postgres import retention_sql as sql
from imgproc_adapters.postgres.arrays import Texts, Uuids
from imgproc_adapters.postgres.rows import meme_of
from imgproc_adapters.postgres.session import Row, Session, Sql, statement
from imgproc_domain.ids import GenerationId, JobId, MemeId, TaskId
from imgproc_domain.policy import Operation
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

Id = TypeVar("Id", bound=UUID)

_FIRST: Final = UUID(int=0)
"""Sorts before every id."""


def _rows(condition: str, *tables: tuple[Kind, str]) -> Mapping[Kind, tuple[Sql, Sql]]:
    """Return how to count and how to delete the rows of tables that ``condition`` is true of."""
    return {
        kind: (
            statement(f"SELECT count(*) FROM {table} WHERE scope_id = %(scope)s AND {condition}"),  # noqa: S608 - our own names
            statement(f"DELETE FROM {table} WHERE scope_id = %(scope)s AND {condition}"),  # noqa: S608 - our own names
        )
        for kind, table in tables
    }


# children first, and a grant before the task that names it
_OF_TASKS: Final = {
    **_rows(
        "task_id = ANY (%(ids)s)",
        (Kind.LATE_RESULTS, "late_results"),
        (Kind.RESOLUTIONS, "execution_resolutions"),
        (Kind.ATTEMPTS, "task_attempts"),
    ),
    **_rows(
        "grant_id = ANY (ARRAY(SELECT grant_id FROM tasks WHERE scope_id = %(scope)s AND task_id = ANY (%(ids)s)))",
        (Kind.GRANTS, "operation_grants"),
    ),
    **_rows("task_id = ANY (%(ids)s)", (Kind.TASKS, "tasks")),
}
_OF_JOBS: Final = _rows("job_id = ANY (%(ids)s)", (Kind.JOBS, "image_processing_jobs"))
_OF_MEMES: Final = {
    **_rows(
        "generation_id = ANY (ARRAY(SELECT generation_id FROM cache_generations WHERE scope_id = %(scope)s))"
        " AND meme_id = ANY (%(ids)s)",
        (Kind.GENERATION_ENTRIES, "cache_generation_entries"),
    ),
    **_rows(
        "meme_id = ANY (%(ids)s)", (Kind.VISUAL_VECTORS, "visual_embeddings"), (Kind.TEXT_VECTORS, "text_embeddings")
    ),
}
# uq_cache_generations_task
_GENERATIONS: Final = _rows("task_id = ANY (%(ids)s)", (Kind.GENERATIONS, "cache_generations"))

_DELETE_STAGES: Final = statement(
    "DELETE FROM image_processing_stages WHERE scope_id = %(scope)s AND job_id = ANY (%(ids)s)"
)
_DELETE_CONTEXTS: Final = statement("DELETE FROM meme_contexts WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s)")
_DELETE_MEMES: Final = statement("DELETE FROM memes WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s)")


class PostgresRetention:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def jobs(self, after: JobId | None, limit: int) -> JobHistory:
        page, behind = await self._page(sql.JOBS_BEHIND, after, limit)
        return JobHistory(tuple(await self._job_facts(page)), behind)

    async def lock_jobs(self, ids: Collection[JobId]) -> Sequence[JobFacts]:
        free = await self._with_locked_tasks(ids)
        return await self._job_facts([job_id for (job_id,) in await self._ids(sql.LOCK_JOBS, free)])

    async def weigh_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        return {**await self._count(_OF_TASKS, await self._tasks_of(ids)), **await self._count(_OF_JOBS, ids)}

    async def delete_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        counts = await self._delete(_OF_TASKS, await self._tasks_of(ids))
        await self._session.run(_DELETE_STAGES, ids=Uuids(ids))
        return {**counts, **await self._delete(_OF_JOBS, ids)}

    async def deleted_memes(self, after: MemeId | None, limit: int) -> MemeHistory:
        page, behind = await self._page(sql.MEMES_BEHIND, after, limit)
        return MemeHistory(tuple(await self._meme_facts(page)), behind)

    async def lock_memes(self, ids: Collection[MemeId]) -> Sequence[MemeFacts]:
        jobs = await self._jobs_of(ids)
        free = await self._with_locked_tasks(jobs)
        memes = {meme_id for (meme_id,) in await self._ids(sql.LOCK_MEMES, ids)}
        locked = {job_id for (job_id,) in await self._ids(sql.LOCK_JOBS, [j for j in free if jobs[j] in memes])}
        held = {meme_id for job_id, meme_id in jobs.items() if job_id not in locked}
        return await self._meme_facts(memes - held)

    async def weigh_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        return {**await self.weigh_jobs(await self._jobs_of(ids)), **await self._count(_OF_MEMES, ids)}

    async def strip_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        counts = await self.delete_jobs(await self._jobs_of(ids))
        # a deleted meme has no row in search_vectors: its deletion has seen to that
        await self._session.run(_DELETE_CONTEXTS, ids=Uuids(ids))
        return {**counts, **await self._delete(_OF_MEMES, ids)}

    async def delete_memes(self, ids: Collection[MemeId]) -> None:
        if ids:
            await self._session.run(_DELETE_MEMES, ids=Uuids(ids))

    async def maintenance(self, after: TaskId | None, limit: int) -> MaintenanceHistory:
        page, behind = await self._page(sql.MAINTENANCE_BEHIND, after, limit)
        return MaintenanceHistory(tuple(await self._maintenance_facts(page)), behind)

    async def lock_maintenance(self, ids: Collection[TaskId]) -> Sequence[MaintenanceFacts]:
        return await self._maintenance_facts([task_id for (task_id,) in await self._ids(sql.LOCK_TASKS, ids)])

    async def entries(self, generation_id: GenerationId) -> int:
        ((count,),) = await self._session.rows(sql.ENTRIES, id=generation_id)
        return int(count)

    async def delete_entries(self, generation_id: GenerationId, limit: int) -> int:
        return await self._session.run(sql.DELETE_ENTRIES, id=generation_id, limit=limit)

    async def delete_maintenance(self, ids: Collection[TaskId]) -> Mapping[Kind, int]:
        return {**await self._delete(_GENERATIONS, ids), **await self._delete(_OF_TASKS, ids)}

    async def tombstones(self, after: RequestKey | None, limit: int) -> KeyHistory:
        return await self._keys(sql.TOMBSTONES_BEHIND, after, limit)

    async def delete_tombstones(self, keys: Collection[RequestKey]) -> Mapping[Kind, int]:
        return {Kind.TOMBSTONES: await self._session.run(sql.DELETE_TOMBSTONES, **_key_arrays(keys))}

    async def reservations(self, after: RequestKey | None, limit: int) -> KeyHistory:
        return await self._keys(sql.RESERVATIONS_BEHIND, after, limit)

    async def delete_reservations(self, keys: Collection[RequestKey], before: datetime) -> Mapping[Kind, int]:
        deleted = await self._session.run(sql.DELETE_RESERVATIONS, **_key_arrays(keys), before=before)
        return {Kind.RESERVATIONS: deleted}

    async def delete_vectors(self, visual: Collection[VisualKey], text: Collection[TextKey]) -> Mapping[Kind, int]:
        seen = await self._session.run(
            sql.DELETE_VISUAL,
            ids=Uuids(key[0] for key in visual),
            image_sha256=Texts(key[1].hex for key in visual),
            space_id=Texts(key[2] for key in visual),
        )
        keys = {
            "ids": Uuids(key[0] for key in text),
            "image_sha256": Texts(key[1].hex for key in text),
            "metadata_hash": Texts(key[2].hex for key in text),
            "space_id": Texts(key[3] for key in text),
        }
        if text:
            await self._session.run(sql.DELETE_FINDABLE, **keys)
        read = await self._session.run(sql.DELETE_TEXT, **keys)
        return {Kind.VISUAL_VECTORS: seen, Kind.TEXT_VECTORS: read}

    async def _page(self, found: Sql, after: Id | None, limit: int) -> tuple[list[Id], Id | None]:
        rows = await self._session.rows(found, after=after or _FIRST, limit=limit + 1)
        page: list[Id] = [row[0] for row in rows[:limit]]
        return page, page[-1] if len(rows) > limit else None

    async def _keys(self, found: Sql, after: RequestKey | None, limit: int) -> KeyHistory:
        operation, key = after or ("", "")
        rows = await self._session.rows(found, operation=operation, key=key, limit=limit + 1)
        keys = tuple(KeyFacts(Operation(row[0]), *row[1:]) for row in rows[:limit])
        last = keys[-1] if len(rows) > limit else None
        return KeyHistory(keys, (last.operation, last.logical_request_key) if last else None)

    async def _ids(self, found: Sql, ids: Collection[UUID]) -> Sequence[Row]:
        return await self._session.rows(found, ids=Uuids(ids)) if ids else ()

    async def _tasks_of(self, jobs: Collection[JobId]) -> dict[TaskId, JobId]:
        return dict(await self._ids(sql.TASKS_OF_JOBS, jobs))

    async def _jobs_of(self, memes: Collection[MemeId]) -> dict[JobId, MemeId]:
        return dict(await self._ids(sql.JOBS_OF_MEMES, memes))

    async def _with_locked_tasks(self, jobs: Collection[JobId]) -> list[JobId]:
        """Lock the tasks of jobs and return the jobs of which nobody else held one."""
        tasks = await self._tasks_of(jobs)
        locked = {task_id for (task_id,) in await self._ids(sql.LOCK_TASKS, tasks)}
        held = {job_id for task_id, job_id in tasks.items() if task_id not in locked}
        return [job_id for job_id in jobs if job_id not in held]

    async def _job_facts(self, ids: Collection[JobId]) -> list[JobFacts]:
        tasks: defaultdict[JobId, list[TaskFacts]] = defaultdict(list)
        for *facts, job_id in await self._ids(sql.TASK_FACTS, ids):
            tasks[job_id].append(TaskFacts(*facts))
        return [
            JobFacts(job_id, ended, newest, last_agent, releasing, tuple(tasks[job_id]))
            for job_id, ended, newest, last_agent, releasing in await self._ids(sql.JOB_FACTS, ids)
        ]

    async def _meme_facts(self, ids: Collection[MemeId]) -> list[MemeFacts]:
        of_meme = await self._jobs_of(ids)
        jobs: defaultdict[MemeId, list[JobFacts]] = defaultdict(list)
        for facts in await self._job_facts(of_meme):
            jobs[of_meme[facts.job_id]].append(facts)
        memes = [meme_of(self._session.scope, row) for row in await self._ids(sql.DELETED_MEMES, ids)]
        return [MemeFacts(meme, tuple(jobs[meme.meme_id])) for meme in memes]

    async def _maintenance_facts(self, ids: Collection[TaskId]) -> list[MaintenanceFacts]:
        rows = await self._ids(sql.MAINTENANCE_FACTS, ids)
        return [MaintenanceFacts(TaskFacts(*row[:-3]), *row[-3:]) for row in rows]

    async def _count(self, kinds: Mapping[Kind, tuple[Sql, Sql]], ids: Collection[UUID]) -> dict[Kind, int]:
        return {kind: (await self._session.rows(count, ids=Uuids(ids)))[0][0] for kind, (count, _) in kinds.items()}

    async def _delete(self, kinds: Mapping[Kind, tuple[Sql, Sql]], ids: Collection[UUID]) -> dict[Kind, int]:
        return {kind: await self._session.run(delete, ids=Uuids(ids)) for kind, (_, delete) in kinds.items()}


def _key_arrays(keys: Collection[RequestKey]) -> dict[str, Texts]:
    return {"operation": Texts(operation for operation, _ in keys), "key": Texts(key for _, key in keys)}
