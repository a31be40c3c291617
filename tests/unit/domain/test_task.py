"""The leaf task: who may write it back, and what each end of an execution makes of it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.build import (
    GENERATION,
    LEASE,
    ME,
    NOW,
    SECOND,
    SOMEBODY_ELSE,
    TROUBLE,
    running_task,
    task_in,
)

from imgproc_adapters.testing.factories import make_maintenance_task
from imgproc_domain import task as tasks
from imgproc_domain.claim import Claim, Fence, Lease
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.stage import LANE_OF, TASK_TYPE_OF, Lane, Stage
from imgproc_domain.task import EDGES, LIVE, Task, TaskStatus

POLICY = RetryPolicy()
LATER = NOW + LEASE

STEPS: dict[str, tuple[TaskStatus, Callable[[Task], Task]]] = {
    "claim": (TaskStatus.RUNNING, lambda t: tasks.claim(t, ME, NOW, LEASE)),
    "succeed": (TaskStatus.SUCCEEDED, lambda t: tasks.succeed(t, NOW)),
    "fail": (TaskStatus.FAILED, lambda t: tasks.fail(t, TROUBLE, NOW)),
    "retry": (TaskStatus.QUEUED, lambda t: tasks.retry(t, TROUBLE, NOW, POLICY, None)),
    "give back": (TaskStatus.QUEUED, lambda t: tasks.give_back(t, TROUBLE, NOW)),
    "expire": (TaskStatus.QUEUED, lambda t: tasks.expire(_leased(t), LATER, POLICY)),
    "expire for the last time": (
        TaskStatus.FAILED,
        lambda t: tasks.expire(_leased(evolve(t, lease_losses=POLICY.max_lease_losses - 1)), LATER, POLICY),
    ),
}


def _leased(task: Task) -> Task:
    return evolve(task, lease=Lease(GENERATION, ME, LATER))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("source", TaskStatus)
def test_a_step_is_taken_exactly_where_the_table_has_an_edge(source: TaskStatus, step: str) -> None:
    target, act = STEPS[step]
    if target in EDGES[source]:
        assert act(task_in(source)).status is target
    else:
        with pytest.raises(IllegalTransition):
            act(task_in(source))


def test_no_edge_of_the_table_is_without_its_function() -> None:
    assert {target for targets in EDGES.values() for target in targets} == {target for target, _ in STEPS.values()}


@pytest.mark.parametrize("status", TaskStatus)
def test_a_task_is_live_while_it_is_queued_or_running(status: TaskStatus) -> None:
    assert task_in(status).live is (status in LIVE)


@pytest.mark.parametrize("stage", Stage)
def test_a_leaf_task_knows_its_stage_and_lane(stage: Stage) -> None:
    task = task_in(TaskStatus.QUEUED, stage)
    assert task.stage is stage
    assert task.lane is LANE_OF[TASK_TYPE_OF[stage]]


def test_a_maintenance_task_belongs_to_no_stage() -> None:
    task = make_maintenance_task()
    assert (task.stage, task.lane) == (None, Lane.MAINTENANCE)


def test_a_task_nobody_holds_has_no_claim() -> None:
    with pytest.raises(AssertionError, match="no claim"):
        _ = task_in(TaskStatus.QUEUED).claim


def test_a_claim_starts_the_next_generation_and_forgets_the_last_error() -> None:
    before = evolve(task_in(TaskStatus.QUEUED), error=TROUBLE)
    after = tasks.claim(before, ME, NOW, LEASE)
    assert after.lease == Lease(GENERATION + 1, ME, NOW + LEASE)
    assert after.claim == Claim(before.scope, before.task_id, ME, GENERATION + 1)
    assert (after.error, after.started_at) == (None, NOW)


def test_a_task_keeps_the_time_of_its_first_start() -> None:
    before = evolve(task_in(TaskStatus.QUEUED), started_at=NOW)
    assert tasks.claim(before, ME, LATER, LEASE).started_at == NOW


@pytest.mark.parametrize("step", [step for step in STEPS if step != "claim"])
def test_nobody_holds_a_task_whose_execution_ended(step: str) -> None:
    after = STEPS[step][1](running_task())
    assert (after.lease.owner, after.lease.expires_at) == (None, None)
    assert after.completed_at == (None if after.live else after.completed_at)
    assert after.live or after.completed_at is not None


def test_a_task_that_was_given_back_is_available_at_once_and_nothing_counts_against_it() -> None:
    before = running_task()
    after = tasks.give_back(before, TROUBLE, NOW)
    assert after.available_at == NOW
    assert (after.failures, after.lease_losses) == (before.failures, before.lease_losses)
    assert after.lease.generation == GENERATION


@pytest.mark.parametrize("failures", range(1, POLICY.max_attempts + 2))
def test_a_transient_failure_waits_longer_each_time_until_the_attempts_are_used_up(failures: int) -> None:
    after = tasks.retry(evolve(running_task(), failures=failures - 1), TROUBLE, NOW, POLICY, None)
    assert after.failures == failures
    assert after.error == TROUBLE
    if failures < POLICY.max_attempts:
        assert after.status is TaskStatus.QUEUED
        assert after.available_at == NOW + POLICY.backoff(failures)
    else:
        assert after.status is TaskStatus.FAILED
        assert after.completed_at == NOW


def test_a_retry_waits_as_long_as_the_provider_asks() -> None:
    asked = timedelta(minutes=20)
    assert tasks.retry(running_task(), TROUBLE, NOW, POLICY, asked).available_at == NOW + asked


@pytest.mark.parametrize("losses", range(POLICY.max_lease_losses + 1))
def test_a_task_that_keeps_losing_its_worker_ends(losses: int) -> None:
    after = tasks.expire(running_task(lease_losses=losses), LATER, POLICY)
    assert after.lease == Lease(GENERATION + 1), "a holder that is still alive is fenced"
    assert after.lease_losses == losses + 1
    assert after.error is not None
    if losses + 1 < POLICY.max_lease_losses:
        assert (after.status, after.error.code) == (TaskStatus.QUEUED, ErrorCode.LEASE_LOST)
        assert after.available_at == LATER
    else:
        assert (after.status, after.error.code) == (TaskStatus.FAILED, ErrorCode.LEASE_EXHAUSTED)
        assert str(losses + 1) in after.error.message


def test_a_lease_that_runs_still_cannot_be_taken_away() -> None:
    with pytest.raises(AssertionError, match="has not expired"):
        tasks.expire(running_task(), LATER - SECOND, POLICY)
    with pytest.raises(AssertionError, match="claimed"):
        tasks.expire(task_in(TaskStatus.QUEUED), LATER, POLICY)


def test_the_current_claim_of_a_running_task_may_write_back() -> None:
    task = running_task()
    assert tasks.why_fenced(task, task.claim, NOW) is None


def test_a_task_that_is_gone_or_not_running_is_fenced_whatever_the_claim_says() -> None:
    claim = running_task().claim
    assert tasks.why_fenced(None, claim, NOW) is Fence.MISSING
    for status in set(TaskStatus) - {TaskStatus.RUNNING}:
        task = evolve(task_in(status), lease=Lease(GENERATION, ME, LATER))
        assert tasks.why_fenced(task, claim, NOW) is Fence.NOT_RUNNING


@pytest.mark.parametrize(
    ("lease", "fence"),
    [
        (Lease(GENERATION + 1, ME, LATER), Fence.GENERATION),
        (Lease(GENERATION, SOMEBODY_ELSE, LATER), Fence.OWNER),
        (Lease(GENERATION, ME, NOW), Fence.EXPIRED),
    ],
)
def test_a_running_task_is_fenced_by_its_lease(lease: Lease, fence: Fence) -> None:
    task = running_task()
    assert tasks.why_fenced(evolve(task, lease=lease), task.claim, NOW) is fence


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=30))
def test_in_every_life_of_a_task_generations_only_rise_and_an_ended_task_never_moves(steps: list[str]) -> None:
    task = make_maintenance_task()
    held: list[Claim] = []
    for step in steps:
        before = task
        if step.startswith("expire") and before.status is not TaskStatus.RUNNING:
            continue
        try:
            task = tasks.expire(before, LATER, POLICY) if step.startswith("expire") else STEPS[step][1](before)
        except IllegalTransition:
            continue
        assert before.live
        assert task.lease.generation - before.lease.generation in {0, 1}
        if task.status is TaskStatus.RUNNING:
            held.append(task.claim)
        assert (task.lease.owner is not None) is (task.status is TaskStatus.RUNNING)
    assert len({claim.generation for claim in held}) == len(held)
    current = [claim for claim in held if tasks.why_fenced(task, claim, NOW) is None]
    assert current == (held[-1:] if task.status is TaskStatus.RUNNING else [])
