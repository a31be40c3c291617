"""The policies that come with imgproc."""

from typing import ClassVar

import pytest

from imgproc_adapters.policy import AllowAllPolicy, UnavailablePolicy
from imgproc_adapters.policy.http import HttpPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.testing.contracts import ImmediatePolicyContract, OperationPolicyContract
from imgproc_adapters.testing.factories import make_request
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_domain.policy import DenialReason, Denied, Granted, Operation
from imgproc_domain.ports.policy import ImmediatePolicy
from imgproc_domain.scope import LOCAL


class TestAllowAll(OperationPolicyContract):
    remembers: ClassVar[bool] = False

    @pytest.fixture
    def policy(self) -> AllowAllPolicy:
        return AllowAllPolicy()

    async def test_every_process_derives_the_same_reservation(self) -> None:
        first, second = [await AllowAllPolicy().acquire(make_request("key-1")) for _ in range(2)]
        assert isinstance(first, Granted)
        assert first == second

    async def test_a_reservation_is_not_spent_by_the_same_key_for_something_else(self) -> None:
        policy = AllowAllPolicy()
        granted = await policy.acquire(make_request("key-1", resource="meme-1"))
        assert isinstance(granted, Granted)
        denied = await policy.commit(make_request("key-1", resource="meme-2"), granted.reservation)
        assert isinstance(denied, Denied)
        assert denied.reason is DenialReason.FORBIDDEN


class TestAllowAllAtOnce(ImmediatePolicyContract):
    @pytest.fixture
    def policy(self) -> AllowAllPolicy:
        return AllowAllPolicy()


@pytest.mark.parametrize("policy", [QuotaPolicy, HttpPolicy, UnavailablePolicy, RememberingPolicy])
def test_a_policy_that_asks_or_keeps_anything_is_not_immediate(policy: type) -> None:
    assert issubclass(AllowAllPolicy, ImmediatePolicy)
    assert not issubclass(policy, ImmediatePolicy)


class TestUnavailable:
    async def test_everything_is_denied_as_unavailable(self) -> None:
        policy = UnavailablePolicy()
        answers = [
            await policy.probe(LOCAL, Operation.ANALYSIS_AGENT),
            await policy.acquire(make_request()),
            await policy.commit(make_request(), "reservation"),
        ]
        assert [a.reason for a in answers if isinstance(a, Denied)] == [DenialReason.UNAVAILABLE] * 3

    async def test_a_release_is_not_taken_so_that_it_stays_pending(self) -> None:
        assert not await UnavailablePolicy().release(LOCAL, Operation.ANALYSIS_AGENT, "key-1")
