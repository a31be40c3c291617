"""The default policy: everything is allowed, nothing is counted, nothing is remembered."""

from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.scope import Scope


class AllowAllPolicy:
    """Allows every operation, in every process and after every restart, without any state of its own.

    A reservation is derived from the whole request, so that acquire is idempotent everywhere and a reservation is
    never spent by a request other than its own. That a released key is never acquired again is kept by the engine,
    whose grants and release tombstones are rows; this policy alone would grant such a key once more.
    """

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:  # noqa: ARG002 - the answer is one
        return None

    async def acquire(self, request: OperationRequest) -> Decision:
        return self.acquire_now(request)

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        return self.commit_now(request, reservation)

    def acquire_now(self, request: OperationRequest) -> Decision:
        return Granted(_reservation(request))

    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:
        if reservation != _reservation(request):
            return Denied(DenialReason.FORBIDDEN, "the reservation belongs to another request")
        return Granted(reservation)

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:  # noqa: ARG002 - nothing is kept
        return True


def _reservation(request: OperationRequest) -> str:
    return f"allow-all:{request.fingerprint}"
