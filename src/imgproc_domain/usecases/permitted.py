"""Make something durable under the operation policy's permission: what people do, as opposed to what tasks do."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from imgproc_domain.errors import CommitOutcomeUnknown, Conflict, DatabaseUnavailable, OperationDenied
from imgproc_domain.policy import DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.ports.execution import Release
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope
from imgproc_domain.usecases import permission
from imgproc_domain.usecases.deployment import Deployment

log = logging.getLogger(__name__)

T = TypeVar("T")


async def expect_permission(deployment: Deployment, scope: Scope, operation: Operation) -> None:
    """Refuse what would be denied now, before anything is read or reserved.

    Raises `OperationDenied`.
    """
    denied = await permission.probe(deployment.policy, scope, operation)
    if denied is not None:
        raise _refused(operation, denied)


async def permitted(
    deployment: Deployment,
    scope: Scope,
    operation: Operation,
    resource: str,
    work: Callable[[], Awaitable[tuple[T, bool]]],
) -> T:
    """Do ``work`` under a reservation of its own and return its first value; the second: did it change anything?

    Each call is another request to the policy. Unlike an external call, the work is a transaction of ours, so its
    outcome is nearly always known: the reservation is spent when something became durable, or may have, and given back
    when certainly nothing did. A process that dies in between leaves it reserved: it errs in the host's favour.

    Raises:
        OperationDenied: the policy refused; ``work`` was not begun.
    """
    request = _request(deployment, scope, operation, resource)
    reservation = await _reserve(deployment, request)
    try:
        result, durable = await work()
    except CommitOutcomeUnknown:
        await _spend(deployment, request, reservation)
        raise
    except Exception:
        await _give_back(deployment, request)
        raise
    if durable:
        await _spend(deployment, request, reservation)
    else:
        await _give_back(deployment, request)
    return result


def _request(deployment: Deployment, scope: Scope, operation: Operation, resource: str) -> OperationRequest:
    key = deployment.ids.secret()
    return OperationRequest(
        scope=scope,
        operation=operation,
        logical_request_key=key,
        resource=resource,
        task=key,
        source="library",
        input_digest=resource,
    )


async def _reserve(deployment: Deployment, request: OperationRequest) -> Granted:
    decision = await permission.acquire(deployment.policy, request)
    if isinstance(decision, Granted):
        return decision
    if decision.reason is DenialReason.UNAVAILABLE:
        # the answer is missing: what it would have been may be reserved
        await _give_back(deployment, request)
    raise _refused(request.operation, decision)


async def _spend(deployment: Deployment, request: OperationRequest, granted: Granted) -> None:
    """Commit after the fact. Without an answer the reservation stays, and counts like a spent one."""
    decision = await permission.commit(deployment.policy, request, granted.reservation)
    if isinstance(decision, Denied):
        log.warning("%s was done, but the operation policy did not commit it: %s", request.operation, decision.reason)


async def _give_back(deployment: Deployment, request: OperationRequest) -> None:
    """Tell the policy at once; what it does not take goes through the outbox."""
    scope, operation, key = request.scope, request.operation, request.logical_request_key
    if await permission.release(deployment.policy, scope, operation, key):
        return
    try:
        async with deployment.uow.begin(scope) as tx:
            await tx.releases.add([Release(operation, key, None, await tx.now())])
            await tx.bell.ring({Topic.RELEASES})
    except (DatabaseUnavailable, Conflict) as error:
        log.warning("a reservation for %s could not be given back: %s", operation, error.message)


def _refused(operation: Operation, denied: Denied) -> OperationDenied:
    message = denied.message or f"{operation} is not permitted"
    return OperationDenied(denied.reason.value, message, denied.retry_at)
