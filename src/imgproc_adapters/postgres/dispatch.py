"""Which scopes have work: scans that touch one index entry a scope, however much is queued or finished."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.arrays import Texts
from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Row, Sql, statement
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType

_BEFORE_ALL: Final = ""
"""Sorts before every scope."""
_BEHIND_ALL: Final = "~"
"""Sorts behind every scope: no scope has a character above ``z``."""

_HOP: Final = """
    SELECT n.scope_id, n.ready, h.found + n.ready::int
    FROM {hop} h CROSS JOIN LATERAL (
        SELECT t.scope_id, ({ready}) AS ready FROM {table} t
        WHERE {live} AND t.scope_id > h.scope_id AND t.scope_id <= {until}
        ORDER BY {order} LIMIT 1
    ) n
    WHERE h.found < %(limit)s
"""


def _hop(table: str, live: str, order: str, ready: str) -> Sql:
    """Hop along a partial index from scope to scope, reading the first entry of each, until enough are ready.

    First the scopes behind ``after``; if those are too few, the ones up to it. Ordering by the whole index leaves the
    planner no other one to choose, whatever its statistics say.
    """
    parts = {"table": table, "live": live, "order": order, "ready": ready}
    return statement(
        """
        WITH RECURSIVE behind (scope_id, ready, found) AS (
            SELECT %(after)s::text COLLATE "C", false, 0 UNION ALL {behind}
        ), before (scope_id, ready, found) AS (
            SELECT ''::text COLLATE "C", false, (SELECT count(*)::int FROM behind WHERE ready) UNION ALL {before}
        )
        SELECT scope_id FROM (
            SELECT 1 AS turn, scope_id FROM behind WHERE ready UNION ALL SELECT 2, scope_id FROM before WHERE ready
        ) AS found
        ORDER BY turn, scope_id
        """,
        behind=_HOP.format(hop="behind", until=f"'{_BEHIND_ALL}'", **parts),
        before=_HOP.format(hop="before", until="%(after)s", **parts),
    )


# ix_tasks_queued_<type>: the first entry of a scope is its oldest, so it says whether any is claimable.
_READY: Final = {
    task_type: _hop(
        "tasks",
        f"t.status = 'queued' AND t.task_type = '{task_type}'",
        "t.scope_id, t.available_at, t.task_id",
        "t.available_at <= statement_timestamp()",
    )
    for task_type in TaskType
}

# ix_image_processing_jobs_due: the first entries of a scope may be held, so they are looked past.
_DUE: Final = _hop(
    "image_processing_jobs",
    "t.due_at IS NOT NULL",
    "t.scope_id, t.due_at, t.job_id",
    """EXISTS (
        SELECT FROM image_processing_jobs j
        WHERE j.scope_id = t.scope_id AND j.due_at IS NOT NULL AND j.due_at <= statement_timestamp()
          AND (j.lease_expires_at IS NULL OR j.lease_expires_at <= statement_timestamp())
        ORDER BY j.due_at, j.job_id LIMIT 1
    )""",
)

# ix_tasks_running: no more entries than there are workers' places.
_EXPIRED: Final = _hop(
    "tasks",
    "t.status = 'running'",
    "t.scope_id, t.task_id",
    """EXISTS (
        SELECT FROM tasks r
        WHERE r.scope_id = t.scope_id AND r.status = 'running' AND r.task_type = ANY (%(types)s)
          AND r.lease_expires_at <= statement_timestamp()
        ORDER BY r.task_id LIMIT 1
    )""",
)

# ix_grant_releases_pending
_RELEASES: Final = _hop(
    "grant_releases",
    "t.done_at IS NULL",
    "t.scope_id, t.created_at, t.operation, t.logical_request_key",
    "true",
)

# ix_tasks_queued_<type>, from its beginning; the order is there to name the index.
_QUEUED: Final = {
    task_type: statement(
        """
        SELECT count(*) FROM (
            SELECT FROM tasks WHERE status = 'queued' AND task_type = '{task_type}'
            ORDER BY scope_id, available_at, task_id LIMIT %(limit)s
        ) AS queued
        """,
        task_type=task_type.value,
    )
    for task_type in TaskType
}


class PostgresDispatch:
    """Raises `DatabaseUnavailable` if the database does not answer."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def ready_scopes(self, task_type: TaskType, after: Scope | None, limit: int) -> Sequence[Scope]:
        return await self._around(_READY[task_type], after, limit)

    async def due_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        return await self._around(_DUE, after, limit)

    async def expired_scopes(
        self, task_types: Collection[TaskType], after: Scope | None, limit: int
    ) -> Sequence[Scope]:
        return await self._around(_EXPIRED, after, limit, types=Texts(task_types))

    async def release_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        return await self._around(_RELEASES, after, limit)

    async def queued(self, task_type: TaskType, at_most: int) -> int:
        ((count,),) = await self._rows(_QUEUED[task_type], limit=at_most)
        return int(count)

    async def _around(self, sql: Sql, after: Scope | None, limit: int, **params: object) -> Sequence[Scope]:
        rows = await self._rows(sql, after=after or _BEFORE_ALL, limit=limit, **params)
        return [Scope(scope) for (scope,) in rows]

    async def _rows(self, sql: Sql, **params: object) -> Sequence[Row]:
        async with checked_out(self._engine, autocommit=True) as connection:
            with translated():
                return await (await connection.execute(sql, params, binary=True)).fetchall()
