"""A policy is asked where a transaction decides only if that is its own answer."""

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site

from imgproc_adapters.policy import AllowAllPolicy, UnavailablePolicy
from imgproc_domain.policy import Decision, DenialReason, Denied, OperationRequest
from imgproc_domain.ports.policy import OperationPolicy

NO = Denied(DenialReason.FORBIDDEN, "no")


class _DeniesWhenAsked(AllowAllPolicy):
    async def acquire(self, request: OperationRequest) -> Decision:
        return NO


class _DeniesToSpend(AllowAllPolicy):
    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        return NO


class _DeniesAtOnce(AllowAllPolicy):
    def acquire_now(self, request: OperationRequest) -> Decision:
        return NO


class _Wrapped(UnavailablePolicy):
    """Answers itself, and leaves everything else to a policy it wraps."""

    def __getattr__(self, name: str) -> object:
        return getattr(AllowAllPolicy(), name)


@pytest.mark.parametrize("policy", [AllowAllPolicy(), _DeniesAtOnce()])
def test_a_policy_that_answers_from_the_request_alone_is_immediate(policy: OperationPolicy) -> None:
    assert evolve(Site().deployment, policy=policy).immediate is policy


@pytest.mark.parametrize("policy", [UnavailablePolicy(), _DeniesWhenAsked(), _DeniesToSpend(), _Wrapped()])
def test_one_that_answers_otherwise_when_it_is_asked_is_not(policy: OperationPolicy) -> None:
    assert evolve(Site().deployment, policy=policy).immediate is None
