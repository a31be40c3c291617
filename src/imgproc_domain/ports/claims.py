"""The one primitive for claim, renewal, settling and expiry, over tasks and over jobs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from imgproc_domain.claim import Claim, JobClaim
from imgproc_domain.ids import JobId, TaskId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task


class ClaimStore(Protocol):
    """Leases over tasks, inside one transaction."""

    async def claim(self, task_type: TaskType, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Task]:
        """Move up to ``limit`` queued tasks of this type to ``running`` under the next generation each.

        Oldest ``available_at`` first, then id; only those whose ``available_at`` has come by the database's clock.
        Rows that another transaction holds are skipped, never waited for. Applies `task.claim`: returns the tasks as
        they are now, with ``lease.expires_at`` = database now + ``lease``.
        """
        ...

    async def lock(self, claims: Collection[Claim]) -> Mapping[TaskId, Task]:
        """Lock the tasks of these claims in id order, waiting for other holders, and return them as they are.

        Unknown tasks are missing from the result. Whether a claim is current is decided afterwards, by
        `task.why_fenced` with a `now` that is read after this returns (I4).
        """
        ...

    async def lock_expired(self, task_types: Collection[TaskType], limit: int) -> Sequence[Task]:
        """Lock up to ``limit`` running tasks of these types whose lease has expired by the database's clock.

        Rows that another transaction holds are skipped. Other types are never touched.
        """
        ...

    async def save(self, tasks: Sequence[Task]) -> None:
        """Write back tasks that this transaction has locked: status, lease, counters, times, error and grant id.

        Raises `Conflict` if a row is gone.
        """
        ...


class JobClaimStore(Protocol):
    """Leases over jobs, for the part of a reconcile that happens outside a transaction."""

    async def claim_due(self, limit: int, owner: WorkerId, lease: timedelta) -> Sequence[Job]:
        """Claim up to ``limit`` live jobs whose ``due_at`` has come and which nobody holds, oldest first.

        A job whose lease has expired counts as held by nobody. Each claim raises the job's generation; rows that
        another transaction holds are skipped.
        """
        ...

    async def lock(self, claims: Collection[JobClaim]) -> Mapping[JobId, Job]:
        """Lock the jobs of these claims in id order and return those whose claim is still current."""
        ...


class Heartbeat(Protocol):
    """Renewal of task leases, usable from a thread of its own (hence not async) and outside any transaction."""

    def renew(self, claims: Collection[Claim], lease: timedelta) -> Collection[Claim]:
        """Extend every claim that is current to database now + ``lease``; return those that are not current any more.

        The generation does not change. One statement a scope, however many claims.

        Raises:
            DatabaseUnavailable: the database did not answer; nothing is known about the claims. May be called again.
        """
        ...

    def close(self) -> None: ...


class Dispatch(Protocol):
    """Scans over all scopes, outside any transaction. What they return is a hint: claims decide."""

    async def ready_scopes(self, task_type: TaskType, after: Scope | None, limit: int) -> Sequence[Scope]:
        """Return up to ``limit`` scopes with a claimable task of this type.

        In scope order, beginning behind ``after`` and wrapping around, so that a caller that passes the last scope it
        served gives every scope its turn. The cost depends on ``limit``, not on how many tasks are queued or finished.
        """
        ...

    async def due_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        """Return up to ``limit`` scopes with a claimable due job, in the same order."""
        ...

    async def expired_scopes(
        self, task_types: Collection[TaskType], after: Scope | None, limit: int
    ) -> Sequence[Scope]:
        """Return up to ``limit`` scopes with an expired running task of these types, in the same order."""
        ...

    async def release_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        """Return up to ``limit`` scopes with a grant release in the outbox, in the same order as `ready_scopes`."""
        ...

    async def queued(self, task_type: TaskType, at_most: int) -> int:
        """Count the queued tasks of this type over all scopes, stopping at ``at_most``."""
        ...
