"""What people look at after something went wrong: late results, unknown executions, and how they were resolved."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Protocol

from attrs import frozen

from imgproc_domain.attempt import Attempt
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.errors import InvalidValue
from imgproc_domain.ids import AttemptId, TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.outcome import Kind
from imgproc_domain.scope import Scope
from imgproc_domain.text import clean

REASON_LIMIT: Final = 500
EVIDENCE_LIMIT: Final = 4_000
NAME_LIMIT: Final = 200


@frozen
class LateResult:
    """One row of ``late_results``: a write-back that was fenced, without its product. It changes nothing, ever."""

    scope: Scope
    task_id: TaskId
    attempt_id: AttemptId
    generation: int
    fence: Fence
    outcome: Kind
    error: Diagnosis | None
    noted_at: datetime


@frozen
class Resolution:
    """What a person found out about an unknown execution. From outside it comes by `parse_resolution`.

    ``owner_dead``: the worker that made the call is certainly gone. ``call_over``: the provider certainly does nothing
    for this call any more. ``evidence`` is how they know.
    """

    reason: str
    evidence: str
    owner_dead: bool
    call_over: bool
    resolved_by: str

    @property
    def attested(self) -> bool:
        """Whether nothing of the call can be under way, whatever its hard deadline."""
        return self.owner_dead and self.call_over


@frozen
class Resolved:
    """One row of ``execution_resolutions``: written once for an attempt, and never changed."""

    scope: Scope
    task_id: TaskId
    attempt_id: AttemptId
    resolution: Resolution
    resolved_at: datetime


@frozen
class UnknownPage:
    """Attempts that ended as unknown, newest task first; ``after`` is the cursor of the next page, None at the end."""

    attempts: tuple[Attempt, ...]
    after: TaskId | None


class EvidenceStore(Protocol):
    async def note(self, late: Sequence[LateResult]) -> None:
        """Insert late results; one whose task, attempt and generation are there already changes nothing."""
        ...

    async def late_results(self, task_ids: Collection[TaskId]) -> Sequence[LateResult]:
        """Return the late results of these tasks, oldest first."""
        ...

    async def attempts(self, task_id: TaskId) -> Sequence[Attempt]:
        """Return every attempt of a task, by number."""
        ...

    async def slots(self, task_ids: Collection[TaskId]) -> Sequence[Slot]:
        """Return the lane slots that were taken for these tasks, under whichever generation, and not given back.

        Those whose ``free_at`` has come are among them until somebody takes them.
        """
        ...

    async def unknown(self, after: TaskId | None, limit: int, *, resolved: bool | None = None) -> UnknownPage:
        """Return attempts that ended as ``unknown_execution``, with or without a resolution where that is asked for.

        Keyset paging by task id: a task has one such attempt at most (I6).
        """
        ...

    async def resolve(self, resolved: Resolved) -> bool:
        """Insert a resolution; False, and nothing is written, if its attempt has one already."""
        ...

    async def resolutions(self, task_ids: Collection[TaskId]) -> Sequence[Resolved]:
        """Return the resolutions of these tasks' attempts, oldest first."""
        ...


def parse_resolution(reason: str, evidence: str, *, owner_dead: bool, call_over: bool, resolved_by: str) -> Resolution:
    """Clean what a person wrote. Nothing is cut: history does not say less than its author.

    Raises:
        InvalidValue: a text is blank or too long: at most 500, 4,000 and 200 characters.
    """
    return Resolution(
        reason=_words("reason", reason, REASON_LIMIT),
        evidence=_words("evidence", evidence, EVIDENCE_LIMIT),
        owner_dead=owner_dead,
        call_over=call_over,
        resolved_by=_words("resolved_by", resolved_by, NAME_LIMIT),
    )


def _words(name: str, raw: str, limit: int) -> str:
    # the most that normalizing can make of it, so that cleaning cuts nothing
    cleaned = clean(raw, 4 * len(raw) + 1)
    if not 1 <= len(cleaned) <= limit:
        raise InvalidValue(f"{name}: expected text of 1 to {limit} characters")
    return cleaned
