"""Reconcile due jobs: claim, ask the policy outside any transaction, then decide again under the locks."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.ids import JobId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.policy import Decision, OperationRequest
from imgproc_domain.ports.claims import Dispatch
from imgproc_domain.reconcile import OpenStage, reconcile
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.usecases.advance import Permit, Plan, advance, agent_request, gather_facts, write
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.permission import acquire
from imgproc_domain.usecases.points import Point

log = logging.getLogger(__name__)

_ASKED_AT_ONCE: Final = 16


async def reconcile_due(deployment: Deployment, dispatch: Dispatch, scope: Scope, owner: WorkerId, limit: int) -> int:
    """Reconcile up to ``limit`` due jobs of a scope and return how many were claimed."""
    claimed, asking = await _claim(deployment, scope, owner, limit)
    if not claimed:
        return 0
    deployment.passed(Point.JOB_CLAIMED)
    permits = await _permits(deployment, dispatch, asking)
    deployment.passed(Point.ACQUIRED)
    try:
        await _decide(deployment, scope, claimed, permits)
    except (DatabaseUnavailable, Conflict):
        raise
    except Exception:
        log.exception("a batch of %d jobs failed; they are reconciled one by one", len(claimed))
        await _apart(deployment, scope, claimed, permits)
    return len(claimed)


async def _decide(
    deployment: Deployment, scope: Scope, claimed: Sequence[Job], permits: Mapping[JobId, Permit]
) -> None:
    async def once() -> Plan:
        async with deployment.uow.begin(scope) as tx:
            memes = await tx.memes.lock({job.meme_id for job in claimed})
            held = await tx.job_claims.lock([job.claim for job in claimed])
            plan = await advance(tx, deployment, held.values(), memes, permits, await tx.now())
            await write(tx, plan)
            return plan

    plan = await decided_again(once)
    deployment.passed(Point.STAGE_OPENED)
    for event in plan.events:
        deployment.observer.note(event)


async def _apart(deployment: Deployment, scope: Scope, claimed: Sequence[Job], permits: Mapping[JobId, Permit]) -> None:
    """After a bug in the batch, let it harm no job but its own (I12); that one stays due until its lease runs out."""
    for job in claimed:
        try:
            await _decide(deployment, scope, [job], permits)
        except (DatabaseUnavailable, Conflict):
            raise
        except Exception:
            log.exception("job %s cannot be reconciled", job.job_id)


async def _claim(
    deployment: Deployment, scope: Scope, owner: WorkerId, limit: int
) -> tuple[Sequence[Job], Sequence[Job]]:
    """Claim due jobs; the second value holds those whose next step needs the policy's permission.

    A superseded deployment claims none: what a policy is asked for is for the configuration in force.
    """
    async with deployment.uow.begin(scope) as tx:
        if await deployment.is_superseded(tx):
            return (), ()
        claimed = await tx.job_claims.claim_due(limit, owner, deployment.limits.job_lease)
        if not claimed:
            return (), ()
        memes = await tx.memes.get({job.meme_id for job in claimed})
        facts = await gather_facts(tx, deployment, claimed, memes)
    return claimed, [f.job for f in facts if _needs_permission(reconcile(f))]


def _needs_permission(decision: object) -> bool:
    return isinstance(decision, OpenStage) and decision.stage is Stage.AGENT


async def _permits(deployment: Deployment, dispatch: Dispatch, asking: Sequence[Job]) -> Mapping[JobId, Permit]:
    """Ask the policy for each job. Above the backpressure limit nobody is asked: the jobs wait, none is lost."""
    if not asking:
        return {}
    most = deployment.limits.lanes.agent_backpressure
    room = most - await dispatch.queued(TaskType.CONTEXT, most)
    requests = {job.job_id: agent_request(job) for job in asking}
    admitted = list(requests.items())[: max(room, 0)]
    answers = await _ask(deployment, [request for _, request in admitted])
    permits = {job_id: Permit(request, None) for job_id, request in requests.items()}
    for (job_id, request), answer in zip(admitted, answers, strict=True):
        permits[job_id] = Permit(request, answer)
    return permits


async def _ask(deployment: Deployment, requests: Sequence[OperationRequest]) -> Sequence[Decision | None]:
    """Ask a few at a time. Once a third of the lease is over nobody else is asked: a slow policy blocks no job."""
    loop = asyncio.get_running_loop()
    latest = loop.time() + deployment.limits.job_lease.total_seconds() / 3
    places = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def ask(request: OperationRequest) -> Decision | None:
        async with places:
            return await acquire(deployment.policy, request) if loop.time() < latest else None

    return await asyncio.gather(*(ask(request) for request in requests))
