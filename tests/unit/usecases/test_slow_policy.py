"""A policy that takes its time delays jobs and blocks none."""

import asyncio
from datetime import timedelta

from attrs import Factory, define, evolve
from tests.unit.usecases.site import Site, turns

from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import A
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import Decision, OperationRequest
from imgproc_domain.stage import TaskType

JOBS = 40


@define(eq=False)
class DeliberatingPolicy(RememberingPolicy):
    """Answers nobody before it is told to, and counts who waits."""

    waiting: int = 0
    most: int = 0
    decided: asyncio.Event = Factory(asyncio.Event)

    async def acquire(self, request: OperationRequest) -> Decision:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.decided.wait()
        self.waiting -= 1
        return await super().acquire(request)


async def site_of(policy: RememberingPolicy) -> Site:
    site = Site(policy=policy)
    await site.slots(2)
    for number in range(JOBS):
        await site.upload(f"picture {number}")
    await site.reconcile()
    for _ in range(JOBS):
        await site.run(TaskType.VISUAL)
    return site


def agent_tasks(site: Site) -> int:
    return sum(task.task_type is TaskType.CONTEXT for task in site.view().tasks)


async def test_a_policy_is_asked_a_few_questions_at_a_time() -> None:
    policy = DeliberatingPolicy()
    policy.decided.set()
    site = await site_of(policy)
    policy.decided.clear()
    policy.most = 0
    reconciling = asyncio.create_task(site.reconcile())
    await turns()
    assert 1 < policy.most < JOBS
    policy.decided.set()
    assert await reconciling == JOBS
    assert agent_tasks(site) == JOBS


async def test_who_could_not_be_asked_about_in_time_is_asked_about_later() -> None:
    site = await site_of(RememberingPolicy())
    patient = site.deployment
    site.deployment = evolve(patient, limits=evolve(patient.limits, job_lease=timedelta(0)))
    assert await site.reconcile() == JOBS
    assert {job.status for job in site.view(A).jobs} == {JobStatus.RUNNING}
    assert agent_tasks(site) == 0
    site.deployment = patient
    for _ in range(3):
        site.clock.advance(patient.limits.look_again_at_most)
        await site.reconcile()
    assert agent_tasks(site) == JOBS
