"""Late results, unknown executions, and their resolutions: written seldom, and read by people alone."""

from collections.abc import Collection, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Ints, Texts, Times, Uuids
from imgproc_adapters.postgres.rows import ATTEMPT, attempt_of
from imgproc_adapters.postgres.session import Session, statement
from imgproc_domain.attempt import Attempt
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.outcome import Kind
from imgproc_domain.ports.evidence import LateResult, Resolution, Resolved, UnknownPage
from imgproc_domain.stage import Lane

_NOTE: Final = statement(
    """
    INSERT INTO late_results (scope_id, task_id, attempt_id, generation, fence, outcome, error_code, error_message,
        noted_at)
    SELECT %(scope)s, n.* FROM unnest(%(task_id)s, %(attempt_id)s, %(generation)s, %(fence)s, %(outcome)s,
        %(error_code)s, %(error_message)s, %(noted_at)s) AS n
    ON CONFLICT (scope_id, task_id, attempt_id, generation) DO NOTHING
    """
)
_LATE: Final = statement(
    """
    SELECT task_id, attempt_id, generation, fence, outcome, error_code, error_message, noted_at FROM late_results
    WHERE scope_id = %(scope)s AND task_id = ANY (%(ids)s)
    ORDER BY noted_at, task_id, attempt_id, generation
    """
)
_ATTEMPTS: Final = statement(
    """
    SELECT {attempt} FROM task_attempts a
    WHERE a.scope_id = %(scope)s AND a.task_id = %(task_id)s ORDER BY a.attempt_no
    """,
    attempt=ATTEMPT,
)

# A lane has a handful of rows, so this reads all of them.
_SLOTS: Final = statement(
    """
    SELECT lane, number, scope_id, task_id, generation, free_at FROM lane_slots
    WHERE scope_id = %(scope)s AND task_id = ANY (%(ids)s) ORDER BY lane, number
    """
)

# ix_tasks_unknown, backwards: the literal code is what makes it usable. A task ends with its unknown attempt.
_UNKNOWN: Final = """
    SELECT {attempt} FROM tasks t
    JOIN task_attempts a ON a.scope_id = t.scope_id AND a.task_id = t.task_id AND a.status = 'unknown_execution'
    WHERE t.scope_id = %(scope)s AND t.error_code = 'unknown_execution'
      AND (%(after)s::uuid IS NULL OR t.task_id < %(after)s) {by_resolution}
    ORDER BY t.task_id DESC, a.attempt_no DESC LIMIT %(limit)s
    """
_RESOLVED: Final = (
    "EXISTS (SELECT FROM execution_resolutions r WHERE r.scope_id = a.scope_id AND r.task_id = a.task_id"
    " AND r.attempt_id = a.attempt_id)"
)
_UNKNOWN_BY_RESOLUTION: Final = {
    None: statement(_UNKNOWN, attempt=ATTEMPT, by_resolution=""),
    True: statement(_UNKNOWN, attempt=ATTEMPT, by_resolution=f"AND {_RESOLVED}"),
    False: statement(_UNKNOWN, attempt=ATTEMPT, by_resolution=f"AND NOT {_RESOLVED}"),
}

_RESOLVE: Final = statement(
    """
    INSERT INTO execution_resolutions (scope_id, task_id, attempt_id, reason, owner_dead, call_over, evidence,
        resolved_by, resolved_at)
    VALUES (%(scope)s, %(task_id)s, %(attempt_id)s, %(reason)s, %(owner_dead)s, %(call_over)s, %(evidence)s,
        %(resolved_by)s, %(resolved_at)s)
    ON CONFLICT (scope_id, task_id, attempt_id) DO NOTHING
    """
)
_RESOLUTIONS: Final = statement(
    """
    SELECT task_id, attempt_id, reason, evidence, owner_dead, call_over, resolved_by, resolved_at
    FROM execution_resolutions
    WHERE scope_id = %(scope)s AND task_id = ANY (%(ids)s)
    ORDER BY resolved_at, task_id, attempt_id
    """
)


class PostgresEvidence:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def note(self, late: Sequence[LateResult]) -> None:
        if late:
            await self._session.run(
                _NOTE,
                task_id=Uuids(row.task_id for row in late),
                attempt_id=Texts(row.attempt_id for row in late),
                generation=Ints(row.generation for row in late),
                fence=Texts(row.fence for row in late),
                outcome=Texts(row.outcome for row in late),
                error_code=Texts(row.error.code if row.error else None for row in late),
                error_message=Texts(row.error.message if row.error else None for row in late),
                noted_at=Times(row.noted_at for row in late),
            )

    async def late_results(self, task_ids: Collection[TaskId]) -> Sequence[LateResult]:
        scope = self._session.scope
        rows = await self._session.rows(_LATE, ids=Uuids(set(task_ids))) if task_ids else ()
        return [
            LateResult(
                scope=scope,
                task_id=row[0],
                attempt_id=row[1],
                generation=row[2],
                fence=Fence(row[3]),
                outcome=Kind(row[4]),
                error=None if row[5] is None else Diagnosis(ErrorCode(row[5]), row[6]),
                noted_at=row[7],
            )
            for row in rows
        ]

    async def attempts(self, task_id: TaskId) -> Sequence[Attempt]:
        return [attempt_of(self._session.scope, row) for row in await self._session.rows(_ATTEMPTS, task_id=task_id)]

    async def slots(self, task_ids: Collection[TaskId]) -> Sequence[Slot]:
        rows = await self._session.rows(_SLOTS, ids=Uuids(set(task_ids))) if task_ids else ()
        return [Slot(Lane(row[0]), *row[1:]) for row in rows]

    async def unknown(self, after: TaskId | None, limit: int, *, resolved: bool | None = None) -> UnknownPage:
        rows = await self._session.rows(_UNKNOWN_BY_RESOLUTION[resolved], after=after, limit=limit + 1)
        attempts = tuple(attempt_of(self._session.scope, row) for row in rows[:limit])
        return UnknownPage(attempts, attempts[-1].task_id if len(rows) > limit else None)

    async def resolve(self, resolved: Resolved) -> bool:
        assert resolved.scope == self._session.scope, "I1: a transaction writes one scope"
        found = resolved.resolution
        written = await self._session.run(
            _RESOLVE,
            task_id=resolved.task_id,
            attempt_id=resolved.attempt_id,
            reason=found.reason,
            owner_dead=found.owner_dead,
            call_over=found.call_over,
            evidence=found.evidence,
            resolved_by=found.resolved_by,
            resolved_at=resolved.resolved_at,
        )
        return written == 1

    async def resolutions(self, task_ids: Collection[TaskId]) -> Sequence[Resolved]:
        rows = await self._session.rows(_RESOLUTIONS, ids=Uuids(set(task_ids))) if task_ids else ()
        return [Resolved(self._session.scope, row[0], row[1], Resolution(*row[2:7]), row[7]) for row in rows]
