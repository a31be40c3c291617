"""The fencing token: which claims may write back, and how the generation moves."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.build import GENERATION, LEASE, ME, NOW, SECOND, SOMEBODY_ELSE

from imgproc_adapters.testing.factories import make_maintenance_task
from imgproc_domain.claim import UNCLAIMED, Claim, Fence, JobClaim, Lease, drop, revoke, take, why_not_current
from imgproc_domain.ids import JobId, TaskId, WorkerId
from imgproc_domain.scope import LOCAL

TASK_ID = make_maintenance_task().task_id
CLAIM = Claim(LOCAL, TASK_ID, ME, GENERATION)
HELD = Lease(GENERATION, ME, NOW + LEASE)
STEPS = st.lists(st.sampled_from(["take", "drop", "revoke"]), max_size=40)


def test_the_claim_of_the_current_holder_is_current() -> None:
    assert why_not_current(HELD, CLAIM, NOW) is None


def test_a_job_is_fenced_by_the_same_rule_as_a_task() -> None:
    claim = JobClaim(LOCAL, JobId(TASK_ID), ME, GENERATION)
    assert why_not_current(HELD, claim, NOW) is None
    assert why_not_current(revoke(HELD), claim, NOW) is Fence.GENERATION


@pytest.mark.parametrize("generation", [0, GENERATION - 1, GENERATION + 1])
def test_a_claim_of_another_generation_is_not_current(generation: int) -> None:
    assert why_not_current(HELD, Claim(LOCAL, TASK_ID, ME, generation), NOW) is Fence.GENERATION


def test_a_claim_of_another_owner_is_not_current() -> None:
    assert why_not_current(HELD, Claim(LOCAL, TASK_ID, SOMEBODY_ELSE, GENERATION), NOW) is Fence.OWNER


@pytest.mark.parametrize(
    ("after", "fence"),
    [
        (LEASE - timedelta(microseconds=1), None),
        (LEASE, Fence.EXPIRED),
        (LEASE + SECOND, Fence.EXPIRED),
    ],
)
def test_a_lease_ends_at_its_very_instant(after: timedelta, fence: Fence | None) -> None:
    assert why_not_current(HELD, CLAIM, NOW + after) is fence


def test_a_lease_without_an_end_is_no_lease() -> None:
    assert why_not_current(Lease(GENERATION, ME), CLAIM, NOW) is Fence.EXPIRED


@pytest.mark.parametrize(("older", "other", "over"), list(product([False, True], repeat=3)))
def test_the_generation_is_named_before_the_owner_and_the_owner_before_the_time(
    older: bool, other: bool, over: bool
) -> None:
    claim = Claim(LOCAL, TASK_ID, SOMEBODY_ELSE if other else ME, GENERATION - older)
    now = NOW + LEASE if over else NOW
    wrong = [(older, Fence.GENERATION), (other, Fence.OWNER), (over, Fence.EXPIRED)]
    assert why_not_current(HELD, claim, now) is next((fence for is_wrong, fence in wrong if is_wrong), None)


def test_a_lease_that_was_given_up_fences_its_holder_without_a_new_generation() -> None:
    assert drop(HELD) == Lease(GENERATION)
    assert why_not_current(drop(HELD), CLAIM, NOW) is Fence.OWNER


def test_a_lease_that_was_taken_away_fences_its_holder_by_the_generation() -> None:
    assert revoke(HELD) == Lease(GENERATION + 1)
    assert why_not_current(revoke(HELD), CLAIM, NOW) is Fence.GENERATION


@given(STEPS)
def test_the_generation_never_falls_and_no_two_claims_share_one(steps: list[str]) -> None:
    lease, claimed = UNCLAIMED, []
    for step in steps:
        before = lease
        match step:
            case "take":
                lease = take(lease, ME, NOW + LEASE)
                assert lease.generation == before.generation + 1
                claimed.append(lease.generation)
            case "drop":
                lease = drop(lease)
            case _:
                lease = revoke(lease)
        assert lease.generation >= before.generation
    assert len(set(claimed)) == len(claimed)


@given(STEPS)
def test_only_the_last_claim_can_be_current(steps: list[str]) -> None:
    lease = UNCLAIMED
    tokens: list[Claim] = []
    for number, step in enumerate(steps):
        if step == "take":
            lease = take(lease, WorkerId(f"worker-{number}"), NOW + LEASE)
            assert lease.owner is not None
            tokens.append(Claim(LOCAL, TaskId(TASK_ID), lease.owner, lease.generation))
        else:
            lease = drop(lease) if step == "drop" else revoke(lease)
    current = [token for token in tokens if why_not_current(lease, token, NOW) is None]
    assert current == (tokens[-1:] if steps and steps[-1] == "take" else [])
