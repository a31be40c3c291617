"""Permission from the operation policy for one logical agent task, and its state machine."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.ids import GrantId, JobId, TaskId
from imgproc_domain.machine import Edges, live, move
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.values import evolve


class GrantStatus(StrEnum):
    ACQUIRED = "acquired"
    COMMITTED = "committed"
    RELEASED = "released"
    UNKNOWN = "unknown"


EDGES: Final[Edges[GrantStatus]] = {
    GrantStatus.ACQUIRED: frozenset({GrantStatus.COMMITTED, GrantStatus.RELEASED, GrantStatus.UNKNOWN}),
    GrantStatus.COMMITTED: frozenset({GrantStatus.UNKNOWN}),
    GrantStatus.RELEASED: frozenset(),
    GrantStatus.UNKNOWN: frozenset(),
}
LIVE: Final = live(EDGES)


@frozen(slots=False)
class Grant:
    """One row of ``operation_grants``: associated with exactly one task for ever.

    ``reservation`` is the policy's own name for what it reserved; ``fingerprint`` is that of the request.
    """

    scope: Scope
    grant_id: GrantId
    operation: Operation
    logical_request_key: str
    fingerprint: str
    reservation: str
    task_id: TaskId
    job_id: JobId
    status: GrantStatus
    created_at: datetime
    updated_at: datetime


def commit(grant: Grant, now: datetime) -> Grant:
    return _move(grant, GrantStatus.COMMITTED, now)


def release(grant: Grant, now: datetime) -> Grant:
    """Only if no external call was started under it (I8): a committed grant has no such edge."""
    return _move(grant, GrantStatus.RELEASED, now)


def lose(grant: Grant, now: datetime) -> Grant:
    return _move(grant, GrantStatus.UNKNOWN, now)


def _move(grant: Grant, status: GrantStatus, now: datetime) -> Grant:
    return evolve(grant, status=move(EDGES, grant.status, status), updated_at=now)
