"""Real workers of two deployments over one store: the one started last works, the other one waits until it is gone."""

import logging
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from attrs import Factory, define, evolve, frozen
from tests.unit.usecases.site import Site, content, holds

from imgproc_adapters.memory import MemoryDispatch, MemoryListener
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, ScriptedAgent
from imgproc_adapters.testing.seed import A
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker.worker import ImageProcessingWorker, Pace
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy, TaskType
from imgproc_domain.usecases.configuration import configuration_in_force
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import upload

FAST = Pace(poll=0.01, sweep=0.01, grace=5.0)
LEASE = timedelta(milliseconds=30)
"""It lasts until a test lets it pass: the store's clock stands still. Workers look at it by another, every 10 ms."""


@frozen
class CountingDispatch(MemoryDispatch):
    scans: list[str] = Factory(list)

    async def ready_scopes(self, task_type: TaskType, after: Scope | None, limit: int) -> Sequence[Scope]:
        self.scans.append("ready")
        return await super().ready_scopes(task_type, after, limit)

    async def due_scopes(self, after: Scope | None, limit: int) -> Sequence[Scope]:
        self.scans.append("due")
        return await super().due_scopes(after, limit)

    async def expired_scopes(
        self, task_types: Collection[TaskType], after: Scope | None, limit: int
    ) -> Sequence[Scope]:
        self.scans.append("expired")
        return await super().expired_scopes(task_types, after, limit)


@define
class CountingUnitOfWork:
    inner: UnitOfWork
    begun: int = 0

    def begin(self, scope: Scope) -> AbstractAsyncContextManager[Transaction]:
        self.begun += 1
        return self.inner.begin(scope)


class Worker:
    """A worker of a deployment with an agent of its own."""

    def __init__(self, site: Site, agent: str, home: Scope | None = A) -> None:
        self.uow, self.dispatch = CountingUnitOfWork(site.uow), CountingDispatch(site.store, site.clock)
        self.deployment = evolve(
            site.deployment,
            uow=self.uow,
            agent=ScriptedAgent(agent, ledger=site.ledger),
            limits=evolve(site.deployment.limits, configuration_lease=LEASE),
        )
        listener = MemoryListener(site.store)
        self.worker = ImageProcessingWorker(self.deployment, self.dispatch, site.heartbeat, listener, FAST, home)

    @property
    def superseded(self) -> bool:
        return self.worker._superseded


async def _processed(site: Site, deployment: Deployment, name: str) -> Job:
    """Upload a picture by a process of this deployment and return its job once it has succeeded."""
    meme = (await upload(deployment, A, "a.png", content(name), ReverseImagePolicy.FORBID)).meme

    async def job() -> Job | None:
        done = (job for job in site.view().jobs if job.meme_id == meme.meme_id and job.status is JobStatus.SUCCEEDED)
        return next(done, None)

    return await until(job)


async def test_the_worker_started_last_works_until_it_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "imgproc_app.worker.worker")
    site = Site()
    await site.slots(2)
    old, new = Worker(site, "agent 1"), Worker(site, "agent 2")
    await old.worker.start()
    await new.worker.start()
    try:
        await until(holds(lambda: old.superseded))
        made = [await _processed(site, process.deployment, f"cat {n}") for n, process in enumerate((old, new))]
    finally:
        await new.worker.stop()
    assert {job.config_fingerprint for job in made} == {new.deployment.config.fingerprint}
    assert {job.revision for job in made} == {1}
    try:
        site.clock.advance(2 * LEASE)
        await until(holds(lambda: not old.superseded))
        last = await _processed(site, new.deployment, "dog")
    finally:
        await old.worker.stop()
    assert last.config_fingerprint == old.deployment.config.fingerprint
    assert len(started(site.ledger, AGENT)) == 3
    assert len(site.view().jobs) == 3
    words = ("takes no work", "takes work again")
    assert [word for record in caplog.records for word in words if word in record.message] == list(words)


async def test_a_superseded_worker_looks_for_no_work() -> None:
    site = Site()
    old, new = Worker(site, "agent 1"), Worker(site, "agent 2")
    await old.worker.start()
    await new.worker.start()
    await new.worker.stop()
    try:
        await until(holds(lambda: old.superseded))
        # the step of a loop that was under way when the worker learned of it
        begun = old.uow.begun
        await until(holds(lambda: old.uow.begun > begun + 1))
        old.dispatch.scans.clear()
        begun = old.uow.begun
        await until(holds(lambda: old.uow.begun > begun + 3))
        assert old.dispatch.scans == []
    finally:
        await old.worker.stop()


async def test_a_worker_without_a_way_in_announces_nothing() -> None:
    site = Site()
    worker = Worker(site, "agent 1", home=None)
    await worker.worker.start()
    await worker.worker.stop()
    assert await configuration_in_force(site.deployment, A) == site.deployment.config
