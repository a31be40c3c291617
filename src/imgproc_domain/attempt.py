"""One execution of a task against something outside the database, and what recovery may do with it."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.ids import AttemptId, Sha256, TaskId
from imgproc_domain.machine import Edges, live, move
from imgproc_domain.scope import Scope
from imgproc_domain.values import evolve


class AttemptStatus(StrEnum):
    PREPARED = "prepared"
    GRANT_COMMITTED = "grant_committed"
    EXTERNAL_STARTED = "external_started"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown_execution"


_S = AttemptStatus

EDGES: Final[Edges[AttemptStatus]] = {
    _S.PREPARED: frozenset({_S.GRANT_COMMITTED, _S.EXTERNAL_STARTED, _S.FAILED}),
    _S.GRANT_COMMITTED: frozenset({_S.EXTERNAL_STARTED, _S.FAILED}),
    _S.EXTERNAL_STARTED: frozenset({_S.COMPLETED, _S.FAILED, _S.UNKNOWN}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.UNKNOWN: frozenset(),
}
LIVE: Final = live(EDGES)


class Replay(StrEnum):
    """What an adapter can prove about an attempt whose reply was lost."""

    SAFE = "safe"
    """A pure local model: the attempt is simply repeated."""
    LOOKUP = "lookup"
    """The provider can be asked for the result by the attempt's own ids."""
    NEVER = "never"
    """Nothing can be proven: unknown stays unknown."""


@frozen(slots=False)
class Attempt:
    """One row of ``task_attempts``; ``generation`` is the claim it now belongs to.

    ``attempt_id``, ``request_id`` and ``session_id`` are random and unguessable. ``hard_deadline_at`` is set with
    ``external_started``: after it no call of this attempt is in flight any more.
    """

    scope: Scope
    task_id: TaskId
    attempt_no: int
    attempt_id: AttemptId
    request_id: str
    session_id: str
    generation: int
    status: AttemptStatus
    input_digest: Sha256
    created_at: datetime
    external_started_at: datetime | None = None
    hard_deadline_at: datetime | None = None
    completed_at: datetime | None = None
    error: Diagnosis | None = None

    @property
    def live(self) -> bool:
        return self.status in LIVE


def commit_grant(attempt: Attempt) -> Attempt:
    return evolve(attempt, status=move(EDGES, attempt.status, AttemptStatus.GRANT_COMMITTED))


def start_external(attempt: Attempt, now: datetime, hard_deadline_at: datetime) -> Attempt:
    return evolve(
        attempt,
        status=move(EDGES, attempt.status, AttemptStatus.EXTERNAL_STARTED),
        external_started_at=now,
        hard_deadline_at=hard_deadline_at,
    )


def complete(attempt: Attempt, now: datetime) -> Attempt:
    return evolve(attempt, status=move(EDGES, attempt.status, AttemptStatus.COMPLETED), completed_at=now)


def fail(attempt: Attempt, diagnosis: Diagnosis, now: datetime) -> Attempt:
    """End the attempt with a known outcome: a definite answer, or proof that no call was made."""
    status = move(EDGES, attempt.status, AttemptStatus.FAILED)
    return evolve(attempt, status=status, completed_at=now, error=diagnosis)


def lose(attempt: Attempt, diagnosis: Diagnosis, now: datetime) -> Attempt:
    """End the attempt whose outcome cannot be proven."""
    status = move(EDGES, attempt.status, AttemptStatus.UNKNOWN)
    return evolve(attempt, status=status, completed_at=now, error=diagnosis)


@frozen
class Begin:
    """Prepare a new attempt: there is none, or the last one ended with a known outcome."""


@frozen
class Continue:
    """Go on with the same attempt: its call was not made."""

    attempt: Attempt


@frozen
class Repeat:
    """The lost attempt was a pure local call: end it and begin another."""

    attempt: Attempt


@frozen
class LookUp:
    """Ask the provider for the result of exactly this attempt."""

    attempt: Attempt


@frozen
class GiveUp:
    """A call may have been made and nothing can be proven: the task ends as unknown (I9)."""

    attempt: Attempt


Resumption = Begin | Continue | Repeat | LookUp | GiveUp


def resume(last: Attempt | None, replay: Replay) -> Resumption:
    """Decide what a fresh claim does about the task's last attempt."""
    if last is None:
        return Begin()
    match last.status:
        case AttemptStatus.PREPARED | AttemptStatus.GRANT_COMMITTED:
            return Continue(last)
        case AttemptStatus.EXTERNAL_STARTED:
            return _after_start(last, replay)
        case AttemptStatus.UNKNOWN:
            return GiveUp(last)
        case AttemptStatus.COMPLETED | AttemptStatus.FAILED:
            return Begin()


def _after_start(attempt: Attempt, replay: Replay) -> Resumption:
    match replay:
        case Replay.SAFE:
            return Repeat(attempt)
        case Replay.LOOKUP:
            return LookUp(attempt)
        case Replay.NEVER:
            return GiveUp(attempt)
