"""One write-back: everything it writes, or the reason why it writes nothing."""

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any, get_args
from uuid import UUID

import pytest
from attrs import evolve, frozen
from tests.unit.domain.build import (
    CONFIG,
    DESCRIPTION,
    GENERATION,
    LEASE,
    ME,
    NOW,
    OTHER_PICTURE,
    SOMEBODY_ELSE,
    TROUBLE,
    attempt_in,
    cat,
    context_of,
    running_task,
)

from imgproc_adapters.testing.factories import digest, make_maintenance_task, vector
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt, AttemptStatus, Replay
from imgproc_domain.claim import Claim, Fence, Lease
from imgproc_domain.context import Context, ContextStatus, Description, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.ids import AttemptId, MemeId
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
from imgproc_domain.policy import DenialReason, Denied
from imgproc_domain.product import ContextProduct, Product, TextProduct, VisualProduct
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.settlement import Fenced, GrantFate, Locked, Settled, Settling, expire, settle
from imgproc_domain.stage import Stage
from imgproc_domain.task import Task, TaskStatus

POLICY = RetryPolicy()
DENIED = Denied(DenialReason.FORBIDDEN, "not you")
STARTED = AttemptStatus.EXTERNAL_STARTED


@frozen
class Work:
    """A running agent, visual or text task with its locked rows."""

    task: Task
    attempt: Attempt
    meme: Meme
    context: Context | None

    @property
    def locked(self) -> Locked:
        return Locked(self.task, self.attempt, self.meme, self.context)

    def item(self, outcome: Outcome) -> Settling:
        return Settling(self.task.claim, self.attempt.attempt_id, outcome)

    def settle(self, outcome: Outcome, locked: Locked | None = None) -> Settled:
        answer = settle(self.item(outcome), locked or self.locked, NOW, POLICY)
        assert isinstance(answer, Settled), answer
        return answer


def work(stage: Stage = Stage.AGENT, status: AttemptStatus = STARTED, *, failures: int = 0) -> Work:
    meme = cat()
    task = evolve(running_task(stage, meme=meme), failures=failures)
    return Work(task, attempt_in(status, task), meme, context_of(meme, revision=5))


def visual(meme: Meme) -> VisualProduct:
    return VisualProduct(meme.meme_id, meme.picture.sha256, CONFIG.visual.id, vector(1.0))


def description(meme: Meme) -> ContextProduct:
    made = Provenance(Origin.AGENT, meme.picture.sha256)
    return ContextProduct(meme.meme_id, meme.picture.sha256, DESCRIPTION, ContextStatus.READY, made)


def text(meme: Meme) -> TextProduct:
    metadata_hash = DESCRIPTION.metadata_hash()
    assert metadata_hash is not None
    return TextProduct(meme.meme_id, meme.picture.sha256, metadata_hash, CONFIG.text.id, vector(1.0))


PRODUCTS: dict[Stage, Callable[[Meme], Product]] = {
    Stage.VISUAL: visual,
    Stage.AGENT: description,
    Stage.TEXT: text,
}
OUTCOMES: list[Outcome] = [
    Succeeded(None),
    AlreadyValid(TROUBLE),
    Retry(TROUBLE),
    Failed(TROUBLE),
    Unknown(TROUBLE),
    GivenBack(TROUBLE),
    Postponed(TROUBLE, NOW + LEASE),
    Blocked(DENIED),
]


def named(value: object) -> str:
    return type(value).__name__


def test_no_outcome_is_left_out_of_these_tests() -> None:
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(Outcome))


FENCES: dict[str, tuple[Fence, Callable[[Locked], Locked]]] = {
    "the task is gone": (Fence.MISSING, lambda rows: evolve(rows, task=None)),
    "the task is queued": (Fence.NOT_RUNNING, lambda rows: _task(rows, status=TaskStatus.QUEUED)),
    "the task succeeded": (Fence.NOT_RUNNING, lambda rows: _task(rows, status=TaskStatus.SUCCEEDED)),
    "the task failed": (Fence.NOT_RUNNING, lambda rows: _task(rows, status=TaskStatus.FAILED)),
    "the task was claimed again": (Fence.GENERATION, lambda rows: _lease(rows, Lease(GENERATION + 1, ME, NOW + LEASE))),
    "the claim is from the future": (
        Fence.GENERATION,
        lambda rows: _lease(rows, Lease(GENERATION - 1, ME, NOW + LEASE)),
    ),
    "somebody else holds the task": (
        Fence.OWNER,
        lambda rows: _lease(rows, Lease(GENERATION, SOMEBODY_ELSE, NOW + LEASE)),
    ),
    "nobody holds the task": (Fence.OWNER, lambda rows: _lease(rows, Lease(GENERATION))),
    "the lease ends now": (Fence.EXPIRED, lambda rows: _lease(rows, Lease(GENERATION, ME, NOW))),
    "the lease is over": (Fence.EXPIRED, lambda rows: _lease(rows, Lease(GENERATION, ME, NOW - LEASE))),
    "there is no attempt": (Fence.ATTEMPT, lambda rows: evolve(rows, attempt=None)),
    "the last attempt is another one": (Fence.ATTEMPT, lambda rows: _attempt(rows, attempt_id=AttemptId("another"))),
    "the attempt belongs to a later claim": (Fence.ATTEMPT, lambda rows: _attempt(rows, generation=GENERATION + 1)),
    "the attempt belongs to an earlier claim": (Fence.ATTEMPT, lambda rows: _attempt(rows, generation=GENERATION - 1)),
    "the attempt was completed": (Fence.ATTEMPT, lambda rows: _attempt(rows, status=AttemptStatus.COMPLETED)),
    "the attempt failed": (Fence.ATTEMPT, lambda rows: _attempt(rows, status=AttemptStatus.FAILED)),
}


def _task(rows: Locked, **changes: Any) -> Locked:
    assert rows.task is not None
    return evolve(rows, task=evolve(rows.task, **changes))


def _lease(rows: Locked, lease: Lease) -> Locked:
    return _task(rows, lease=lease)


def _attempt(rows: Locked, **changes: Any) -> Locked:
    assert rows.attempt is not None
    return evolve(rows, attempt=evolve(rows.attempt, **changes))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=named)
@pytest.mark.parametrize("cause", FENCES)
def test_a_write_back_that_is_no_longer_current_writes_nothing_whatever_it_brings(cause: str, outcome: Outcome) -> None:
    fence, spoil = FENCES[cause]
    done = work()
    item = done.item(outcome)
    assert settle(item, spoil(done.locked), NOW, POLICY) == Fenced(item.claim, fence)


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("cause", FENCES)
def test_no_product_gets_past_a_fence(cause: str, stage: Stage) -> None:
    done = work(stage)
    item = done.item(Succeeded(PRODUCTS[stage](done.meme)))
    assert isinstance(settle(item, FENCES[cause][1](done.locked), NOW, POLICY), Fenced)


def test_a_leaf_task_cannot_be_settled_without_its_attempt() -> None:
    done = work()
    item = Settling(done.task.claim, None, Failed(TROUBLE))
    assert settle(item, done.locked, NOW, POLICY) == Fenced(item.claim, Fence.ATTEMPT)


def test_a_maintenance_task_is_settled_without_an_attempt() -> None:
    task = tasks.claim(make_maintenance_task(), ME, NOW, LEASE)
    answer = settle(Settling(task.claim, None, Succeeded(None)), Locked(task, None, None, None), NOW, POLICY)
    assert answer == Settled(tasks.succeed(task, NOW), None)


@pytest.mark.parametrize("stage", Stage)
def test_a_success_writes_task_attempt_and_product_together(stage: Stage) -> None:
    done = work(stage)
    made = PRODUCTS[stage](done.meme)
    after = done.settle(Succeeded(made))
    assert (after.task.status, after.task.error, after.task.completed_at) == (TaskStatus.SUCCEEDED, None, NOW)
    assert after.attempt is not None
    assert (after.attempt.status, after.attempt.completed_at) == (AttemptStatus.COMPLETED, NOW)
    assert after.product == made
    assert after.grant is GrantFate.KEEP


def _gone(rows: Locked) -> Locked:
    return evolve(rows, meme=None)


def _deleted(rows: Locked) -> Locked:
    assert rows.meme is not None
    return evolve(rows, meme=evolve(rows.meme, deleted_at=NOW))


def _replaced(rows: Locked) -> Locked:
    assert rows.meme is not None
    return evolve(rows, meme=evolve(rows.meme, picture=evolve(rows.meme.picture, sha256=OTHER_PICTURE)))


def _another(rows: Locked) -> Locked:
    assert rows.meme is not None
    return evolve(rows, meme=evolve(rows.meme, meme_id=MemeId(UUID(int=9))))


@pytest.mark.parametrize("spoil", [_gone, _deleted, _replaced, _another])
@pytest.mark.parametrize("stage", Stage)
def test_a_product_of_a_picture_that_is_no_longer_there_is_never_written(
    stage: Stage, spoil: Callable[[Locked], Locked]
) -> None:
    done = work(stage)
    after = done.settle(Succeeded(PRODUCTS[stage](done.meme)), spoil(done.locked))
    assert after.product is None
    assert after.task.status is TaskStatus.FAILED
    assert after.task.error is not None
    assert after.task.error.code is ErrorCode.TARGET_CHANGED
    assert after.attempt is not None
    assert after.attempt.status is AttemptStatus.COMPLETED, "the call itself went well"
    assert after.grant is GrantFate.KEEP, "its permission was used"


@pytest.mark.parametrize("changed", [True, False], ids=["edited", "deleted"])
def test_a_vector_of_words_that_changed_is_made_again_from_the_new_ones(changed: bool) -> None:
    done = work(Stage.TEXT)
    edited = context_of(done.meme, Description(title="another title"), origin=Origin.PERSON) if changed else None
    after = done.settle(Succeeded(text(done.meme)), evolve(done.locked, context=edited))
    assert after.product is None
    assert (after.task.status, after.task.available_at) == (TaskStatus.QUEUED, NOW)
    assert after.task.error is not None
    assert after.task.error.code is ErrorCode.CONTEXT_CHANGED
    assert (after.task.failures, after.task.lease_losses) == (0, 0), "nobody did anything wrong"
    assert after.attempt is not None
    assert after.attempt.status is AttemptStatus.COMPLETED


def test_a_vector_stays_valid_when_only_words_changed_that_are_not_embedded() -> None:
    done = work(Stage.TEXT)
    noted = context_of(done.meme, evolve(DESCRIPTION, uncertainties=("maybe a dog",)), revision=9)
    made = text(done.meme)
    assert done.settle(Succeeded(made), evolve(done.locked, context=noted)).product == made


@pytest.mark.parametrize("stage", [Stage.VISUAL, Stage.AGENT])
def test_words_that_changed_matter_to_no_other_product(stage: Stage) -> None:
    done = work(stage)
    made = PRODUCTS[stage](done.meme)
    noted = context_of(done.meme, Description(title="another title"), revision=9)
    assert done.settle(Succeeded(made), evolve(done.locked, context=noted)).product == made


@pytest.mark.parametrize(("origin", "same_picture"), list(product(Origin, [True, False])))
def test_only_a_person_s_words_on_this_very_picture_are_kept(origin: Origin, same_picture: bool) -> None:
    done = work()
    picture = done.meme.picture.sha256 if same_picture else OTHER_PICTURE
    present = context_of(done.meme, Description(title="mine"), origin=origin, picture=picture, revision=5)
    made = description(done.meme)
    after = done.settle(Succeeded(made), evolve(done.locked, context=present))
    kept = origin is Origin.PERSON and same_picture
    assert after.product == (None if kept else made)
    assert after.task.status is TaskStatus.SUCCEEDED, "the stage is done either way"


@pytest.mark.parametrize("bare", [True, False])
def test_the_first_description_is_written_where_there_was_none(bare: bool) -> None:
    done = work()
    present = None if bare else evolve(context_of(done.meme, revision=2), provenance=None)
    made = description(done.meme)
    assert done.settle(Succeeded(made), evolve(done.locked, context=present)).product == made


@pytest.mark.parametrize("status", [AttemptStatus.PREPARED, AttemptStatus.GRANT_COMMITTED])
def test_a_call_that_is_not_needed_any_more_ends_the_task_well_and_gives_its_grant_back(status: AttemptStatus) -> None:
    after = work(status=status).settle(AlreadyValid(TROUBLE))
    assert (after.task.status, after.product, after.grant) == (TaskStatus.SUCCEEDED, None, GrantFate.RELEASE)
    assert after.attempt is not None
    assert (after.attempt.status, after.attempt.error) == (AttemptStatus.FAILED, TROUBLE)


@pytest.mark.parametrize("failures", range(POLICY.max_attempts))
def test_a_transient_answer_queues_the_task_again_until_its_attempts_are_used_up(failures: int) -> None:
    done = work(failures=failures)
    asked = timedelta(minutes=30)
    after = done.settle(Retry(TROUBLE, asked))
    last = failures + 1 == POLICY.max_attempts
    assert after.task == tasks.retry(done.task, TROUBLE, NOW, POLICY, asked)
    assert after.task.status is (TaskStatus.FAILED if last else TaskStatus.QUEUED)
    assert after.grant is (GrantFate.RELEASE if last else GrantFate.KEEP)
    assert after.attempt is not None
    assert (after.attempt.status, after.attempt.error) == (AttemptStatus.FAILED, TROUBLE)


@pytest.mark.parametrize(
    ("outcome", "diagnosis"),
    [(Failed(TROUBLE), TROUBLE), (Blocked(DENIED), DENIED.diagnosis)],
    ids=["failed", "blocked"],
)
@pytest.mark.parametrize("status", [AttemptStatus.PREPARED, AttemptStatus.GRANT_COMMITTED, STARTED])
def test_a_definite_end_fails_task_and_attempt_and_gives_back_what_was_not_spent(
    status: AttemptStatus, outcome: Outcome, diagnosis: Diagnosis
) -> None:
    after = work(status=status).settle(outcome)
    assert (after.task.status, after.task.error, after.task.completed_at) == (TaskStatus.FAILED, diagnosis, NOW)
    assert after.attempt is not None
    assert (after.attempt.status, after.attempt.error) == (AttemptStatus.FAILED, diagnosis)
    assert (after.grant, after.product) == (GrantFate.RELEASE, None)


@pytest.mark.parametrize("status", [STARTED, AttemptStatus.UNKNOWN])
def test_an_unknown_outcome_ends_the_task_for_good(status: AttemptStatus) -> None:
    after = work(status=status).settle(Unknown(TROUBLE))
    assert after.task.status is TaskStatus.FAILED
    assert after.task.error == Diagnosis(ErrorCode.UNKNOWN_EXECUTION, TROUBLE.message)
    assert after.attempt is not None
    assert after.attempt.status is AttemptStatus.UNKNOWN
    assert (after.grant, after.product) == (GrantFate.UNKNOWN, None)


@pytest.mark.parametrize("status", [AttemptStatus.PREPARED, AttemptStatus.GRANT_COMMITTED])
def test_an_attempt_that_was_never_started_can_neither_be_unknown_nor_complete(status: AttemptStatus) -> None:
    for outcome in (Unknown(TROUBLE), Succeeded(None)):
        with pytest.raises(IllegalTransition):
            work(status=status).settle(outcome)


@pytest.mark.parametrize("status", [AttemptStatus.PREPARED, AttemptStatus.GRANT_COMMITTED, STARTED])
def test_a_task_that_is_given_back_keeps_an_attempt_whose_call_was_not_made(status: AttemptStatus) -> None:
    done = work(status=status)
    after = done.settle(GivenBack(TROUBLE))
    assert after.task == tasks.give_back(done.task, TROUBLE, NOW)
    assert after.grant is GrantFate.KEEP
    assert after.attempt is not None
    if status is STARTED:
        assert (after.attempt.status, after.attempt.error) == (AttemptStatus.FAILED, TROUBLE)
    else:
        assert after.attempt == done.attempt


LOST = list(product([None, *AttemptStatus][:4], Replay, range(2 * POLICY.max_lease_losses)))


@pytest.mark.parametrize(("status", "replay", "losses"), LOST)
def test_an_expired_lease_ends_a_task_only_when_its_call_was_certainly_not_made_or_is_local(
    status: AttemptStatus | None, replay: Replay, losses: int
) -> None:
    task = running_task(lease_losses=losses)
    attempt = attempt_in(status, task) if status else None
    later = NOW + LEASE
    after = expire(task, attempt, replay, later, POLICY)
    undecided = status is STARTED and replay is not Replay.SAFE
    assert after.task.lease == Lease(GENERATION + 1)
    assert after.task.lease_losses == losses + 1
    assert after.product is None
    if undecided and losses + 1 == 2 * POLICY.max_lease_losses:
        assert after.task.error is not None
        assert (after.task.status, after.task.error.code) == (TaskStatus.FAILED, ErrorCode.UNKNOWN_EXECUTION)
        assert after.grant is GrantFate.UNKNOWN
        assert after.attempt is not None
        assert after.attempt.status is AttemptStatus.UNKNOWN
    elif losses + 1 >= POLICY.max_lease_losses and not undecided:
        assert after.task.error is not None
        assert (after.task.status, after.task.error.code) == (TaskStatus.FAILED, ErrorCode.LEASE_EXHAUSTED)
        assert after.grant is GrantFate.RELEASE
        assert after.attempt is None or after.attempt.status is AttemptStatus.FAILED
    else:
        assert (after.task.status, after.task.available_at) == (TaskStatus.QUEUED, later)
        assert (after.grant, after.attempt) == (GrantFate.KEEP, attempt)


def test_a_postponed_task_waits_and_keeps_its_attempt_and_its_grant() -> None:
    done = work()
    later = NOW + 3 * LEASE
    after = done.settle(Postponed(TROUBLE, later))
    assert after.attempt == done.attempt
    assert (after.grant, after.product) == (GrantFate.KEEP, None)
    assert (after.task.status, after.task.available_at) == (TaskStatus.QUEUED, later)
    assert (after.task.failures, after.task.lease_losses) == (done.task.failures, done.task.lease_losses)
    assert after.task.lease == Lease(GENERATION)


def test_the_claim_that_lost_its_lease_is_fenced_for_ever() -> None:
    done = work()
    taken = expire(done.task, done.attempt, Replay.LOOKUP, NOW + LEASE, POLICY).task
    again = tasks.claim(taken, ME, NOW + LEASE, LEASE)
    item = done.item(Succeeded(description(done.meme)))
    for task in (taken, again):
        answer = settle(item, evolve(done.locked, task=task), NOW, POLICY)
        assert isinstance(answer, Fenced)
    assert item.claim == Claim(done.task.scope, done.task.task_id, ME, GENERATION)


def test_two_settlings_of_one_claim_write_once() -> None:
    done = work()
    item = done.item(Succeeded(description(done.meme)))
    first = settle(item, done.locked, NOW, POLICY)
    assert isinstance(first, Settled)
    second = settle(item, evolve(done.locked, task=first.task, attempt=first.attempt), NOW, POLICY)
    assert second == Fenced(item.claim, Fence.NOT_RUNNING)


def test_words_without_a_hash_never_match_a_vector() -> None:
    done = work(Stage.TEXT)
    silent = context_of(done.meme, Description(search_queries=("cat",)))
    forged = evolve(text(done.meme), metadata_hash=digest(""))
    assert done.settle(Succeeded(forged), evolve(done.locked, context=silent)).product is None
