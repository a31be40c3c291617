"""The order of the agent protocol, and what each of its steps looks at before it goes on."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site

from imgproc_adapters.memory.execution import MemoryAttempts
from imgproc_adapters.testing.factories import make_context
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, VISUAL, Described, name_answer
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A
from imgproc_domain import attempt as attempts
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.context import Context, ContextStatus, Description, Origin
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.grant import GrantStatus
from imgproc_domain.ids import TaskId
from imgproc_domain.job import JobStatus
from imgproc_domain.outcome import Failed, Retry, Unknown
from imgproc_domain.policy import Decision, DenialReason, Denied, OperationRequest
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined
from imgproc_domain.settlement import Settled, Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.points import Point
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

MOVED = Diagnosis(ErrorCode.LEASE_LOST, "somebody else ended it")


class ToldPolicy(RememberingPolicy):
    """Notes its commits among the points that the process passes, and can refuse them."""

    said: list[str]
    refuses = False

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        self.said.append("commit")
        return Denied(DenialReason.FORBIDDEN, "no") if self.refuses else await super().commit(request, reservation)


async def agent_site(*, refuses: bool = False) -> tuple[Site, list[str]]:
    """Return a site with one queued agent task, and what is said in it from now on."""
    policy = ToldPolicy()
    policy.said, policy.refuses = [], refuses
    site = Site(policy=policy)
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    policy.said.clear()
    site.deployment = evolve(site.deployment, passed=lambda point: policy.said.append(point.value))
    return site, policy.said


async def test_everything_is_persisted_in_its_order_before_the_call() -> None:
    site, said = await agent_site()

    def describe(call: AgentCall) -> Described:
        (grant,) = site.view().grants
        (attempt,) = (a for a in site.view().attempts if a.attempt_id == call.attempt_id)
        said.append(f"call: {grant.status}, {attempt.status}")
        return name_answer(call)

    site.agent.script.always(describe)
    await site.run(TaskType.CONTEXT)
    assert said == [
        Point.TASK_CLAIMED,
        "commit",
        Point.POLICY_COMMITTED,
        Point.GRANT_COMMITTED,
        Point.EXTERNAL_STARTED,
        f"call: {GrantStatus.COMMITTED}, {AttemptStatus.EXTERNAL_STARTED}",
        Point.CALL_ENDED,
        Point.SETTLED,
    ]


async def test_a_policy_that_refuses_to_commit_blocks_the_job_and_no_call_is_made() -> None:
    site, _ = await agent_site(refuses=True)
    await site.run(TaskType.CONTEXT)
    assert site.newest().status is JobStatus.BLOCKED
    assert [grant.status for grant in site.view().grants] == [GrantStatus.RELEASED]
    assert started(site.ledger, AGENT) == []


async def test_what_a_call_has_spent_is_not_given_back_when_it_fails() -> None:
    site, _ = await agent_site()
    site.agent.script.then(Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False))
    await site.run(TaskType.CONTEXT)
    assert [grant.status for grant in site.view().grants] == [GrantStatus.COMMITTED]
    assert site.newest().status is JobStatus.FAILED


async def test_a_call_that_may_have_been_made_keeps_its_slot_and_loses_its_grant() -> None:
    site, _ = await agent_site()
    site.agent.script.then(RuntimeError("the connection broke"))
    await site.run(TaskType.CONTEXT)
    (grant,) = site.view().grants
    (deadline,) = {a.hard_deadline_at for a in site.view().attempts if a.task_id == grant.task_id}
    assert grant.status is GrantStatus.UNKNOWN
    assert [slot.free_at for slot in site.view().slots if slot.task_id] == [deadline]
    assert deadline == site.clock.now() + site.agent.hard_deadline


async def test_the_slot_of_a_call_that_ended_is_free_at_once() -> None:
    site, _ = await agent_site()
    await site.run(TaskType.CONTEXT)
    assert [slot.task_id for slot in site.view().slots] == [None, None]


async def test_no_more_agent_tasks_are_claimed_than_there_are_slots() -> None:
    site = Site()
    await site.slots(1)
    for name in ("cat", "dog"):
        await site.upload(name)
    await site.until_agent()
    assert len(await site.claim(TaskType.CONTEXT)) == 1


async def started_agent_call() -> tuple[Site, Execution]:
    site, _ = await agent_site()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    return site, execution


async def test_a_worker_that_stood_still_for_longer_than_its_lease_makes_no_call() -> None:
    site, execution = await started_agent_call()
    site.agent.hard_deadline = 3 * site.deployment.limits.lease
    lease = site.deployment.limits.lease.total_seconds()
    late = evolve(execution, begun=asyncio.get_running_loop().time() - lease - 1)
    assert isinstance(await perform(site.deployment, late), Retry)
    assert started(site.ledger, AGENT) == []


async def test_a_worker_that_stood_still_past_the_hard_deadline_makes_no_call_although_its_lease_lasts() -> None:
    site, execution = await started_agent_call()
    site.agent.hard_deadline = site.deployment.limits.lease / 3
    stood_still = 2 * site.agent.hard_deadline.total_seconds()
    late = evolve(execution, begun=asyncio.get_running_loop().time() - stood_still)
    assert isinstance(await perform(site.deployment, late), Retry)
    assert started(site.ledger, AGENT) == []


async def test_a_call_that_begins_late_ends_with_the_deadline_of_its_start() -> None:
    site, execution = await started_agent_call()
    begun = timedelta(seconds=20)
    site.agent.hard_deadline = begun + timedelta(seconds=0.05)
    site.agent.script.then(Held[Described](RuntimeError("never")))
    late = evolve(execution, begun=asyncio.get_running_loop().time() - begun.total_seconds())
    async with asyncio.timeout(begun.total_seconds() / 2):
        assert isinstance(await perform(site.deployment, late), Unknown)


async def test_words_that_cannot_be_used_are_no_answer() -> None:
    site, _ = await agent_site()
    site.agent.script.then(AgentAnswer(Description(title="a cat"), ContextStatus.REPAIR_REQUIRED))
    await site.run(TaskType.CONTEXT)
    assert site.view().contexts == []
    assert site.newest().error is not None


async def test_an_attempt_that_is_gone_on_with_belongs_to_the_new_claim() -> None:
    site, _ = await agent_site()
    (lost,) = await site.claim(TaskType.CONTEXT)
    site.clock.advance(site.deployment.limits.lease)
    await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10)
    (found,) = await site.claim(TaskType.CONTEXT)
    assert lost.attempt is not None
    assert found.attempt == evolve(lost.attempt, generation=found.claim.generation)
    (answer,) = await site.finish([found])
    assert isinstance(answer, Settled)


async def test_a_local_call_that_was_lost_is_ended_before_it_is_made_again() -> None:
    site = Site()
    await site.upload()
    await start(site.deployment, A, await site.claim(TaskType.VISUAL))
    site.clock.advance(site.deployment.limits.lease)
    await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10)
    await site.run(TaskType.VISUAL)
    made = sorted(site.view().attempts, key=lambda attempt: attempt.attempt_no)
    assert [attempt.status for attempt in made] == [AttemptStatus.FAILED, AttemptStatus.COMPLETED]
    assert len(started(site.ledger, VISUAL)) == 1


def moved_meanwhile(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody who does not ask for the task's lock end the next attempt that is read, right after it is read."""
    read = MemoryAttempts.last
    left = [True]

    async def last(self: MemoryAttempts, task_ids: Collection[TaskId]) -> Mapping[TaskId, Attempt]:
        found = await read(self, task_ids)
        if found and left.pop() is True:
            monkeypatch.setattr(MemoryAttempts, "last", read)
            async with site.uow.begin(A) as tx:
                ended = [(a.status, attempts.fail(a, MOVED, site.clock.now())) for a in found.values()]
                assert len(await tx.attempts.save(ended)) == len(found)
        return found

    monkeypatch.setattr(MemoryAttempts, "last", last)


async def test_a_claim_goes_on_with_no_attempt_that_somebody_ended_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    site, _ = await agent_site()
    await site.claim(TaskType.CONTEXT)
    site.clock.advance(site.deployment.limits.lease)
    await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10)
    moved_meanwhile(site, monkeypatch)
    (execution,) = await site.claim(TaskType.CONTEXT)
    assert execution.attempt in site.view().attempts
    assert execution.attempt is not None
    assert (execution.attempt.attempt_no, execution.attempt.status) == (2, AttemptStatus.PREPARED)


async def test_an_outcome_is_not_written_beside_an_attempt_that_somebody_ended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, execution = await started_agent_call()
    assert execution.attempt is not None
    moved_meanwhile(site, monkeypatch)
    failed = Failed(Diagnosis(ErrorCode.AGENT_FAILED, "no"))
    await settle(site.deployment, A, [Settling(execution.claim, execution.attempt.attempt_id, failed)])
    (task,) = (task for task in site.view().tasks if task.task_type is TaskType.CONTEXT)
    assert task.status is TaskStatus.RUNNING


async def test_a_person_s_words_do_not_hide_that_a_call_may_have_been_made() -> None:
    site, execution = await started_agent_call()
    assert execution.meme is not None
    async with site.uow.begin(A) as tx:
        await tx.memes.lock([execution.meme.meme_id])
        await tx.contexts.put([own_words(site, execution)])
    site.agent.script.then(RuntimeError("the connection broke"))
    await settle(site.deployment, A, [await site._performed(execution)])
    assert site.newest().status is JobStatus.UNKNOWN
    assert site.newest().stage(Stage.AGENT).status is JobStatus.UNKNOWN


def own_words(site: Site, execution: Execution) -> Context:
    assert execution.meme is not None
    return evolve(make_context(execution.meme, "my own words", origin=Origin.PERSON), updated_at=site.clock.now())
