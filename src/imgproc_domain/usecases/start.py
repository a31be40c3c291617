"""The commit order before an external call: policy commit, ``grant_committed``, ``external_started`` - then the call.

Each step is its own transaction, each compare-and-set checks its row count, and whoever drops out on the way makes no
call.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from imgproc_domain import attempt as attempts
from imgproc_domain import grant as grants
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Fence
from imgproc_domain.errors import Conflict
from imgproc_domain.events import GrantMoved, WriteBackFenced
from imgproc_domain.grant import GrantStatus
from imgproc_domain.outcome import Blocked
from imgproc_domain.policy import Decision, Denied, OperationRequest
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane
from imgproc_domain.task import why_fenced
from imgproc_domain.usecases.advance import agent_request_for
from imgproc_domain.usecases.claim import Execution, attempt_of
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.permission import commit, commit_now
from imgproc_domain.usecases.points import Point
from imgproc_domain.values import evolve


@frozen
class Started:
    """What may now be called, and what must be settled without a call. Fenced executions are in neither."""

    running: tuple[Execution, ...]
    decided: tuple[Execution, ...]


async def start(deployment: Deployment, scope: Scope, executions: Sequence[Execution]) -> Started:
    """Take executions of one scope to the point where their calls may be made.

    Raises:
        DatabaseUnavailable: nothing of this batch may be called; its leases run out and recovery decides.
    """
    decided = [e for e in executions if e.outcome is not None]
    adopted = [e for e in executions if e.outcome is None and not _to_start(e)]
    going = [e for e in executions if e.outcome is None and _to_start(e)]
    if any(e.task.grant_id for e in going):
        going, blocked = await _commit_grants(deployment, scope, going)
        decided.extend(blocked)
    running = await _start_external(deployment, scope, going) if going else []
    return Started((*running, *adopted), tuple(decided))


def _to_start(execution: Execution) -> bool:
    """Whether a call is still to be announced: a look-up makes none, and the claim has started a pure local one."""
    return not execution.look_up and execution.attempt is not None and execution.begun is None


async def _commit_grants(
    deployment: Deployment, scope: Scope, executions: Sequence[Execution]
) -> tuple[list[Execution], list[Execution]]:
    """Commit at the policy, then persist it. Returns the executions that go on and those that are blocked."""
    waiting = [e for e in executions if _needs_commit(e)]
    ready = [e for e in executions if not _needs_commit(e)]
    answers = await _commit(deployment, waiting)
    blocked = [evolve(e, outcome=Blocked(a)) for e, a in zip(waiting, answers, strict=True) if a is not None]
    granted = [e for e, a in zip(waiting, answers, strict=True) if a is None]
    if granted:
        deployment.passed(Point.POLICY_COMMITTED)
        ready.extend(await _persist_grants(deployment, scope, granted))
    return ready, blocked


def _needs_commit(execution: Execution) -> bool:
    attempt = execution.attempt
    return execution.task.grant_id is not None and attempt is not None and attempt.status is AttemptStatus.PREPARED


async def _commit(deployment: Deployment, executions: Sequence[Execution]) -> list[Denied | None]:
    questions = [asked(execution) for execution in executions]
    answers: Sequence[Decision]
    if deployment.immediate is not None:
        answers = [commit_now(deployment.immediate, request, reservation) for request, reservation in questions]
    else:
        answers = await asyncio.gather(*(commit(deployment.policy, *question) for question in questions))
    return [answer if isinstance(answer, Denied) else None for answer in answers]


def asked(execution: Execution) -> tuple[OperationRequest, str]:
    """Return what the policy is asked to commit before an agent's call: the request, and what it reserved."""
    task = execution.task
    assert task.target is not None, "agent tasks have a target"
    assert execution.reservation is not None, "the claim read the grant of its task"
    return agent_request_for(task.scope, task.target), execution.reservation


async def _persist_grants(deployment: Deployment, scope: Scope, executions: Sequence[Execution]) -> list[Execution]:
    """Persist ``grant_committed`` on grant and attempt in one transaction, for claims that are still current."""
    async with deployment.uow.begin(scope) as tx:
        current, now = await _current(tx, deployment, executions)
        locked = await tx.grants.lock([e.task.grant_id for e in current if e.task.grant_id])
        moved = [grants.commit(g, now) for g in locked.values() if g.status is GrantStatus.ACQUIRED]
        if moved:
            await tx.grants.save(moved)
        after = await _save(tx, current, [attempts.commit_grant(attempt_of(e)) for e in current])
    deployment.passed(Point.GRANT_COMMITTED)
    for grant in moved:
        deployment.observer.note(GrantMoved(scope, grant.task_id, grant.status))
    return after


async def _start_external(deployment: Deployment, scope: Scope, executions: Sequence[Execution]) -> list[Execution]:
    """Persist ``external_started`` for claims that are current and, in the agent lane, still hold their slot."""
    begun = asyncio.get_running_loop().time()
    async with deployment.uow.begin(scope) as tx:
        current, now = await _current(tx, deployment, executions)
        started = await _save(
            tx,
            current,
            [
                attempts.start_external(attempt_of(e), now, now + deployment.hard_deadline(e.task.task_type))
                for e in current
            ],
        )
    deployment.passed(Point.EXTERNAL_STARTED)
    return [evolve(execution, begun=begun) for execution in started]


async def _current(
    tx: Transaction, deployment: Deployment, executions: Sequence[Execution]
) -> tuple[list[Execution], datetime]:
    """Lock the tasks and keep the executions whose claim, and slot where one is needed, is still held.

    Returned with the time at which that was so.
    """
    in_lane = [e.claim for e in executions if e.task.lane is Lane.AGENT]
    locked, held, now = await tx.together(
        tx.claims.lock([e.claim for e in executions]), tx.slots.held(Lane.AGENT, in_lane), tx.now()
    )
    slotted = set(held)
    kept: list[Execution] = []
    for execution in executions:
        fence = why_fenced(locked.get(execution.task.task_id), execution.claim, now)
        if fence is None and execution.task.lane is Lane.AGENT and execution.claim not in slotted:
            fence = Fence.SLOT
        if fence is None:
            kept.append(execution)
        else:
            deployment.observer.note(fenced(execution, fence))
    return kept, now


def fenced(execution: Execution, reason: Fence) -> WriteBackFenced:
    attempt_id = execution.attempt.attempt_id if execution.attempt else None
    claim = execution.claim
    return WriteBackFenced(claim.scope, claim.task_id, claim.generation, reason, attempt_id)


async def _save(tx: Transaction, executions: Sequence[Execution], after: Sequence[Attempt]) -> list[Execution]:
    pairs = list(zip(executions, after, strict=True))
    written = set(await tx.attempts.save([(attempt_of(e).status, attempt) for e, attempt in pairs]) if pairs else ())
    if len(written) != len(pairs):
        raise Conflict("an attempt was moved by somebody else although its claim is current")
    return [evolve(e, attempt=attempt) for e, attempt in pairs]
