"""Bounded budgets, shared fairly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.lane import LaneLimits, shares
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane

SCOPES = st.integers(0, 40).map(lambda n: [Scope(f"scope-{i}") for i in range(n)])
FREE = st.integers(-5, 200)


@given(FREE, SCOPES)
def test_no_place_is_wasted_and_none_is_given_twice(free: int, ready: list[Scope]) -> None:
    given_out = shares(free, ready)
    assert sum(places for _, places in given_out) == (max(free, 0) if ready else 0)
    assert len({scope for scope, _ in given_out}) == len(given_out)
    assert all(places > 0 for _, places in given_out)


@given(FREE, SCOPES)
def test_no_scope_gets_more_than_one_place_more_than_another(free: int, ready: list[Scope]) -> None:
    got = dict(shares(free, ready))
    places = [got.get(scope, 0) for scope in ready] or [0]
    assert max(places) - min(places) <= 1


@given(FREE, SCOPES)
def test_what_is_left_over_goes_to_the_first_in_the_order_of_their_turns(free: int, ready: list[Scope]) -> None:
    given_out = shares(free, ready)
    assert [scope for scope, _ in given_out] == ready[: len(given_out)]
    places = [count for _, count in given_out]
    assert places == sorted(places, reverse=True)


@given(st.integers(1, 20), st.integers(1, 12))
def test_with_turns_every_scope_gets_the_same_in_the_end(scopes: int, free: int) -> None:
    ready = [Scope(f"scope-{i}") for i in range(scopes)]
    total = dict.fromkeys(ready, 0)
    for turn in range(scopes):
        for scope, places in shares(free, ready[turn:] + ready[:turn]):
            total[scope] += places
    assert set(total.values()) == {free}


@pytest.mark.parametrize("lane", Lane)
def test_every_lane_is_bounded(lane: Lane) -> None:
    assert LaneLimits()[lane] >= 1


def test_limits_of_two_deployments_are_independent() -> None:
    assert LaneLimits().limits is not LaneLimits().limits
    assert LaneLimits({Lane.AGENT: 7})[Lane.AGENT] == 7
