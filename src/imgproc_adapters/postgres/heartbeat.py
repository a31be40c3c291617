"""Renewal of leases from a thread of its own, which neither a blocked event loop nor a busy pool can delay."""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

import psycopg

from imgproc_adapters.postgres.arrays import ADAPTERS, Ints, Texts, Uuids
from imgproc_adapters.postgres.conninfo import Limits, parameters
from imgproc_adapters.postgres.errors import translate
from imgproc_adapters.postgres.session import Row, statement
from imgproc_domain.claim import Claim
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.scope import Scope

_LIMITS: Final = Limits(connect=5, statement=5.0, idle_in_transaction=5.0, dead_peer=5.0)
"""A renewal that takes longer is worth less than a new one on a new connection."""

# pk_tasks. A row that is locked at this moment is being settled or expired: waiting for it would delay the renewal of
# all others, so it is skipped and counts as current until its transaction has decided. No index knows the lease, so
# the update stays heap-only.
_RENEW: Final = statement(
    """
    WITH claims AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s, %(owners)s, %(generations)s) AS n (task_id, owner, generation)
    ), current AS MATERIALIZED (
        SELECT t.task_id, t.lease_owner AS owner, t.claim_generation AS generation
        FROM tasks t JOIN claims c ON c.task_id = t.task_id
        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s) AND t.status = 'running'
          AND t.lease_owner = c.owner AND t.claim_generation = c.generation
          AND t.lease_expires_at > statement_timestamp()
    ), locked AS MATERIALIZED (
        SELECT t.task_id FROM tasks t JOIN claims c ON c.task_id = t.task_id
        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s) AND t.status = 'running'
          AND t.lease_owner = c.owner AND t.claim_generation = c.generation
          AND t.lease_expires_at > statement_timestamp()
        FOR NO KEY UPDATE OF t SKIP LOCKED
    ), renewed AS (
        UPDATE tasks t SET lease_expires_at = statement_timestamp() + %(lease)s::interval
        WHERE t.scope_id = %(scope)s AND t.task_id = ANY (ARRAY(SELECT task_id FROM locked))
    )
    SELECT task_id, owner, generation FROM claims EXCEPT SELECT task_id, owner, generation FROM current
    """
)


class PostgresHeartbeat:
    """One connection, opened when it is first needed and again after every error. Safe to use from several threads."""

    def __init__(self, dsn: str, *, pooler: bool = False) -> None:
        self._parameters = parameters(dsn, _LIMITS, pooler=pooler)
        self._connection: psycopg.Connection[Row] | None = None
        self._guard = threading.Lock()

    def renew(self, claims: Collection[Claim], lease: timedelta) -> Collection[Claim]:
        by_scope: dict[Scope, list[Claim]] = defaultdict(list)
        for claim in claims:
            by_scope[claim.scope].append(claim)
        with self._guard:
            return [claim for scope, ours in by_scope.items() for claim in self._renew(scope, ours, lease)]

    def close(self) -> None:
        with self._guard:
            self._drop()

    def _renew(self, scope: Scope, claims: list[Claim], lease: timedelta) -> list[Claim]:
        values = {
            "scope": scope,
            "ids": Uuids(claim.task_id for claim in claims),
            "owners": Texts(claim.owner for claim in claims),
            "generations": Ints(claim.generation for claim in claims),
            "lease": lease,
        }
        stale = set(self._rows(values))
        return [claim for claim in claims if (claim.task_id, claim.owner, claim.generation) in stale]

    def _rows(self, values: Mapping[str, object]) -> Sequence[Row]:
        """Renewing twice does no harm, so an old connection that has ended meanwhile is worth a second try."""
        had_one = self._connection is not None
        try:
            return self._open().execute(_RENEW, values, binary=True).fetchall()
        except psycopg.Error as error:
            ended = self._connection is not None and self._connection.closed
            self._drop()
            if had_one and ended:
                return self._rows(values)
            raise DatabaseUnavailable(f"the leases could not be renewed: {translate(error)}") from error

    def _open(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            self._connection = psycopg.connect(autocommit=True, context=ADAPTERS, **self._parameters)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
