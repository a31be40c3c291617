"""The policy of a host that did not configure one: it fails closed."""

from typing import Final

from imgproc_domain.policy import Decision, DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.scope import Scope

_NOBODY: Final = Denied(DenialReason.UNAVAILABLE, "no operation policy is configured")


class UnavailablePolicy:
    """Denies everything as ``operation_policy_unavailable`` and takes no release, which therefore stays pending."""

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:  # noqa: ARG002 - nobody to ask
        return _NOBODY

    async def acquire(self, request: OperationRequest) -> Decision:  # noqa: ARG002 - nobody to ask
        return _NOBODY

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:  # noqa: ARG002 - nobody to ask
        return _NOBODY

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:  # noqa: ARG002 - nobody to tell
        return False
