"""The host's say in what may be done."""

from typing import Protocol, runtime_checkable

from imgproc_domain.policy import Decision, Denied, Operation, OperationRequest
from imgproc_domain.scope import Scope


class OperationPolicy(Protocol):
    """Quotas and permissions, kept by the host.

    Every answer is a value. An adapter whose backing service fails, or answers nonsense, returns `Denied` with
    ``operation_policy_unavailable``: it fails closed. Called outside transactions only.
    """

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:
        """Say whether an acquire would be granted now, reserving nothing."""
        ...

    async def acquire(self, request: OperationRequest) -> Decision:
        """Reserve the units. Idempotent by ``(scope, operation, logical_request_key)``.

        The same key with another fingerprint, or after its release, is denied as ``operation_forbidden``.
        """
        ...

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        """Spend the reservation, before the external call. Idempotent."""
        ...

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        """Give the reservation back for ever, committed or not; a key never seen is remembered as released.

        Asked only for keys under which no external call was made or can be made any more: a worker may have died
        between the policy's commit and its own record of it. Idempotent. False if the policy could not be reached: the
        caller tries again later.
        """
        ...


@runtime_checkable
class ImmediatePolicy(OperationPolicy, Protocol):
    """A policy whose answers follow from the request alone: it waits for nothing, keeps nothing and counts nothing.

    Such an answer may be taken where a transaction decides, since nothing outside of it is told or asked.
    """

    def acquire_now(self, request: OperationRequest) -> Decision:
        """As `acquire`."""
        ...

    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:
        """As `commit`."""
        ...
