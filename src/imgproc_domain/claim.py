"""Who may write back, and until when. The claim generation is the fencing token."""

from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from attrs import frozen

from imgproc_domain.ids import JobId, TaskId, WorkerId
from imgproc_domain.scope import Scope


@frozen(slots=False, cache_hash=True)
class Claim:
    """The right to write back one task: travels whole, never as loose arguments."""

    scope: Scope
    task_id: TaskId
    owner: WorkerId
    generation: int


@frozen(slots=False)
class JobClaim:
    """The right to reconcile one job: the same primitive as `Claim`, over jobs."""

    scope: Scope
    job_id: JobId
    owner: WorkerId
    generation: int


@frozen(slots=False)
class Lease:
    """The claim columns of a row. Without an owner nobody holds it; the generation never falls."""

    generation: int = 0
    owner: WorkerId | None = None
    expires_at: datetime | None = None


UNCLAIMED: Final = Lease()


class Fence(StrEnum):
    """Why a write-back was rejected."""

    MISSING = "missing"
    NOT_RUNNING = "not_running"
    GENERATION = "generation"
    OWNER = "owner"
    EXPIRED = "expired"
    ATTEMPT = "attempt"
    SLOT = "slot"


class _Token(Protocol):
    @property
    def owner(self) -> WorkerId: ...
    @property
    def generation(self) -> int: ...


def why_not_current(lease: Lease, token: _Token, now: datetime) -> Fence | None:
    """Compare a lease, read under its row's lock, with a claim (I4). ``now`` is the database's, read after the lock."""
    if lease.generation != token.generation:
        return Fence.GENERATION
    if lease.owner != token.owner:
        return Fence.OWNER
    if lease.expires_at is None or lease.expires_at <= now:
        return Fence.EXPIRED
    return None


def take(lease: Lease, owner: WorkerId, expires_at: datetime) -> Lease:
    """Return the lease after a claim: every claim raises the generation by one (I3)."""
    return Lease(lease.generation + 1, owner, expires_at)


def drop(lease: Lease) -> Lease:
    """Return the lease given up by its own holder: the generation stays, nobody owns it."""
    return Lease(lease.generation)


def revoke(lease: Lease) -> Lease:
    """Return the lease taken from a holder that may still be alive: the generation rises, so that it is fenced."""
    return Lease(lease.generation + 1)
