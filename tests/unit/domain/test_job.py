"""A job walks through its stages in order and ends once; every ending says why."""

from collections.abc import Callable
from itertools import product
from uuid import uuid4

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.build import CHANGED, GENERATION, LEASE, ME, NOW, TROUBLE, UNKNOWN, job_at, job_in

from imgproc_domain import job as jobs
from imgproc_domain.claim import JobClaim, Lease
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.ids import TaskId
from imgproc_domain.job import EDGES, LIVE, RETRYABLE, Job, JobStatus, StageState
from imgproc_domain.policy import DenialReason, Denied
from imgproc_domain.stage import STAGES, Stage

TASK = TaskId(uuid4())
DENIED = Denied(DenialReason.LIMIT_EXCEEDED, "come back tomorrow", NOW + LEASE)
S = JobStatus

Step = Callable[[Job, Stage], Job]
ENDS: dict[str, tuple[JobStatus, Step]] = {
    "fail": (S.FAILED, lambda job, stage: jobs.fail_stage(job, stage, TROUBLE, NOW)),
    "lose": (S.UNKNOWN, lambda job, stage: jobs.fail_stage(job, stage, UNKNOWN, NOW)),
    "block": (S.BLOCKED, lambda job, stage: jobs.block(job, stage, DENIED, NOW)),
}


def allowed(source: JobStatus, target: JobStatus) -> bool:
    return target in EDGES[source]


def with_stage(job_status: JobStatus, stage: Stage, status: JobStatus) -> Job:
    at = STAGES.index(stage)
    rest = (S.QUEUED,) * (len(STAGES) - at - 1)
    return job_in(job_status, (*(S.SUCCEEDED,) * at, status, *rest))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("status", "stage_status"), list(product(JobStatus, repeat=2)))
def test_a_stage_is_opened_exactly_where_it_and_its_job_may_run(
    status: JobStatus, stage_status: JobStatus, stage: Stage
) -> None:
    before = with_stage(status, stage, stage_status)
    if allowed(stage_status, S.RUNNING) and (status is S.RUNNING or allowed(status, S.RUNNING)):
        after = jobs.open_stage(before, stage, TASK, NOW)
        assert after.status is S.RUNNING
        assert after.stage(stage) == StageState(stage, S.RUNNING, task_id=TASK)
        assert (after.due_at, after.updated_at) == (None, NOW)
    else:
        with pytest.raises(IllegalTransition):
            jobs.open_stage(before, stage, TASK, NOW)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("status", "stage_status"), list(product(JobStatus, repeat=2)))
def test_a_stage_ends_its_job_exactly_where_both_may_end_so(
    status: JobStatus, stage_status: JobStatus, stage: Stage, end: str
) -> None:
    target, act = ENDS[end]
    before = with_stage(status, stage, stage_status)
    if allowed(status, target) and allowed(stage_status, target):
        after = act(before, stage)
        assert (after.status, after.stage(stage).status) == (target, target)
        assert after.error is not None
        assert after.error == after.stage(stage).error
        assert (after.due_at, after.completed_at) == (None, NOW)
        assert after.lease == Lease(GENERATION), "nobody holds a job that is over"
    else:
        with pytest.raises(IllegalTransition):
            act(before, stage)


@pytest.mark.parametrize("stage_status", JobStatus)
def test_a_stage_completes_exactly_where_the_table_has_an_edge_and_makes_its_job_due(stage_status: JobStatus) -> None:
    before = evolve(job_at(Stage.AGENT, stage_status), due_at=None)
    if allowed(stage_status, S.SUCCEEDED):
        after = jobs.complete_stage(before, Stage.AGENT, NOW)
        assert after.stage(Stage.AGENT).status is S.SUCCEEDED
        assert (after.status, after.due_at, after.updated_at) == (S.RUNNING, NOW, NOW)
        assert after.completed_at is None
    else:
        with pytest.raises(IllegalTransition):
            jobs.complete_stage(before, Stage.AGENT, NOW)


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_finishes_exactly_where_the_table_has_an_edge(status: JobStatus) -> None:
    before = job_in(status, (S.SUCCEEDED,) * 3)
    if allowed(status, S.SUCCEEDED):
        after = jobs.finish(before, NOW)
        assert (after.status, after.error, after.completed_at, after.due_at) == (S.SUCCEEDED, None, NOW, None)
        assert after.lease == Lease(GENERATION)
    else:
        with pytest.raises(IllegalTransition):
            jobs.finish(before, NOW)


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_is_closed_with_its_open_stage_and_only_while_it_is_live(status: JobStatus) -> None:
    before = job_in(status, (S.SUCCEEDED, S.RUNNING, S.QUEUED))
    if status in LIVE:
        after = jobs.close(before, CHANGED, NOW)
        assert (after.status, after.error) == (S.FAILED, CHANGED)
        assert [state.status for state in after.stages] == [S.SUCCEEDED, S.FAILED, S.QUEUED]
        assert after.stage(Stage.AGENT).error == CHANGED
    else:
        with pytest.raises(IllegalTransition):
            jobs.close(before, CHANGED, NOW)


def test_a_job_whose_stages_all_succeeded_can_still_be_closed() -> None:
    after = jobs.close(job_in(S.RUNNING, (S.SUCCEEDED,) * 3), CHANGED, NOW)
    assert (after.status, after.error) == (S.FAILED, CHANGED)
    assert after.progress == 1.0


def test_every_edge_of_the_table_is_taken_by_some_function() -> None:
    reached = {target for target, _ in ENDS.values()} | {S.RUNNING, S.SUCCEEDED}
    assert {target for targets in EDGES.values() for target in targets} == reached


@pytest.mark.parametrize("reason", DenialReason)
def test_a_block_keeps_the_policys_reason_and_its_hint(reason: DenialReason) -> None:
    denied = Denied(reason, "not today", NOW + LEASE)
    after = jobs.block(job_in(S.QUEUED), Stage.AGENT, denied, NOW)
    assert after.error == Diagnosis(ErrorCode(reason.value), "not today")
    assert (after.retry_at, after.stage(Stage.AGENT).retry_at) == (NOW + LEASE, NOW + LEASE)
    assert after.due_at is None, "a hint wakes nobody"


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.UNKNOWN_EXECUTION])
def test_only_an_unknown_execution_makes_a_job_unknown(code: ErrorCode) -> None:
    assert jobs.fail_stage(job_at(Stage.AGENT), Stage.AGENT, Diagnosis(code, ""), NOW).status is S.FAILED


def test_a_withheld_call_is_its_queued_stage_s_end() -> None:
    before = job_at(Stage.AGENT, S.QUEUED)
    withheld = jobs.withhold(before, UNKNOWN)
    assert (before.withheld, withheld.withheld) == (None, UNKNOWN)
    assert jobs.withhold(before, None) is before
    after = jobs.fail_stage(withheld, Stage.AGENT, UNKNOWN, NOW)
    assert (after.status, after.stage(Stage.AGENT).status, after.error) == (S.UNKNOWN, S.UNKNOWN, UNKNOWN)
    assert after.withheld is None, "it is over"


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not S.QUEUED])
def test_a_call_is_withheld_only_before_its_stage_is_opened(status: JobStatus) -> None:
    with pytest.raises(AssertionError, match="has its call"):
        jobs.withhold(job_at(Stage.AGENT, status), UNKNOWN)


def test_a_withheld_stage_that_is_valid_by_other_means_is_reused() -> None:
    after = jobs.reuse(jobs.withhold(job_at(Stage.AGENT, S.QUEUED), UNKNOWN), [Stage.AGENT])
    assert (after.stage(Stage.AGENT).status, after.stage(Stage.AGENT).error) == (S.SUCCEEDED, None)


@pytest.mark.parametrize("status", JobStatus)
def test_a_stage_is_reused_only_while_it_is_live(status: JobStatus) -> None:
    before = job_at(Stage.AGENT, status)
    after = jobs.reuse(before, STAGES[:2])
    assert after.stage(Stage.VISUAL) == before.stage(Stage.VISUAL), "what ended by its own task stays as it is"
    if status in LIVE:
        assert after.stage(Stage.AGENT) == StageState(Stage.AGENT, S.SUCCEEDED, reused=True)
    else:
        assert after == before


def test_a_new_job_has_three_queued_stages_in_order() -> None:
    assert jobs.new_stages() == tuple(StageState(stage) for stage in (Stage.VISUAL, Stage.AGENT, Stage.TEXT))


@given(st.tuples(*[st.sampled_from(JobStatus)] * 3))
def test_the_current_stage_and_the_progress_follow_from_the_stages(stages: tuple[JobStatus, ...]) -> None:
    job = job_in(S.RUNNING, stages)
    first = next((stage for stage, status in zip(STAGES, stages, strict=True) if status is not S.SUCCEEDED), None)
    assert job.current_stage is first
    assert job.progress == pytest.approx(stages.count(S.SUCCEEDED) / 3)


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_can_be_retried_exactly_when_it_ended_without_success(status: JobStatus) -> None:
    job = job_in(status)
    assert job.live is (status in LIVE)
    assert (status in RETRYABLE) is (not job.live and status is not S.SUCCEEDED)


def test_a_postponed_job_changes_nothing_but_when_it_is_due() -> None:
    before = job_in(S.QUEUED)
    assert jobs.postpone(before, NOW + LEASE) == evolve(before, due_at=NOW + LEASE)


def test_only_a_held_job_has_a_claim() -> None:
    held = job_in(S.RUNNING)
    assert held.claim == JobClaim(held.scope, held.job_id, ME, GENERATION)
    with pytest.raises(AssertionError, match="no claim"):
        _ = evolve(held, lease=Lease(GENERATION)).claim
