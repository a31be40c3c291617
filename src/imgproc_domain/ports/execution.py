"""Attempts, grants, the release outbox, and lane slots."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Claim
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.policy import Operation
from imgproc_domain.stage import Lane


class AttemptStore(Protocol):
    async def add(self, attempts: Sequence[Attempt]) -> None:
        """Insert attempts.

        Raises `Conflict`, as the transaction ends at the latest, if a task has one of that number, or the id is taken.
        """
        ...

    async def last(self, task_ids: Collection[TaskId]) -> Mapping[TaskId, Attempt]:
        """Return each task's attempt with the highest number; tasks without one are missing."""
        ...

    async def save(self, changes: Sequence[tuple[AttemptStatus, Attempt]]) -> Collection[AttemptId]:
        """Compare-and-set: write each attempt if its stored status is still the first of the pair.

        Writes status, generation, times, hard deadline and error. Returns the ids that were written: the caller
        checks that none is missing before it does anything outside the database.
        """
        ...


class GrantStore(Protocol):
    async def add(self, grants: Sequence[Grant]) -> None:
        """Insert grants.

        Raises `Conflict`, as the transaction ends at the latest, if ``(operation, logical_request_key)`` exists.
        """
        ...

    async def by_key(self, operation: Operation, keys: Collection[str]) -> Mapping[str, Grant]:
        """Return the grants of these logical request keys; unknown keys are missing."""
        ...

    async def get(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        """Return grants; unknown and foreign ids are missing."""
        ...

    async def lock(self, grant_ids: Collection[GrantId]) -> Mapping[GrantId, Grant]:
        """Lock grants in id order and return them."""
        ...

    async def save(self, grants: Sequence[Grant]) -> None:
        """Write status and ``updated_at`` of grants that this transaction has locked."""
        ...


@frozen
class Release:
    """A row of the outbox: tell the policy that this reservation will never be used.

    Done rows stay as tombstones: their key is never acquired again.
    """

    operation: Operation
    logical_request_key: str
    reservation: str | None
    created_at: datetime
    done_at: datetime | None = None


class ReleaseOutbox(Protocol):
    async def add(self, releases: Sequence[Release]) -> None:
        """Insert releases; one whose key is there already changes nothing."""
        ...

    async def pending(self, limit: int) -> Sequence[Release]:
        """Return up to ``limit`` releases that are not done, oldest first, skipping rows others hold."""
        ...

    async def finish(self, keys: Collection[tuple[Operation, str]]) -> None:
        """Mark releases as done by the database's clock."""
        ...

    async def tombstones(self, operation: Operation, keys: Collection[str]) -> Collection[str]:
        """Return which of these keys have a release, done or not."""
        ...


class SlotStore(Protocol):
    """The rows that bound a lane over all processes (I18). They belong to no scope; everything else does."""

    async def take(self, lane: Lane, limit: int) -> Sequence[Slot]:
        """Lock up to ``limit`` free slots: without a holder, or whose ``free_at`` has come by the database's clock.

        Rows that another transaction holds are skipped. Nothing is written: `hold` does that.
        """
        ...

    async def hold(self, slots: Sequence[Slot]) -> None:
        """Write scope, task, generation and ``free_at`` of slots that this transaction has locked."""
        ...

    async def held(self, lane: Lane, claims: Collection[Claim]) -> Collection[Claim]:
        """Return those of ``claims`` that hold a slot under exactly their generation."""
        ...

    async def free(self, lane: Lane, claims: Collection[Claim], at: Mapping[TaskId, datetime]) -> None:
        """Free the slots held under these claims: at once, or at the given time where ``at`` has the task.

        A slot held under another generation is left alone.
        """
        ...

    async def resize(self, lane: Lane, size: int) -> None:
        """Make the lane have exactly ``size`` slots; surplus slots that are held go as soon as they are free."""
        ...
