"""The host's say in what may be done."""

from typing import ClassVar

import pytest

from imgproc_adapters.testing.factories import make_request
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.policy import DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.ports.policy import ImmediatePolicy, OperationPolicy

AGENT = Operation.ANALYSIS_AGENT


class OperationPolicyContract:
    """Needs the fixture ``policy``: a policy that would grant a handful of requests of each scope.

    ``remembers`` is False for a policy without state: it cannot know that a key was released or asked for
    differently before. The engine keeps grants and tombstones as rows of its own, so that is allowed.
    """

    pytestmark = pytest.mark.asyncio

    remembers: ClassVar[bool] = True

    async def test_what_may_be_acquired_is_not_denied_by_a_probe(self, policy: OperationPolicy) -> None:
        assert await policy.probe(A, AGENT) is None
        assert isinstance(await policy.acquire(make_request("key-1", A)), Granted)

    async def test_acquiring_again_returns_the_same_reservation(self, policy: OperationPolicy) -> None:
        first = await policy.acquire(make_request("key-1", A))
        assert isinstance(first, Granted)
        assert await policy.acquire(make_request("key-1", A)) == first

    async def test_other_keys_and_scopes_have_reservations_of_their_own(self, policy: OperationPolicy) -> None:
        requests = [make_request("key-1", A), make_request("key-2", A), make_request("key-1", B)]
        granted = [await policy.acquire(request) for request in requests]
        assert len({g.reservation for g in granted if isinstance(g, Granted)}) == len(requests)

    async def test_a_reservation_is_committed_and_may_be_committed_again(self, policy: OperationPolicy) -> None:
        request = make_request("key-1", A)
        granted = await policy.acquire(request)
        assert isinstance(granted, Granted)
        for _ in range(2):
            assert await policy.commit(request, granted.reservation) == granted

    async def test_a_reservation_of_another_request_cannot_be_committed(self, policy: OperationPolicy) -> None:
        granted = await policy.acquire(make_request("key-1", A))
        assert isinstance(granted, Granted)
        other = make_request("key-2", A)
        await policy.acquire(other)
        assert isinstance(await policy.commit(other, granted.reservation), Denied)

    async def test_a_release_may_be_repeated_and_may_come_for_a_key_never_seen(self, policy: OperationPolicy) -> None:
        await policy.acquire(make_request("key-1", A))
        assert [await policy.release(A, AGENT, key) for key in ("key-1", "key-1", "never-seen")] == [True] * 3

    async def test_a_key_that_comes_back_for_something_else_is_forbidden(self, policy: OperationPolicy) -> None:
        self._skip_unless_it_remembers()
        await policy.acquire(make_request("key-1", A, resource="meme-1"))
        self._assert_forbidden(await policy.acquire(make_request("key-1", A, resource="meme-2")))

    @pytest.mark.parametrize("seen", [True, False])
    async def test_a_released_key_is_forbidden_for_ever(self, policy: OperationPolicy, *, seen: bool) -> None:
        self._skip_unless_it_remembers()
        if seen:
            await policy.acquire(make_request("key-1", A))
        await policy.release(A, AGENT, "key-1")
        self._assert_forbidden(await policy.acquire(make_request("key-1", A)))
        assert isinstance(await policy.acquire(make_request("key-1", B)), Granted)

    async def test_what_was_committed_is_given_back_too_and_cannot_be_spent_again(
        self, policy: OperationPolicy
    ) -> None:
        self._skip_unless_it_remembers()
        request = make_request("key-1", A)
        granted = await policy.acquire(request)
        assert isinstance(granted, Granted)
        await policy.commit(request, granted.reservation)
        assert await policy.release(A, AGENT, "key-1")
        self._assert_forbidden(await policy.commit(request, granted.reservation))
        self._assert_forbidden(await policy.acquire(request))

    def _skip_unless_it_remembers(self) -> None:
        if not self.remembers:
            pytest.skip("the policy has no state of its own")

    def _assert_forbidden(self, decision: object) -> None:
        assert isinstance(decision, Denied)
        assert decision.reason is DenialReason.FORBIDDEN


class ImmediatePolicyContract:
    """Needs the fixture ``policy``. What it answers at once is what it answers to those who wait."""

    pytestmark = pytest.mark.asyncio

    async def test_it_is_known_as_immediate(self, policy: ImmediatePolicy) -> None:
        assert isinstance(policy, ImmediatePolicy)

    @pytest.mark.parametrize("request_of", [make_request("key-1", A), make_request("key-1", B), make_request("key-2")])
    async def test_what_is_acquired_at_once_is_what_is_acquired(
        self, policy: ImmediatePolicy, request_of: OperationRequest
    ) -> None:
        granted = policy.acquire_now(request_of)
        assert isinstance(granted, Granted)
        assert await policy.acquire(request_of) == granted
        assert policy.acquire_now(request_of) == granted

    async def test_a_reservation_may_be_committed_the_other_way(self, policy: ImmediatePolicy) -> None:
        first, second = make_request("key-1", A), make_request("key-2", A)
        at_once, waited = policy.acquire_now(first), await policy.acquire(second)
        assert isinstance(at_once, Granted)
        assert isinstance(waited, Granted)
        assert await policy.commit(first, at_once.reservation) == policy.commit_now(first, at_once.reservation)
        assert policy.commit_now(second, waited.reservation) == waited

    async def test_a_reservation_of_another_request_is_not_committed_at_once(self, policy: ImmediatePolicy) -> None:
        granted = policy.acquire_now(make_request("key-1", A))
        assert isinstance(granted, Granted)
        for other in (make_request("key-2", A), make_request("key-1", B), make_request("key-1", A, resource="meme-2")):
            denied = policy.commit_now(other, granted.reservation)
            assert denied == await policy.commit(other, granted.reservation)
            assert isinstance(denied, Denied)
