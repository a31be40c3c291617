"""Who may move a job along, and whom it must not take along."""

import asyncio

import pytest
from attrs import Factory, define, evolve
from tests.unit.usecases.site import Site, holds

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.factories import make_job, make_meme, make_request, make_task
from imgproc_adapters.testing.models import ScriptedAgent
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import OWNER, A, store
from imgproc_adapters.testing.waiting import until
from imgproc_adapters.testing.world import World
from imgproc_domain import job as jobs
from imgproc_domain.ids import JobId
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import Decision, DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.reconcile import Decision as Step
from imgproc_domain.reconcile import Facts, reconcile
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases import permission
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.submit import submit


@define(eq=False)
class PatientPolicy(RememberingPolicy):
    """Answers each request for an agent when it is told to."""

    asked: list[asyncio.Event] = Factory(list)

    async def acquire(self, request: OperationRequest) -> Decision:
        if request.operation is Operation.ANALYSIS_AGENT:
            told = asyncio.Event()
            self.asked.append(told)
            await told.wait()
        return await super().acquire(request)


async def two_reconcilers() -> tuple[Site, PatientPolicy, list[asyncio.Task[int]]]:
    """Return a site whose one job is asked about by a reconciler that lost its claim, and by the one that has it."""
    policy = PatientPolicy()
    site = Site(policy=policy)
    await site.slots(1)
    await site.upload()
    await site.reconcile()
    await site.run(TaskType.VISUAL)
    first = asyncio.create_task(site.reconcile())
    await until(holds(lambda: len(policy.asked) == 1))
    site.clock.advance(site.deployment.limits.job_lease)
    second = asyncio.create_task(site.reconcile())
    await until(holds(lambda: len(policy.asked) == 2))
    return site, policy, [first, second]


async def test_a_reconciler_whose_claim_is_gone_decides_nothing() -> None:
    site, policy, (first, second) = await two_reconcilers()
    held = site.newest()
    policy.asked[0].set()
    await first
    assert site.newest() == held
    policy.asked[1].set()
    await second
    assert site.newest().stage(Stage.AGENT).task_id is not None


async def test_a_reconciler_that_comes_late_does_not_undo_what_was_decided_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site, policy, (first, second) = await two_reconcilers()
    policy.asked[1].set()
    await second
    decided = site.newest()
    policy.asked[0].set()
    await first
    assert site.newest() == decided
    assert sum(task.task_type is TaskType.CONTEXT for task in site.view().tasks) == 1
    assert caplog.records == [], "nor does it try to, which the store would have to refuse"


async def test_a_job_that_cannot_be_reconciled_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    await site.slots(2)
    for name in ("cat", "dog"):
        await site.upload(name)
    await site.reconcile()
    await site.run(TaskType.VISUAL)
    poison: JobId = site.view().jobs[0].job_id

    def broken(facts: Facts) -> Step:
        if facts.job.job_id == poison:
            raise RuntimeError("a row that nobody expected")
        return reconcile(facts)

    monkeypatch.setattr("imgproc_domain.usecases.advance.reconcile", broken)
    await site.reconcile()
    opened = {job.job_id for job in site.view().jobs if job.stage(Stage.AGENT).task_id}
    assert opened == {job.job_id for job in site.view().jobs} - {poison}


async def test_a_new_revision_waits_for_the_live_task_of_the_one_before() -> None:
    site = Site()
    meme = await site.upload()
    await site.reconcile()
    other = evolve(site.deployment, agent=ScriptedAgent(fingerprint="another agent"))
    await submit(other, A, [Submission(meme.meme_id, ReverseImagePolicy.FORBID, Mode.EXPLICIT)])
    await reconcile_due(other, site.dispatch, A, OWNER, 10)
    assert [job.revision for job in site.view().jobs] == [1, 2]
    assert len(site.view().tasks) == 1


async def test_a_new_revision_makes_nothing_again_that_is_valid() -> None:
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    await site.work_off()
    other = evolve(site.deployment, agent=ScriptedAgent(fingerprint="another agent"))
    await submit(other, A, [Submission(meme.meme_id, ReverseImagePolicy.FORBID, Mode.EXPLICIT)])
    assert (site.newest().revision, site.newest().stage(Stage.VISUAL).reused) == (2, True)
    await reconcile_due(other, site.dispatch, A, OWNER, 10)
    assert [task.task_type for task in site.view().tasks if task.live] == [TaskType.CONTEXT]


async def test_a_stage_ends_with_its_own_task_alone() -> None:
    site = Site()
    world = World(site.uow, site.dispatch, site.heartbeat, lambda: MemoryListener(site.store))
    meme = make_meme(A)
    job = make_job(meme, config_fingerprint=site.deployment.config.fingerprint, due_at=None)
    own = make_task(job)
    other = make_task(evolve(job, config_fingerprint="config-2"))
    opened = jobs.open_stage(job, Stage.VISUAL, own.task_id, site.clock.now())
    await store(world, meme, opened, own, other)
    claimed = {execution.task.task_id: execution for execution in await site.claim(TaskType.VISUAL)}
    await site.finish([claimed[other.task_id]])
    assert site.newest() == opened
    await site.finish([claimed[own.task_id]])
    assert site.newest().stage(Stage.VISUAL).status is JobStatus.SUCCEEDED


class RaisingPolicy(RememberingPolicy):
    async def acquire(self, request: OperationRequest) -> Decision:
        raise RuntimeError(request.resource)

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        raise RuntimeError(reservation or request.resource)


class NonsensePolicy(RememberingPolicy):
    async def acquire(self, request: OperationRequest) -> Decision:
        return request.resource  # type: ignore[return-value]  # a host's adapter without types

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        return (request, reservation)  # type: ignore[return-value]  # as above


@pytest.mark.parametrize("policy", [RaisingPolicy(), NonsensePolicy()])
async def test_a_policy_with_a_bug_grants_nothing(policy: RememberingPolicy) -> None:
    request = make_request()
    answers = [await permission.acquire(policy, request), await permission.commit(policy, request, "reservation")]
    assert [answer.reason for answer in answers if isinstance(answer, Denied)] == [DenialReason.UNAVAILABLE] * 2
