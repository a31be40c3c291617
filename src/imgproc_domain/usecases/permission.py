"""Ask the host's policy. Whatever an adapter does, the answer is a value, and a bad one denies: it fails closed."""

import asyncio
import logging
from typing import Final

from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.ports.policy import ImmediatePolicy, OperationPolicy
from imgproc_domain.scope import Scope

log = logging.getLogger(__name__)

PATIENCE: Final = 10.0
"""Seconds after which a policy that does not answer counts as unavailable: well within a job's lease."""

_NONSENSE: Final = Denied(DenialReason.UNAVAILABLE, "the operation policy gave an answer that means nothing")


async def probe(policy: OperationPolicy, scope: Scope, operation: Operation) -> Denied | None:
    """As `OperationPolicy.probe`, for adapters with bugs too."""
    try:
        async with asyncio.timeout(PATIENCE):
            answer: object = await policy.probe(scope, operation)
    except Exception as error:
        log.exception("the operation policy failed to probe")
        return _unavailable(error)
    return answer if answer is None or isinstance(answer, Denied) else _NONSENSE


async def acquire(policy: OperationPolicy, request: OperationRequest) -> Decision:
    """As `OperationPolicy.acquire`, for adapters with bugs too."""
    try:
        async with asyncio.timeout(PATIENCE):
            return _parsed(await policy.acquire(request))
    except Exception as error:
        log.exception("the operation policy failed to acquire")
        return _unavailable(error)


def acquire_now(policy: ImmediatePolicy, request: OperationRequest) -> Decision:
    """As `acquire`, of a policy that answers from the request alone."""
    try:
        return _parsed(policy.acquire_now(request))
    except Exception as error:
        log.exception("the operation policy failed to acquire")
        return _unavailable(error)


def commit_now(policy: ImmediatePolicy, request: OperationRequest, reservation: str) -> Decision:
    """As `commit`, of a policy that answers from the request alone."""
    try:
        return _parsed(policy.commit_now(request, reservation))
    except Exception as error:
        log.exception("the operation policy failed to commit")
        return _unavailable(error)


async def commit(policy: OperationPolicy, request: OperationRequest, reservation: str) -> Decision:
    """As `OperationPolicy.commit`, for adapters with bugs too."""
    try:
        async with asyncio.timeout(PATIENCE):
            return _parsed(await policy.commit(request, reservation))
    except Exception as error:
        log.exception("the operation policy failed to commit")
        return _unavailable(error)


async def release(policy: OperationPolicy, scope: Scope, operation: Operation, key: str) -> bool:
    """As `OperationPolicy.release`, for adapters with bugs too: they are asked again later."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await policy.release(scope, operation, key) is True
    except Exception:
        log.exception("the operation policy failed to release")
        return False


def _parsed(answer: object) -> Decision:
    if isinstance(answer, Granted | Denied):
        return answer
    return _NONSENSE


def _unavailable(error: Exception) -> Denied:
    return Denied(DenialReason.UNAVAILABLE, f"the operation policy raised {type(error).__name__}")
