"""Fences that no other test missed when they were taken away."""

import asyncio
from datetime import timedelta

import pytest
from tests.unit.usecases.site import Site, content, turns

from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, VISUAL
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import A
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.claim import Fence
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.events import WriteBackFenced
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Failed
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, TaskType
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.recover import expire_leases, flush_releases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start


async def test_an_agent_claim_without_its_slot_starts_no_call() -> None:
    site = Site()
    await site.slots(1)
    await site.upload()
    await site.until_agent()
    (execution,) = await site.claim(TaskType.CONTEXT)
    async with site.uow.begin(A) as tx:
        await tx.slots.free(Lane.AGENT, [execution.claim], {})
    ready = await start(site.deployment, A, [execution])
    assert (ready.running, ready.decided) == ((), ())
    assert [event.reason for event in site.observer.of(WriteBackFenced)] == [Fence.SLOT]


async def test_one_claim_is_taken_to_its_call_once() -> None:
    site = Site(local=Replay.NEVER)
    await site.upload()
    executions = await site.claim(TaskType.VISUAL)
    assert len((await start(site.deployment, A, executions)).running) == 1
    with pytest.raises(Conflict):
        await start(site.deployment, A, executions)


async def test_a_claim_starts_a_pure_local_call_and_no_other() -> None:
    for local in Replay:
        site = Site(local=local)
        site.agent.replay = Replay.SAFE
        await site.slots(1)
        await site.upload()
        (visual,) = await site.claim(TaskType.VISUAL)
        await site.finish([visual])
        await site.reconcile()
        (agent,) = await site.claim(TaskType.CONTEXT)
        statuses = [execution.attempt.status for execution in (visual, agent) if execution.attempt]
        started_at_once = local is Replay.SAFE
        wanted = AttemptStatus.EXTERNAL_STARTED if started_at_once else AttemptStatus.PREPARED
        assert statuses == [wanted, AttemptStatus.PREPARED]
        assert [visual.begun is not None, agent.begun is not None] == [started_at_once, False]


async def test_a_claim_starts_no_local_call_for_a_picture_that_is_gone() -> None:
    site = Site()
    meme = await site.upload()
    await delete_meme(site.deployment, A, meme.meme_id)
    (execution,) = await site.claim(TaskType.VISUAL)
    assert execution.outcome is not None
    assert [attempt.status for attempt in site.view().attempts] == [AttemptStatus.PREPARED]
    await site.finish([execution])
    assert started(site.ledger, VISUAL) == []


async def test_what_a_lost_reconciler_reserved_is_given_back_when_its_picture_is_deleted() -> None:
    site = Site()
    meme = await site.upload()
    await site.run(TaskType.VISUAL)
    site.uow.plan(Fault.NONE, Fault.REFUSED)
    with pytest.raises(DatabaseUnavailable):
        await site.reconcile()
    assert len(site.policy.reserved) == 1
    site.clock.advance(timedelta(hours=1))
    await delete_meme(site.deployment, A, meme.meme_id)
    await site.reconcile()
    assert site.newest().status is JobStatus.FAILED
    await flush_releases(site.deployment, A, 10)
    assert site.policy.reserved == []


async def test_a_job_that_was_postponed_is_not_held_any_more() -> None:
    site = Site(backpressure=1)
    await site.slots(2)
    for name in ("cat", "dog"):
        await site.upload(name)
    await site.until_agent()
    await site.run(TaskType.CONTEXT)
    assert await site.reconcile() == 1
    await site.run(TaskType.CONTEXT)
    assert len(site.view().contexts) == 2


async def test_the_grant_of_a_task_that_never_called_is_given_back() -> None:
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    await site.until_agent()
    await delete_meme(site.deployment, A, meme.meme_id)
    await site.run(TaskType.CONTEXT)
    assert [grant.status for grant in site.view().grants] == [GrantStatus.RELEASED]
    assert await flush_releases(site.deployment, A, 10) == 1
    assert site.policy.reserved == []


class DeafPolicy(RememberingPolicy):
    """Cannot be reached for a release."""

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        del scope, operation, logical_request_key
        return False


async def test_a_release_that_the_policy_did_not_take_is_sent_again() -> None:
    site = Site(policy=DeafPolicy())
    await site.slots(1)
    meme = await site.upload()
    await site.until_agent()
    await delete_meme(site.deployment, A, meme.meme_id)
    await site.run(TaskType.CONTEXT)
    assert await flush_releases(site.deployment, A, 10) == 0
    async with site.uow.begin(A) as tx:
        assert len(await tx.releases.pending(10)) == 1


async def test_the_slot_of_a_lost_call_is_free_again_at_its_hard_deadline_and_not_before() -> None:
    site = Site()
    await site.slots(1)
    await site.upload("cat")
    await site.upload("dog")
    await site.until_agent()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    site.heartbeat.renew([execution.claim], timedelta(0))
    assert await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10) == 1
    assert execution.attempt is not None
    assert execution.attempt.hard_deadline_at is not None
    assert [slot.free_at for slot in site.view().slots] == [execution.attempt.hard_deadline_at]
    assert await site.claim(TaskType.CONTEXT) == ()
    site.clock.advance(site.agent.hard_deadline)
    assert len(await site.claim(TaskType.CONTEXT)) == 1


async def test_no_agent_is_called_for_a_picture_that_was_deleted_meanwhile() -> None:
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    await site.until_agent()
    await delete_meme(site.deployment, A, meme.meme_id)
    await site.work_off()
    assert started(site.ledger, AGENT) == []


async def test_no_agent_is_called_for_a_job_that_was_closed_meanwhile() -> None:
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    await site.until_agent()
    for name in ("dog", "cat"):
        await replace_picture(site.deployment, A, meme.meme_id, None, content(name))
    await site.run(TaskType.CONTEXT)
    assert started(site.ledger, AGENT) == []


async def _found() -> tuple[Site, Meme]:
    """A picture that went through all stages."""
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    await site.work_off()
    assert len(site.view().findable) == 1
    return site, meme


async def test_an_edited_picture_is_not_found_by_its_old_words() -> None:
    site, meme = await _found()
    await edit_context(site.deployment, A, meme.meme_id, 1, Description(title="other words"))
    assert site.view().findable == []


async def test_words_that_were_embedded_before_are_found_at_once() -> None:
    site, meme = await _found()
    (before,) = site.view().contexts
    await edit_context(site.deployment, A, meme.meme_id, 1, Description(title="other words"))
    await edit_context(site.deployment, A, meme.meme_id, 2, before.description)
    assert [row.metadata_hash for row in site.view().findable] == [before.metadata_hash]


async def test_a_replaced_picture_is_not_found_by_the_old_one() -> None:
    site, meme = await _found()
    await replace_picture(site.deployment, A, meme.meme_id, None, content("dog"))
    assert site.view().findable == []


async def test_a_deleted_picture_is_not_found() -> None:
    site, meme = await _found()
    await delete_meme(site.deployment, A, meme.meme_id)
    assert site.view().findable == []


async def test_the_job_of_a_deleted_picture_ends_without_its_task() -> None:
    site = Site()
    meme = await site.upload()
    await delete_meme(site.deployment, A, meme.meme_id)
    await site.reconcile()
    assert site.newest().error == Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was deleted or replaced")


async def test_a_write_back_that_waited_for_the_lock_past_its_lease_is_fenced() -> None:
    site = Site()
    await site.upload()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.VISUAL))).running
    assert execution.attempt is not None
    failed = Failed(Diagnosis(ErrorCode.VISUAL_FAILED, "no"))
    item = Settling(execution.claim, execution.attempt.attempt_id, failed)
    async with site.uow.begin(A) as tx:
        await tx.claims.lock([execution.claim])
        settling = asyncio.create_task(settle(site.deployment, A, [item]))
        await turns()
        site.clock.advance(site.deployment.limits.lease)
    assert await settling == [Fenced(execution.claim, Fence.EXPIRED)]


async def test_a_start_that_waited_for_the_lock_past_its_lease_makes_no_call() -> None:
    site = Site(local=Replay.NEVER)
    await site.upload()
    executions = await site.claim(TaskType.VISUAL)
    async with site.uow.begin(A) as tx:
        await tx.claims.lock([execution.claim for execution in executions])
        starting = asyncio.create_task(start(site.deployment, A, executions))
        await turns()
        site.clock.advance(site.deployment.limits.lease)
    assert (await starting).running == ()
