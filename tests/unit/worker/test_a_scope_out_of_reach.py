"""A scope whose rows the database does not give keeps no other from its turn (I12)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from attrs import evolve, frozen
from tests.unit.usecases.site import Site

from imgproc_adapters.memory import MemoryListener
from imgproc_app.worker import ImageProcessingWorker
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.perform import perform

SCOPES = [Scope("a"), Scope("b"), Scope("c")]


@frozen
class WithoutScope:
    """A unit of work that times out in one scope."""

    inner: UnitOfWork
    lost: Scope

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        if scope == self.lost:
            raise DatabaseUnavailable("the statement took too long")
        async with self.inner.begin(scope) as tx:
            yield tx


async def site_without(lost: Scope) -> Site:
    site = Site()
    await site.slots(2)
    for scope in SCOPES:
        await site.upload(scope=scope)
    site.deployment = evolve(site.deployment, uow=WithoutScope(site.uow, lost))
    return site


@pytest.mark.parametrize("lost", SCOPES)
async def test_the_jobs_of_other_scopes_are_reconciled(lost: Scope) -> None:
    site = await site_without(lost)
    for scope in SCOPES:
        async with site.uow.begin(scope) as tx:
            jobs = await tx.jobs.lock([job.job_id for job in site.view(scope).jobs])
            await tx.jobs.save([evolve(job, due_at=site.clock.now()) for job in jobs.values()])
    worker = ImageProcessingWorker(site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store))
    for _ in range(2 * len(SCOPES)):
        try:
            await worker._reconcile()
        except DatabaseUnavailable:
            continue
    due = [scope for scope in SCOPES if any(job.due_at == site.clock.now() for job in site.view(scope).jobs)]
    assert due == [lost]


@pytest.mark.parametrize("lost", SCOPES)
async def test_the_tasks_of_other_scopes_are_claimed(lost: Scope) -> None:
    site = await site_without(lost)
    lane, _ = site.lane(TaskType.VISUAL, perform)
    for _ in range(2 * len(SCOPES)):
        try:
            await lane.turn()
        except DatabaseUnavailable:
            continue
    queued = [scope for scope in SCOPES if any(task.lease.owner is None for task in site.view(scope).tasks)]
    await lane.finish(10)
    assert queued == [lost]
