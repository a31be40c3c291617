"""From an outcome and the rows it concerns, read under their locks, to everything that is written - or nothing."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from attrs import frozen

from imgproc_domain import attempt as attempts
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt, AttemptStatus, Replay
from imgproc_domain.claim import Claim, Fence
from imgproc_domain.context import Context, is_described_by_person
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import AttemptId
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import (
    AlreadyValid,
    Blocked,
    Failed,
    GivenBack,
    Outcome,
    Postponed,
    Retry,
    Succeeded,
    Unknown,
)
from imgproc_domain.product import ContextProduct, Product, TextProduct
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.values import evolve


@frozen(slots=False)
class Settling:
    """A worker's wish to write back. ``attempt_id`` is None for maintenance tasks, which have no attempts."""

    claim: Claim
    attempt_id: AttemptId | None
    outcome: Outcome


@frozen(slots=False)
class Locked:
    """The rows of one settling: task, attempt and meme locked in that order; the context is guarded by its meme."""

    task: Task | None
    attempt: Attempt | None
    meme: Meme | None
    context: Context | None


class GrantFate(StrEnum):
    """What a task's end means for its grant; ``release`` applies only to a grant that is still ``acquired``."""

    KEEP = "keep"
    RELEASE = "release"
    UNKNOWN = "unknown"


@frozen(slots=False)
class Settled:
    """What one transaction writes. ``product`` is None where nothing may be stored; then nothing is ``beside`` it."""

    task: Task
    attempt: Attempt | None
    product: Product | None = None
    grant: GrantFate = GrantFate.KEEP
    beside: tuple[TextProduct, ...] = ()


@frozen
class Fenced:
    """The write-back was rejected (I4): nothing is written."""

    claim: Claim
    reason: Fence


def settle(item: Settling, locked: Locked, now: datetime, policy: RetryPolicy) -> Settled | Fenced:
    """Decide one write-back. ``now`` is the database's time, read after the locks were granted."""
    fence = tasks.why_fenced(locked.task, item.claim, now) or _why_not_attempt(item, locked.attempt)
    if fence is not None or locked.task is None:
        return Fenced(item.claim, fence or Fence.MISSING)
    task, attempt = locked.task, locked.attempt
    match item.outcome:
        case Succeeded(product, beside):
            settled = _succeed(task, attempt, product, locked, now)
            return evolve(settled, beside=_of_the_same(settled.product, beside)) if beside else settled
        case AlreadyValid(diagnosis):
            return Settled(tasks.succeed(task, now), _failed(attempt, diagnosis, now), grant=GrantFate.RELEASE)
        case Retry(diagnosis, after):
            return _ended(tasks.retry(task, diagnosis, now, policy, after), _failed(attempt, diagnosis, now))
        case Failed(diagnosis):
            return _ended(tasks.fail(task, diagnosis, now), _failed(attempt, diagnosis, now))
        case Unknown(diagnosis):
            lost = attempts.lose(attempt, diagnosis, now) if attempt and attempt.live else attempt
            unknown = Diagnosis(ErrorCode.UNKNOWN_EXECUTION, diagnosis.message)
            return Settled(tasks.fail(task, unknown, now), lost, grant=GrantFate.UNKNOWN)
        case GivenBack(diagnosis):
            return Settled(tasks.give_back(task, diagnosis, now), _given_back(attempt, diagnosis, now))
        case Postponed(diagnosis, until):
            return Settled(tasks.postpone(task, diagnosis, until), attempt)
        case Blocked(denied):
            diagnosis = denied.diagnosis
            return _ended(tasks.fail(task, diagnosis, now), _failed(attempt, diagnosis, now))
        case _:
            assert_never(item.outcome)


def expire(task: Task, attempt: Attempt | None, replay: Replay, now: datetime, policy: RetryPolicy) -> Settled:
    """Take an expired lease away.

    A task whose call may have been made is not exhausted here: its next claim decides. Only if that claim is lost
    again and again, twice as often as any other may be, nothing can be proven any more, and the call stays unknown.
    """
    undecided = attempt is not None and attempt.status is AttemptStatus.EXTERNAL_STARTED and replay is not Replay.SAFE
    bounded = evolve(policy, max_lease_losses=2 * policy.max_lease_losses) if undecided else policy
    after = tasks.expire(task, now, bounded)
    if after.status is not TaskStatus.FAILED or after.error is None:
        return Settled(after, attempt)
    if undecided and attempt is not None:
        unknown = Diagnosis(ErrorCode.UNKNOWN_EXECUTION, after.error.message)
        return Settled(evolve(after, error=unknown), attempts.lose(attempt, unknown, now), grant=GrantFate.UNKNOWN)
    return _ended(after, _failed(attempt, after.error, now))


def _why_not_attempt(item: Settling, attempt: Attempt | None) -> Fence | None:
    if item.attempt_id is None and attempt is None:
        return None
    if attempt is None or attempt.attempt_id != item.attempt_id or attempt.generation != item.claim.generation:
        return Fence.ATTEMPT
    over = attempt.status is AttemptStatus.COMPLETED or attempt.status is AttemptStatus.FAILED
    return Fence.ATTEMPT if over else None


def _succeed(task: Task, attempt: Attempt | None, product: Product | None, locked: Locked, now: datetime) -> Settled:
    done = attempts.complete(attempt, now) if attempt else None
    if product is None:
        return Settled(tasks.succeed(task, now), done)
    meme = locked.meme
    made_from = (product.meme_id, product.image_sha256)
    if meme is None or not meme.exists or (meme.meme_id, meme.picture.sha256) != made_from:
        diagnosis = Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was deleted or replaced")
        return Settled(tasks.fail(task, diagnosis, now), done)
    if isinstance(product, TextProduct) and not _is_current(product, locked.context):
        diagnosis = Diagnosis(ErrorCode.CONTEXT_CHANGED, "the context changed while it was being embedded")
        return Settled(tasks.give_back(task, diagnosis, now), done)
    if isinstance(product, ContextProduct) and is_described_by_person(locked.context, product.image_sha256):
        return Settled(tasks.succeed(task, now), done)
    return Settled(tasks.succeed(task, now), done, product)


def _of_the_same(product: Product | None, beside: Iterable[TextProduct]) -> tuple[TextProduct, ...]:
    """Return those that were made from what ``product`` was made from, which has just been found current (I5)."""
    if not isinstance(product, TextProduct):
        return ()
    source = (product.meme_id, product.image_sha256, product.metadata_hash)
    return tuple(p for p in beside if (p.meme_id, p.image_sha256, p.metadata_hash) == source)


def _is_current(product: TextProduct, context: Context | None) -> bool:
    return context is not None and context.metadata_hash == product.metadata_hash


def _ended(task: Task, attempt: Attempt | None) -> Settled:
    over = task.status is TaskStatus.FAILED
    return Settled(task, attempt, grant=GrantFate.RELEASE if over else GrantFate.KEEP)


def _failed(attempt: Attempt | None, diagnosis: Diagnosis, now: datetime) -> Attempt | None:
    return attempts.fail(attempt, diagnosis, now) if attempt and attempt.live else attempt


def _given_back(attempt: Attempt | None, diagnosis: Diagnosis, now: datetime) -> Attempt | None:
    """An attempt whose call was not made stays for the next claim; a started one is a local call and ends."""
    started = attempt is not None and attempt.status is AttemptStatus.EXTERNAL_STARTED
    return _failed(attempt, diagnosis, now) if started else attempt
