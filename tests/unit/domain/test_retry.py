"""How long a transient failure waits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.retry import RetryPolicy

HOUR = timedelta(hours=1)
FAILURES = st.integers(1, 10_000)
WAITS = st.timedeltas(timedelta(0), timedelta(days=30))
BASES = st.timedeltas(timedelta(milliseconds=1), timedelta(minutes=1))


def test_the_wait_doubles_from_the_base_up_to_the_longest() -> None:
    policy = RetryPolicy(base=timedelta(seconds=2), longest=timedelta(seconds=20))
    assert [policy.backoff(n) / timedelta(seconds=1) for n in range(1, 7)] == [2, 4, 8, 16, 20, 20]


@given(FAILURES, BASES)
def test_the_wait_is_never_shorter_than_the_base_nor_longer_than_the_longest(failures: int, base: timedelta) -> None:
    policy = RetryPolicy(base=base)
    assert base <= policy.backoff(failures) <= policy.longest


@given(FAILURES, BASES)
def test_one_more_failure_never_shortens_the_wait(failures: int, base: timedelta) -> None:
    policy = RetryPolicy(base=base)
    assert policy.backoff(failures) <= policy.backoff(failures + 1)


@given(FAILURES, WAITS)
def test_what_a_provider_asks_for_lengthens_the_wait_to_an_hour_at_most(failures: int, asked: timedelta) -> None:
    policy = RetryPolicy()
    own = policy.backoff(failures)
    assert policy.backoff(failures, asked) == max(own, min(asked, HOUR))


@pytest.mark.parametrize("asked", [timedelta(0), timedelta(seconds=-5)])
def test_a_provider_cannot_shorten_the_wait(asked: timedelta) -> None:
    assert RetryPolicy().backoff(3, asked) == RetryPolicy().backoff(3)
