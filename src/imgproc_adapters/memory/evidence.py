"""Late results, unknown executions, and their resolutions."""

from collections.abc import Collection, Sequence

from attrs import frozen

from imgproc_adapters.memory.processing import behind
from imgproc_adapters.memory.schema import ATTEMPTS, LATE_RESULTS, RESOLUTIONS, SLOTS
from imgproc_adapters.memory.session import Session
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.ids import TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.ports.evidence import LateResult, Resolved, UnknownPage


@frozen
class MemoryEvidence:
    _session: Session

    async def note(self, late: Sequence[LateResult]) -> None:
        for row in late:
            assert row.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.insert_absent(LATE_RESULTS, row)

    async def late_results(self, task_ids: Collection[TaskId]) -> Sequence[LateResult]:
        wanted = set(task_ids)
        found = (row for row in self._session.rows(LATE_RESULTS) if row.task_id in wanted)
        return sorted(found, key=lambda row: (row.noted_at, row.task_id, row.attempt_id, row.generation))

    async def attempts(self, task_id: TaskId) -> Sequence[Attempt]:
        found = (row for row in self._session.rows(ATTEMPTS) if row.task_id == task_id)
        return sorted(found, key=lambda row: row.attempt_no)

    async def slots(self, task_ids: Collection[TaskId]) -> Sequence[Slot]:
        wanted = set(task_ids)
        rows = self._session.rows(SLOTS)
        found = (row for row in rows if row.scope == self._session.scope and row.task_id in wanted)
        return sorted(found, key=lambda row: (row.lane, row.number))

    async def unknown(self, after: TaskId | None, limit: int, *, resolved: bool | None = None) -> UnknownPage:
        closed = {(row.task_id, row.attempt_id) for row in self._session.rows(RESOLUTIONS)}
        found = (
            (row.task_id, row)
            for row in self._session.rows(ATTEMPTS)
            if row.status is AttemptStatus.UNKNOWN
            and (resolved is None or ((row.task_id, row.attempt_id) in closed) is resolved)
        )
        return UnknownPage(*behind(found, after, limit))

    async def resolve(self, resolved: Resolved) -> bool:
        assert resolved.scope == self._session.scope, "I1: a transaction writes one scope"
        return await self._session.insert_absent(RESOLUTIONS, resolved)

    async def resolutions(self, task_ids: Collection[TaskId]) -> Sequence[Resolved]:
        wanted = set(task_ids)
        found = (row for row in self._session.rows(RESOLUTIONS) if row.task_id in wanted)
        return sorted(found, key=lambda row: (row.resolved_at, row.task_id, row.attempt_id))
