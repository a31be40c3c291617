"""What an attempt may become, and what a fresh claim does about the last one."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.domain.build import LEASE, NOW, TROUBLE, UNKNOWN, attempt_in

from imgproc_domain import attempt as attempts
from imgproc_domain.attempt import (
    EDGES,
    LIVE,
    Attempt,
    AttemptStatus,
    Begin,
    Continue,
    GiveUp,
    LookUp,
    Repeat,
    Replay,
    resume,
)
from imgproc_domain.errors import IllegalTransition

Step = Callable[[Attempt], Attempt]

STEPS: dict[AttemptStatus, Step] = {
    AttemptStatus.GRANT_COMMITTED: attempts.commit_grant,
    AttemptStatus.EXTERNAL_STARTED: lambda a: attempts.start_external(a, NOW, NOW + LEASE),
    AttemptStatus.COMPLETED: lambda a: attempts.complete(a, NOW),
    AttemptStatus.FAILED: lambda a: attempts.fail(a, TROUBLE, NOW),
    AttemptStatus.UNKNOWN: lambda a: attempts.lose(a, UNKNOWN, NOW),
}


@pytest.mark.parametrize("target", STEPS)
@pytest.mark.parametrize("source", AttemptStatus)
def test_a_step_is_taken_exactly_where_the_table_has_an_edge(source: AttemptStatus, target: AttemptStatus) -> None:
    before = attempt_in(source)
    if target in EDGES[source]:
        assert STEPS[target](before).status is target
    else:
        with pytest.raises(IllegalTransition):
            STEPS[target](before)


def test_no_edge_of_the_table_is_without_its_function() -> None:
    assert {target for targets in EDGES.values() for target in targets} == STEPS.keys()


@pytest.mark.parametrize("status", AttemptStatus)
def test_an_attempt_is_live_until_its_outcome_is_written(status: AttemptStatus) -> None:
    assert attempt_in(status).live is (status in LIVE)


def test_the_start_of_the_call_is_written_with_the_time_after_which_it_cannot_be_in_flight() -> None:
    started = attempts.start_external(attempt_in(AttemptStatus.PREPARED), NOW, NOW + LEASE)
    assert (started.external_started_at, started.hard_deadline_at) == (NOW, NOW + LEASE)
    assert started.completed_at is None


def test_an_ended_attempt_keeps_its_identity_and_says_when_and_why() -> None:
    before = attempt_in(AttemptStatus.EXTERNAL_STARTED)
    failed = attempts.fail(before, TROUBLE, NOW)
    assert (failed.completed_at, failed.error) == (NOW, TROUBLE)
    assert (failed.attempt_id, failed.request_id, failed.session_id) == (
        before.attempt_id,
        before.request_id,
        before.session_id,
    )
    assert attempts.lose(before, UNKNOWN, NOW).error == UNKNOWN
    assert attempts.complete(before, NOW).error is None


@pytest.mark.parametrize("replay", Replay)
def test_a_task_without_an_attempt_begins_one(replay: Replay) -> None:
    assert resume(None, replay) == Begin()


TABLE: dict[AttemptStatus, dict[Replay, type[Any]]] = {
    AttemptStatus.PREPARED: dict.fromkeys(Replay, Continue),
    AttemptStatus.GRANT_COMMITTED: dict.fromkeys(Replay, Continue),
    AttemptStatus.EXTERNAL_STARTED: {Replay.SAFE: Repeat, Replay.LOOKUP: LookUp, Replay.NEVER: GiveUp},
    AttemptStatus.COMPLETED: dict.fromkeys(Replay, Begin),
    AttemptStatus.FAILED: dict.fromkeys(Replay, Begin),
    AttemptStatus.UNKNOWN: dict.fromkeys(Replay, GiveUp),
}


@pytest.mark.parametrize("replay", Replay)
@pytest.mark.parametrize("status", AttemptStatus)
def test_recovery_follows_the_table_of_last_status_and_provability(status: AttemptStatus, replay: Replay) -> None:
    last = attempt_in(status)
    expected = TABLE[status][replay]
    assert resume(last, replay) == (Begin() if expected is Begin else expected(last))


@pytest.mark.parametrize("status", [AttemptStatus.EXTERNAL_STARTED, AttemptStatus.UNKNOWN])
def test_a_call_that_may_have_been_made_is_never_made_again_unless_it_is_a_pure_local_one(
    status: AttemptStatus,
) -> None:
    for replay in (Replay.LOOKUP, Replay.NEVER):
        assert not isinstance(resume(attempt_in(status), replay), (Begin, Continue, Repeat))
