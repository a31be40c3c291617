"""The create-or-reuse table, exhaustively: status of the newest job x who asks x what differs x what is valid."""

from itertools import product

import pytest
from attrs import evolve
from tests.unit.domain.build import CONFIG, OTHER_PICTURE, PICTURE, TROUBLE, UNKNOWN, cat, job_at, job_in, task_in

from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.job import LIVE, Job, JobStatus
from imgproc_domain.stage import ReverseImagePolicy, Stage
from imgproc_domain.submission import (
    Conflict,
    Mode,
    NewRevision,
    Reuse,
    Signature,
    Verdict,
    asks_for_tried,
    decide,
    why_withheld,
)
from imgproc_domain.task import TaskStatus

POLICY = ReverseImagePolicy.FORBID
WANTED = Signature(PICTURE, POLICY, CONFIG.fingerprint)
REVISION = 4
BOTH = [False, True]


def newest(status: JobStatus, policy: ReverseImagePolicy = POLICY) -> Job:
    return job_in(status, revision=REVISION, policy=policy)


def wanted(*, picture: bool = False, policy: bool = False, config: bool = False) -> Signature:
    """Return the signature of the newest job, but for the parts named."""
    return Signature(
        OTHER_PICTURE if picture else PICTURE,
        ReverseImagePolicy.AUTO if policy else POLICY,
        "another configuration" if config else CONFIG.fingerprint,
    )


@pytest.mark.parametrize(("mode", "all_valid"), list(product(Mode, BOTH)))
def test_a_picture_without_a_job_gets_its_first_revision(mode: Mode, all_valid: bool) -> None:
    assert decide(None, WANTED, mode, all_valid=all_valid) == NewRevision(1)


@pytest.mark.parametrize(("status", "mode", "all_valid"), list(product(LIVE, Mode, BOTH)))
def test_an_active_job_of_the_same_signature_is_reused_by_everybody(
    status: JobStatus, mode: Mode, all_valid: bool
) -> None:
    job = newest(status)
    assert decide(job, WANTED, mode, all_valid=all_valid) == Reuse(job)


@pytest.mark.parametrize(("status", "mode", "all_valid", "config"), list(product(LIVE, Mode, BOTH, BOTH)))
def test_an_active_job_under_another_policy_is_a_conflict_for_everybody(
    status: JobStatus, mode: Mode, all_valid: bool, config: bool
) -> None:
    job = newest(status)
    assert decide(job, wanted(policy=True, config=config), mode, all_valid=all_valid) == Conflict(job)


@pytest.mark.parametrize(("status", "mode", "all_valid"), list(product(LIVE, Mode, BOTH)))
def test_an_active_job_of_an_older_configuration_is_closed_for_the_next_revision(
    status: JobStatus, mode: Mode, all_valid: bool
) -> None:
    job = newest(status)
    verdict = decide(job, wanted(config=True), mode, all_valid=all_valid)
    assert isinstance(verdict, NewRevision)
    assert (verdict.revision, verdict.closes) == (REVISION + 1, job)
    assert verdict.reason is not None
    assert verdict.reason.code is ErrorCode.CONFIGURATION_CHANGED


@pytest.mark.parametrize("mode", Mode)
def test_a_job_whose_agent_is_at_work_is_not_closed_for_its_configuration(mode: Mode) -> None:
    job = job_at(Stage.AGENT, meme=cat())
    asked = evolve(WANTED, image_sha256=job.image_sha256, config_fingerprint="another configuration")
    assert decide(job, asked, mode, all_valid=False) == Reuse(job)


@pytest.mark.parametrize(("status", "mode", "policy", "config"), list(product(LIVE, Mode, BOTH, BOTH)))
def test_an_active_job_of_a_replaced_picture_is_closed_whatever_else_differs(
    status: JobStatus, mode: Mode, policy: bool, config: bool
) -> None:
    job = newest(status)
    verdict = decide(job, wanted(picture=True, policy=policy, config=config), mode, all_valid=False)
    assert isinstance(verdict, NewRevision)
    assert (verdict.revision, verdict.closes) == (REVISION + 1, job)
    assert verdict.reason is not None
    assert verdict.reason.code is ErrorCode.TARGET_CHANGED


@pytest.mark.parametrize("mode", Mode)
def test_a_success_whose_products_are_still_valid_is_reused_by_everybody(mode: Mode) -> None:
    job = newest(JobStatus.SUCCEEDED)
    assert decide(job, WANTED, mode, all_valid=True) == Reuse(job)


@pytest.mark.parametrize("mode", Mode)
def test_a_success_with_something_stale_opens_the_next_revision_for_everybody(mode: Mode) -> None:
    assert decide(newest(JobStatus.SUCCEEDED), WANTED, mode, all_valid=False) == NewRevision(REVISION + 1)


FAILURES = [JobStatus.FAILED, JobStatus.BLOCKED, JobStatus.UNKNOWN]


@pytest.mark.parametrize(("status", "all_valid"), list(product(FAILURES, BOTH)))
def test_an_upload_returns_a_terminal_failure_instead_of_restarting_it(status: JobStatus, all_valid: bool) -> None:
    job = newest(status)
    assert decide(job, WANTED, Mode.AUTOMATIC, all_valid=all_valid) == Reuse(job)


@pytest.mark.parametrize(("status", "all_valid"), list(product(FAILURES, BOTH)))
def test_a_person_s_retry_of_a_terminal_failure_opens_the_next_revision(status: JobStatus, all_valid: bool) -> None:
    assert decide(newest(status), WANTED, Mode.EXPLICIT, all_valid=all_valid) == NewRevision(REVISION + 1)


ENDED = [JobStatus.SUCCEEDED, *FAILURES]
DIFFERENT = [parts for parts in product(BOTH, repeat=3) if any(parts)]


@pytest.mark.parametrize(("status", "mode", "all_valid", "parts"), list(product(ENDED, Mode, BOTH, DIFFERENT)))
def test_an_ended_job_of_another_signature_is_no_earlier_try_unless_its_call_is_unknown(
    status: JobStatus, mode: Mode, all_valid: bool, parts: tuple[bool, bool, bool]
) -> None:
    picture, policy, config = parts
    asked = wanted(picture=picture, policy=policy, config=config)
    job = newest(status)
    undecided = status is JobStatus.UNKNOWN and mode is Mode.AUTOMATIC and not picture and not policy
    expected = Reuse(job) if undecided else NewRevision(REVISION + 1)
    assert decide(job, asked, mode, all_valid=all_valid) == expected


TABLE = list(product(ENDED, FAILURES, Mode, BOTH))


@pytest.mark.parametrize(("status", "before", "mode", "config"), TABLE)
def test_an_upload_returns_the_last_try_of_its_policy_from_behind_that_of_another(
    status: JobStatus, before: JobStatus, mode: Mode, config: bool
) -> None:
    tried = newest(before)
    other = evolve(newest(status, ReverseImagePolicy.AUTO), revision=REVISION + 1)
    verdict = decide(other, wanted(config=config), mode, all_valid=False, tried=tried)
    answers = mode is Mode.AUTOMATIC and (before is JobStatus.UNKNOWN or not config)
    assert verdict == (Reuse(tried) if answers else NewRevision(REVISION + 2))


@pytest.mark.parametrize(("status", "all_valid"), list(product(ENDED, BOTH)))
def test_a_success_behind_a_job_of_another_policy_is_no_answer(status: JobStatus, all_valid: bool) -> None:
    other = evolve(newest(status, ReverseImagePolicy.AUTO), revision=REVISION + 1)
    verdict = decide(other, WANTED, Mode.AUTOMATIC, all_valid=all_valid, tried=newest(JobStatus.SUCCEEDED))
    assert verdict == NewRevision(REVISION + 2)


@pytest.mark.parametrize(("status", "mode", "picture", "policy"), list(product(JobStatus, Mode, BOTH, BOTH)))
def test_only_an_upload_of_the_same_picture_under_another_policy_looks_further_back(
    status: JobStatus, mode: Mode, picture: bool, policy: bool
) -> None:
    asked = wanted(picture=picture, policy=policy)
    expected = status not in LIVE and mode is Mode.AUTOMATIC and policy and not picture
    assert asks_for_tried(newest(status), asked.image_sha256, asked.policy, mode) is expected
    assert not asks_for_tried(None, asked.image_sha256, asked.policy, mode)


def test_only_a_call_of_which_nobody_knows_the_end_is_withheld() -> None:
    unknown = evolve(task_in(TaskStatus.FAILED), error=UNKNOWN)
    reason = why_withheld(unknown)
    assert reason is not None
    assert reason.code is ErrorCode.UNKNOWN_EXECUTION
    assert str(unknown.task_id) in reason.message
    assert why_withheld(evolve(unknown, error=TROUBLE)) is None
    assert why_withheld(task_in(TaskStatus.RUNNING)) is None
    assert why_withheld(None) is None


EVERYTHING = list(product(JobStatus, Mode, product(BOTH, repeat=3), BOTH))


def verdicts() -> list[tuple[Job, Verdict]]:
    found = []
    for status, mode, (picture, policy, config), all_valid in EVERYTHING:
        job = newest(status)
        asked = wanted(picture=picture, policy=policy, config=config)
        found.append((job, decide(job, asked, mode, all_valid=all_valid)))
    return found


def test_no_verdict_revives_an_ended_job_or_closes_one() -> None:
    for job, verdict in verdicts():
        if isinstance(verdict, NewRevision):
            assert verdict.revision == job.revision + 1
            assert (verdict.closes is not None) is job.live
            assert (verdict.reason is not None) is job.live
        else:
            assert verdict.job == job


def test_only_an_active_job_can_be_in_conflict() -> None:
    assert all(job.live for job, verdict in verdicts() if isinstance(verdict, Conflict))


@pytest.mark.parametrize("due_at", BOTH)
def test_time_alone_restarts_nothing(due_at: bool) -> None:
    job = newest(JobStatus.BLOCKED)
    hinted = evolve(job, retry_at=job.created_at if due_at else None)
    assert decide(hinted, WANTED, Mode.AUTOMATIC, all_valid=False) == Reuse(hinted)
