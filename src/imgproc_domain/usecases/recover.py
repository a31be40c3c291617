"""Take back what lost workers hold, and tell the policy what will never be used."""

from collections.abc import Collection
from datetime import datetime

from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.events import Event, LeaseExpired
from imgproc_domain.ports.execution import Release
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import expire
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases import permission
from imgproc_domain.usecases.claim import provable
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.settle import Batch, apply


async def expire_leases(deployment: Deployment, scope: Scope, task_types: Collection[TaskType], limit: int) -> int:
    """Take expired leases of these task types away and return how many there were.

    The tasks become claimable again under a higher generation, or end as ``lease_exhausted``. A slot whose call may
    still be running stays taken until that call's hard deadline.
    """

    async def once() -> tuple[int, list[Event]]:
        async with deployment.uow.begin(scope) as tx:
            batch, now = await _expired(tx, deployment, task_types, limit)
            plan = await apply(tx, deployment, batch, now)
            return len(batch.settled), [*batch.events, *plan.events]

    count, events = await decided_again(once)
    if count:
        deployment.passed(Point.LEASES_EXPIRED)
    for event in events:
        deployment.observer.note(event)
    return count


async def _expired(
    tx: Transaction, deployment: Deployment, task_types: Collection[TaskType], limit: int
) -> tuple[Batch, datetime]:
    tasks = await tx.claims.lock_expired(task_types, limit)
    last = await tx.attempts.last([task.task_id for task in tasks])
    batch = Batch(before={task_id: attempt.status for task_id, attempt in last.items()})
    batch.memes = await tx.memes.lock({t.target.meme_id for t in tasks if t.target})
    batch.contexts = await tx.contexts.get(batch.memes.keys())
    now = await tx.now()
    for task in tasks:
        attempt = last.get(task.task_id)
        replay = provable(deployment, task, attempt)
        settled = expire(task, attempt, replay, now, deployment.limits.retry)
        batch.settled.append(settled)
        batch.claims.append(task.claim)
        batch.events.append(LeaseExpired(task.scope, task.task_id, task.task_type, settled.task.lease_losses))
        if attempt and attempt.status is AttemptStatus.EXTERNAL_STARTED and attempt.hard_deadline_at:
            batch.busy_until[task.task_id] = attempt.hard_deadline_at
    return batch, now


async def flush_releases(deployment: Deployment, scope: Scope, limit: int) -> int:
    """Hand up to ``limit`` releases of the outbox to the policy and return how many it took."""
    async with deployment.uow.begin(scope) as tx:
        pending = await tx.releases.pending(limit)
    taken = [release for release in pending if await _release(deployment, scope, release)]
    if taken:
        deployment.passed(Point.RELEASE_TOLD)
        async with deployment.uow.begin(scope) as tx:
            await tx.releases.finish([(r.operation, r.logical_request_key) for r in taken])
        deployment.passed(Point.RELEASE_FINISHED)
    return len(taken)


async def _release(deployment: Deployment, scope: Scope, release: Release) -> bool:
    return await permission.release(deployment.policy, scope, release.operation, release.logical_request_key)
