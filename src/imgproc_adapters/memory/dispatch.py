"""Scans over all scopes."""

from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from imgproc_adapters.memory.claims import has_expired, is_claimable, is_due
from imgproc_adapters.memory.clock import Clock
from imgproc_adapters.memory.schema import JOBS, RELEASES, TASKS
from imgproc_adapters.memory.store import MemoryStore
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus


@frozen
class MemoryDispatch:
    _store: MemoryStore
    _clock: Clock

    async def ready_scopes(self, task_type: TaskType, after: Scope | None, limit: int) -> Sequence[Scope]:
        now = self._clock.now()
        ready = (task.scope for task in self._store.everything(TASKS) if is_claimable(task, task_type, now))
        return _in_turn(ready, after, limit)

    async def due_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        now = self._clock.now()
        return _in_turn((job.scope for job in self._store.everything(JOBS) if is_due(job, now)), after, limit)

    async def expired_scopes(
        self, task_types: Collection[TaskType], after: Scope | None, limit: int
    ) -> Sequence[Scope]:
        now = self._clock.now()
        expired = (task.scope for task in self._store.everything(TASKS) if has_expired(task, task_types, now))
        return _in_turn(expired, after, limit)

    async def release_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        scopes = sorted(self._store.scopes)
        waiting = (
            scope for scope in scopes if any(r.done_at is None for r in self._store.rows(RELEASES, scope).values())
        )
        return _in_turn(waiting, after, limit)

    async def queued(self, task_type: TaskType, at_most: int) -> int:
        tasks = self._store.everything(TASKS)
        return min(at_most, sum(t.task_type is task_type and t.status is TaskStatus.QUEUED for t in tasks))


def _in_turn(scopes: Iterable[Scope], after: Scope | None, limit: int) -> list[Scope]:
    """Order the scopes, begin behind ``after`` and wrap around."""
    ordered = sorted(set(scopes))
    behind = [scope for scope in ordered if after is not None and scope > after]
    return (behind + [scope for scope in ordered if scope not in behind])[:limit]
