"""Quotas kept in imgproc's own database: so many units a scope, operation and period."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.policy.reservation import (
    Period,
    Quota,
    Reservation,
    Usage,
    exceeded,
    name_of,
    remembered,
)
from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Row, Sql, statement
from imgproc_domain.errors import ImgprocError
from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.scope import Scope

log = logging.getLogger(__name__)

_AT_ONCE: Final = 4
"""Connections of the pool: acquires of one scope wait for each other anyway, and the worker needs the others."""

_REGISTER: Final = statement(
    "INSERT INTO scopes (scope_id, created_at) VALUES (%(scope)s, statement_timestamp()) ON CONFLICT DO NOTHING"
)

# The scope's row stands for its sums, which have no row to lock. NO KEY, so that references to it do not wait.
_LOCK: Final = statement("SELECT FROM scopes WHERE scope_id = %(scope)s FOR NO KEY UPDATE")

_FIND: Final = statement(
    """
    SELECT fingerprint, returned_at IS NOT NULL FROM policy_reservations
    WHERE scope_id = %(scope)s AND operation = %(operation)s AND logical_request_key = %(key)s
    """
)

# ix_policy_reservations_counted, from the beginning of the period on.
_USAGE: Final = statement(
    """
    WITH own AS (
        SELECT period, units FROM policy_quotas WHERE scope_id = %(scope)s AND operation = %(operation)s
    ), quotas AS (
        SELECT period, units FROM own
        UNION ALL
        SELECT %(period)s::text, %(units)s::bigint WHERE %(period)s::text IS NOT NULL AND NOT EXISTS (SELECT FROM own)
    )
    SELECT q.period, q.units, (p.began + ('1 ' || q.period)::interval) AT TIME ZONE 'UTC', (
        SELECT coalesce(sum(r.units), 0)::bigint FROM policy_reservations r
        WHERE r.scope_id = %(scope)s AND r.operation = %(operation)s AND r.returned_at IS NULL
          AND r.acquired_at >= p.began AT TIME ZONE 'UTC'
    )
    FROM quotas q CROSS JOIN LATERAL (
        SELECT date_trunc(q.period, statement_timestamp() AT TIME ZONE 'UTC') AS began
    ) p
    """
)
_RESERVE: Final = statement(
    """
    INSERT INTO policy_reservations (scope_id, operation, logical_request_key, fingerprint, units, acquired_at)
    VALUES (%(scope)s, %(operation)s, %(key)s, %(fingerprint)s, %(units)s, statement_timestamp())
    ON CONFLICT DO NOTHING
    """
)
_COMMIT: Final = statement(
    """
    UPDATE policy_reservations SET committed_at = coalesce(committed_at, statement_timestamp())
    WHERE scope_id = %(scope)s AND operation = %(operation)s AND logical_request_key = %(key)s
      AND fingerprint = %(fingerprint)s AND returned_at IS NULL
    """
)
_RELEASE: Final = statement(
    """
    WITH registered AS (
        INSERT INTO scopes (scope_id, created_at) VALUES (%(scope)s, statement_timestamp()) ON CONFLICT DO NOTHING
    )
    INSERT INTO policy_reservations AS r (scope_id, operation, logical_request_key, units, acquired_at, returned_at)
    VALUES (%(scope)s, %(operation)s, %(key)s, 0, statement_timestamp(), statement_timestamp())
    ON CONFLICT (scope_id, operation, logical_request_key)
    DO UPDATE SET returned_at = EXCLUDED.returned_at, committed_at = NULL WHERE r.returned_at IS NULL
    """
)
_SET: Final = statement(
    """
    WITH registered AS (
        INSERT INTO scopes (scope_id, created_at) VALUES (%(scope)s, statement_timestamp()) ON CONFLICT DO NOTHING
    )
    INSERT INTO policy_quotas (scope_id, operation, period, units)
    VALUES (%(scope)s, %(operation)s, %(period)s, %(units)s)
    ON CONFLICT (scope_id, operation, period) DO UPDATE SET units = EXCLUDED.units
    """
)
_DROP: Final = statement(
    """
    DELETE FROM policy_quotas
    WHERE scope_id = %(scope)s AND operation = %(operation)s AND period = %(period)s
    """
)


class QuotaPolicy:
    """Counts what each scope reserves in a period and denies what is beyond its quota, by the database's clock.

    The quotas of a scope are rows of ``policy_quotas``, several periods of one operation holding at once; a scope
    without any for an operation has that of ``defaults``, and an operation without either is not limited. A new quota
    holds from the next request on. Denials are not remembered, so that a key denied today may be granted tomorrow;
    everything else is, released keys included.

    The sum over the present period is taken anew for every request, under the lock of the scope's row: nothing can
    drift, and of two requests for the last unit one is denied. It costs some milliseconds per 10,000 reservations.
    """

    def __init__(self, engine: AsyncEngine, defaults: Mapping[Operation, Quota] | None = None) -> None:
        self._engine = engine
        self._defaults = dict(defaults or {})
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:
        try:
            async with self._places, checked_out(self._engine, autocommit=True) as connection:
                with translated():
                    return exceeded(1, await self._usages(connection, scope, operation))
        except (ImgprocError, psycopg.Error) as error:
            return _unavailable(error)

    async def acquire(self, request: OperationRequest) -> Decision:
        if request.units < 1:
            return Denied(DenialReason.FORBIDDEN, "a request is for one unit or more")
        try:
            async with self._places, checked_out(self._engine) as connection:
                with translated():
                    async with connection.transaction():
                        return await self._decide(connection, request)
        except (ImgprocError, psycopg.Error) as error:
            return _unavailable(error)

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        if reservation != name_of(request):
            return Denied(DenialReason.FORBIDDEN, "the reservation belongs to another request")
        try:
            spent = await self._run(_COMMIT, _parameters(request))
        except (ImgprocError, psycopg.Error) as error:
            return _unavailable(error)
        return Granted(reservation) if spent else Denied(DenialReason.FORBIDDEN, "nothing is reserved for this request")

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        try:
            await self._run(_RELEASE, {"scope": scope, "operation": operation, "key": logical_request_key})
        except (ImgprocError, psycopg.Error) as error:
            _unavailable(error)
            return False
        return True

    async def set_quota(self, scope: Scope, operation: Operation, quota: Quota) -> None:
        """Give a scope this quota, in place of its former one of the same period.

        Raises `DatabaseUnavailable`.
        """
        values = {"scope": scope, "operation": operation, "period": quota.period, "units": quota.units}
        await self._run(_SET, values)

    async def drop_quota(self, scope: Scope, operation: Operation, period: Period) -> None:
        """Take a scope's quota of a period away; without any other one the default holds again.

        Raises `DatabaseUnavailable`.
        """
        await self._run(_DROP, {"scope": scope, "operation": operation, "period": period})

    async def _decide(self, connection: AsyncConnection[Row], request: OperationRequest) -> Decision:
        values = _parameters(request)
        await connection.execute(_REGISTER, values)
        await connection.execute(_LOCK, values)
        known = await _find(connection, values)
        if known is not None:
            return remembered(request, known)
        denied = exceeded(request.units, await self._usages(connection, request.scope, request.operation))
        if denied is not None:
            return denied
        if (await connection.execute(_RESERVE, values)).rowcount == 1:
            return Granted(name_of(request))
        # a release takes no lock: its tombstone came between
        known = await _find(connection, values)
        assert known is not None, "reservations are never deleted"
        return remembered(request, known)

    async def _usages(self, connection: AsyncConnection[Row], scope: Scope, operation: Operation) -> Sequence[Usage]:
        default = self._defaults.get(operation)
        values = {
            "scope": scope,
            "operation": operation,
            "period": default.period if default else None,
            "units": default.units if default else None,
        }
        rows = await (await connection.execute(_USAGE, values, binary=True)).fetchall()
        return [Usage(Quota(units, Period(period)), used, ends.astimezone(UTC)) for period, units, ends, used in rows]

    async def _run(self, sql: Sql, values: Mapping[str, Any]) -> int:
        async with self._places, checked_out(self._engine, autocommit=True) as connection:
            with translated():
                return (await connection.execute(sql, values)).rowcount


async def _find(connection: AsyncConnection[Row], values: Mapping[str, Any]) -> Reservation | None:
    row = await (await connection.execute(_FIND, values, binary=True)).fetchone()
    return Reservation(*row) if row else None


def _parameters(request: OperationRequest) -> Mapping[str, Any]:
    return {
        "scope": request.scope,
        "operation": request.operation,
        "key": request.logical_request_key,
        "fingerprint": request.fingerprint,
        "units": request.units,
    }


def _unavailable(error: Exception) -> Denied:
    log.warning("the quota policy failed: %s", error)
    return Denied(DenialReason.UNAVAILABLE, "the quotas cannot be read at the moment")
