"""A policy that can be told to deny, and remembers what it reserved."""

from collections.abc import Collection
from enum import Enum, auto

from attrs import Factory, define

from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.scope import Scope


class Reservation(Enum):
    RESERVED = auto()
    COMMITTED = auto()
    RELEASED = auto()


Key = tuple[Scope, Operation, str]


@define(eq=False)
class RememberingPolicy:
    """Faithful to the port in one process: idempotent, refuses a key with another fingerprint or after its release.

    While ``denying`` it grants no new request for the operations that it ``denies``.
    """

    denying: bool = False
    denies: Collection[Operation] = (Operation.ANALYSIS_AGENT,)
    known: dict[Key, Reservation] = Factory(dict)
    fingerprints: dict[Key, str] = Factory(dict)

    @property
    def reserved(self) -> list[Key]:
        """What was reserved and neither spent nor given back."""
        return [key for key, state in self.known.items() if state is Reservation.RESERVED]

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:  # noqa: ARG002 - the port's signature
        return Denied(DenialReason.LIMIT_EXCEEDED, "told to deny") if self._denied(operation) else None

    async def acquire(self, request: OperationRequest) -> Decision:
        key = _key(request)
        if self.known.get(key) is Reservation.RELEASED:
            return Denied(DenialReason.FORBIDDEN, "this request was released")
        if self.fingerprints.setdefault(key, request.fingerprint) != request.fingerprint:
            return Denied(DenialReason.FORBIDDEN, "this key belongs to another request")
        if key not in self.known and self._denied(request.operation):
            return Denied(DenialReason.LIMIT_EXCEEDED, "told to deny")
        self.known.setdefault(key, Reservation.RESERVED)
        return Granted(request.logical_request_key)

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        key = _key(request)
        if self.known.get(key) not in (Reservation.RESERVED, Reservation.COMMITTED):
            return Denied(DenialReason.FORBIDDEN, "nothing is reserved under this key")
        self.known[key] = Reservation.COMMITTED
        return Granted(reservation)

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        key = (scope, operation, logical_request_key)
        self.known[key] = Reservation.RELEASED
        return True

    def _denied(self, operation: Operation) -> bool:
        return self.denying and operation in self.denies


def _key(request: OperationRequest) -> Key:
    return (request.scope, request.operation, request.logical_request_key)
