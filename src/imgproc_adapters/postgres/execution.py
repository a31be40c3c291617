"""Attempts, grants, and the outbox of releases."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Texts, Times, Uuids
from imgproc_adapters.postgres.changes import Change, Table, alike, save, update
from imgproc_adapters.postgres.inserts import insert
from imgproc_adapters.postgres.rows import (
    ATTEMPT,
    ATTEMPT_COLUMNS,
    GRANT,
    GRANT_COLUMNS,
    attempt_identity,
    attempt_of,
    attempt_state,
    grant_identity,
    grant_of,
    grant_state,
)
from imgproc_adapters.postgres.session import Ask, Session, Sql, statement
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, TaskId
from imgproc_domain.policy import Operation
from imgproc_domain.ports.execution import Release

# pk_task_attempts, backwards: one entry a task.
_LAST: Final = statement(
    """
    SELECT {attempt} FROM unnest(%(ids)s) AS wanted (task_id)
    CROSS JOIN LATERAL (
        SELECT * FROM task_attempts
        WHERE scope_id = %(scope)s AND task_id = wanted.task_id ORDER BY attempt_no DESC LIMIT 1
    ) a
    """,
    attempt=ATTEMPT,
)

# pk_task_attempts; the status is the compare-and-set, so a row that somebody else moved is not written.
_SAVE_ATTEMPTS: Final = statement(
    """
    UPDATE task_attempts a
    SET status = n.status, generation = n.generation, external_started_at = n.external_started_at,
        hard_deadline_at = n.hard_deadline_at, completed_at = n.completed_at,
        error_code = n.error_code, error_message = n.error_message
    FROM unnest(%(task_id)s, %(attempt_no)s, %(attempt_id)s, %(expected)s, %(status)s, %(generation)s,
        %(external_started_at)s, %(hard_deadline_at)s, %(completed_at)s, %(error_code)s, %(error_message)s)
        AS n (task_id, attempt_no, attempt_id, expected, status, generation,
              external_started_at, hard_deadline_at, completed_at, error_code, error_message)
    WHERE a.scope_id = %(scope)s AND a.task_id = n.task_id AND a.task_id = ANY (%(task_id)s)
      AND a.attempt_no = n.attempt_no AND a.attempt_id = n.attempt_id AND a.status = n.expected
    RETURNING a.attempt_id
    """
)

# As above, for attempts that move alike: an attempt's id is its own within the scope.
_SAME_MOVE: Final = "task_id = ANY (%(ids)s) AND attempt_id = ANY (%(attempt_ids)s) AND status = %(expected)s"

# uq_operation_grants_request, one probe a key: as an array of keys it would compete with reading the whole scope.
_GRANTS_BY_KEY: Final = statement(
    """
    SELECT {grant} FROM unnest(%(keys)s) AS wanted (key)
    CROSS JOIN LATERAL (
        SELECT * FROM operation_grants
        WHERE scope_id = %(scope)s AND operation = %(operation)s AND logical_request_key = wanted.key
          AND length(fingerprint) > 0
        LIMIT 1
    ) g
    """,
    grant=GRANT,
)
_GRANTS: Final = statement(
    "SELECT {grant} FROM operation_grants g WHERE g.scope_id = %(scope)s AND g.grant_id = ANY (%(ids)s)", grant=GRANT
)
_LOCK_GRANTS: Final = statement(
    """
    SELECT {grant} FROM operation_grants g WHERE g.scope_id = %(scope)s AND g.grant_id = ANY (%(ids)s)
    ORDER BY g.grant_id FOR NO KEY UPDATE
    """,
    grant=GRANT,
)
_SAVE_GRANTS: Final = statement(
    """
    UPDATE operation_grants g SET status = n.status, updated_at = n.updated_at
    FROM unnest(%(ids)s, %(status)s, %(updated_at)s) AS n (grant_id, status, updated_at)
    WHERE g.scope_id = %(scope)s AND g.grant_id = n.grant_id AND g.grant_id = ANY (%(ids)s)
    """
)

_ADD_RELEASES: Final = statement(
    """
    INSERT INTO grant_releases (scope_id, operation, logical_request_key, reservation, created_at, done_at)
    SELECT %(scope)s, n.* FROM unnest(%(operation)s, %(key)s, %(reservation)s, %(created_at)s, %(done_at)s) AS n
    ON CONFLICT (scope_id, operation, logical_request_key) DO NOTHING
    """
)

# ix_grant_releases_pending is this order; SKIP LOCKED, so that two relays never send the same release at once.
_PENDING: Final = statement(
    """
    SELECT operation, logical_request_key, reservation, created_at FROM grant_releases
    WHERE scope_id = %(scope)s AND done_at IS NULL
    ORDER BY created_at, operation, logical_request_key LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    """
)
_FINISH: Final = statement(
    """
    UPDATE grant_releases r SET done_at = statement_timestamp()
    FROM unnest(%(operation)s, %(key)s) AS n (operation, key)
    WHERE r.scope_id = %(scope)s AND r.operation = n.operation AND r.logical_request_key = n.key
      AND r.logical_request_key = ANY (%(key)s) AND r.done_at IS NULL
    """
)
_TOMBSTONES: Final = statement(
    """
    SELECT logical_request_key FROM grant_releases
    WHERE scope_id = %(scope)s AND operation = %(operation)s AND logical_request_key = ANY (%(keys)s)
    """
)


_GRANTS_TABLE: Final = Table("grant", "operation_grants", "grant_id", GRANT_COLUMNS, _SAVE_GRANTS, grant_state)


class PostgresAttempts:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, attempts: Sequence[Attempt]) -> None:
        if attempts:
            columns = attempt_identity(attempts) | attempt_state(attempts)
            self._session.later(insert("task_attempts", "task_id", columns))

    async def last(self, task_ids: Collection[TaskId]) -> Mapping[TaskId, Attempt]:
        rows = await self._session.rows(_LAST, ids=Uuids(set(task_ids))) if task_ids else ()
        attempts = [attempt_of(self._session.scope, row) for row in rows]
        self._session.read.attempts.update((attempt.attempt_id, attempt) for attempt in attempts)
        return {attempt.task_id: attempt for attempt in attempts}

    async def save(self, changes: Sequence[tuple[AttemptStatus, Attempt]]) -> Collection[AttemptId]:
        if not changes:
            return set()
        written = await self._written(changes)
        saved = {attempt.attempt_id: attempt for _, attempt in changes}
        self._session.read.attempts.update((attempt_id, saved[attempt_id]) for attempt_id in written)
        return written

    async def _written(self, moves: Sequence[tuple[AttemptStatus, Attempt]]) -> set[AttemptId]:
        known, expected = self._session.read.attempts, {attempt.attempt_id: status for status, attempt in moves}
        pairs = ((known.get(attempt.attempt_id), attempt) for _, attempt in moves)
        groups = alike(ATTEMPT_COLUMNS, pairs, lambda attempt: expected[attempt.attempt_id])
        if groups is None or sum(len(change.rows) for change in groups) != len(moves):
            arrays = attempt_state([attempt for _, attempt in moves])
            rows = await self._session.rows(_SAVE_ATTEMPTS, expected=Texts(status for status, _ in moves), **arrays)
            return {attempt_id for (attempt_id,) in rows}
        asks = [_move(change, expected[change.rows[0].attempt_id]) for change in groups]
        return {attempt_id for rows in await self._session.rows_of(*asks) for (attempt_id,) in rows}


def _move(change: Change[Attempt], expected: AttemptStatus) -> Ask:
    which = {
        "ids": Uuids(attempt.task_id for attempt in change.rows),
        "attempt_ids": Texts(attempt.attempt_id for attempt in change.rows),
        "expected": expected,
    }
    sql = update("task_attempts", tuple(change.values), _SAME_MOVE, "RETURNING attempt_id")
    return sql, {**which, **change.values}


class PostgresGrants:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, grants: Sequence[Grant]) -> None:
        if grants:
            columns = grant_identity(grants) | grant_state(grants)
            self._session.later(insert("operation_grants", "grant_id", columns))

    async def by_key(self, operation: Operation, keys: Collection[str]) -> Mapping[str, Grant]:
        rows = await self._session.rows(_GRANTS_BY_KEY, operation=operation, keys=Texts(set(keys))) if keys else ()
        grants = (grant_of(self._session.scope, row) for row in rows)
        return {grant.logical_request_key: grant for grant in grants}

    async def get(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        return await self._grants(_GRANTS, grant_ids)

    async def lock(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        return await self._grants(_LOCK_GRANTS, grant_ids)

    async def save(self, grants: Sequence[Grant]) -> None:
        await save(self._session, _GRANTS_TABLE, self._session.read.grants, grants)

    async def _grants(self, sql: Sql, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        rows = await self._session.rows(sql, ids=Uuids(set(grant_ids))) if grant_ids else ()
        grants = [grant_of(self._session.scope, row) for row in rows]
        self._session.read.grants.update((grant.grant_id, grant) for grant in grants)
        return {grant.grant_id: grant for grant in grants}


class PostgresReleases:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, releases: Sequence[Release]) -> None:
        if releases:
            await self._session.run(
                _ADD_RELEASES,
                operation=Texts(r.operation for r in releases),
                key=Texts(r.logical_request_key for r in releases),
                reservation=Texts(r.reservation for r in releases),
                created_at=Times(r.created_at for r in releases),
                done_at=Times(r.done_at for r in releases),
            )

    async def pending(self, limit: int) -> Sequence[Release]:
        rows = await self._session.rows(_PENDING, limit=limit)
        return [Release(Operation(row[0]), row[1], row[2], row[3]) for row in rows]

    async def finish(self, keys: Collection[tuple[Operation, str]]) -> None:
        if keys:
            ordered = list(keys)
            operations, names = Texts(operation for operation, _ in ordered), Texts(key for _, key in ordered)
            await self._session.run(_FINISH, operation=operations, key=names)

    async def tombstones(self, operation: Operation, keys: Collection[str]) -> Collection[str]:
        rows = await self._session.rows(_TOMBSTONES, operation=operation, keys=Texts(keys)) if keys else ()
        return {row[0] for row in rows}
