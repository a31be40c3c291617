"""A lost call whose provider can be asked: what is believed, and when."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.unit.usecases.site import Site, content, turns

from imgproc_adapters.testing.invariants import violations
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, LOOK_UP, Described, name_answer
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import IMAGE_TASK_TYPES, TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.edit import replace_picture
from imgproc_domain.usecases.perform import agent_call, perform
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.start import start

LEASE = timedelta(seconds=30)
HARD_DEADLINE = timedelta(minutes=5)


async def site_with_a_started_call() -> tuple[Site, Sequence[Execution]]:
    """Return a site whose first worker is about to make its call, under a hard deadline longer than its lease."""
    site = Site()
    site.agent.replay, site.agent.hard_deadline = Replay.LOOKUP, HARD_DEADLINE
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    running = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    return site, running


async def lose(site: Site) -> None:
    site.clock.advance(LEASE + timedelta(seconds=1))
    assert await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10) == 1


def statuses(site: Site) -> list[AttemptStatus]:
    (agent,) = (task for task in site.view().tasks if task.task_type is TaskType.CONTEXT)
    return [attempt.status for attempt in site.view().attempts if attempt.task_id == agent.task_id]


async def test_a_request_that_was_not_seen_yet_is_not_made_again_by_somebody_else() -> None:
    site, (execution,) = await site_with_a_started_call()
    await lose(site)
    await site.run(TaskType.CONTEXT)
    (task,) = (task for task in site.view().tasks if task.task_type is TaskType.CONTEXT)
    assert execution.attempt is not None
    assert (task.status, task.available_at) == (TaskStatus.QUEUED, execution.attempt.hard_deadline_at)
    assert (task.failures, statuses(site)) == (0, [AttemptStatus.EXTERNAL_STARTED])
    await perform(site.deployment, execution)
    site.clock.advance(HARD_DEADLINE)
    await site.run(TaskType.CONTEXT)
    assert statuses(site) == [AttemptStatus.COMPLETED], "what the first worker was answered is adopted"
    assert len(started(site.ledger, AGENT)) == 1


async def test_what_was_said_about_a_replaced_picture_is_not_said_about_the_new_one() -> None:
    site, (execution,) = await site_with_a_started_call()
    await perform(site.deployment, execution)
    (meme,) = site.view().memes
    await replace_picture(site.deployment, A, meme.meme_id, None, content("dog"))
    await lose(site)
    await site.run(TaskType.CONTEXT)
    assert statuses(site) == [AttemptStatus.COMPLETED], "the answer was looked up"
    assert site.view().contexts == []


async def test_a_request_that_nobody_can_make_any_more_is_made_anew() -> None:
    site, _ = await site_with_a_started_call()
    await lose(site)
    await site.run(TaskType.CONTEXT)
    site.clock.advance(HARD_DEADLINE)
    await site.run(TaskType.CONTEXT)
    site.clock.advance(HARD_DEADLINE)
    await site.work_off()
    assert statuses(site) == [AttemptStatus.FAILED, AttemptStatus.COMPLETED]
    assert len(started(site.ledger, AGENT)) == 1
    assert site.newest().status is JobStatus.SUCCEEDED


async def test_a_call_under_way_is_asked_about_again_when_it_must_be_over() -> None:
    site, (execution,) = await site_with_a_started_call()
    assert execution.meme is not None
    held = Held[Described](name_answer(agent_call(site.deployment, execution, execution.meme)))
    site.agent.script.then(held)
    calling = asyncio.create_task(perform(site.deployment, execution))
    await held.started.wait()
    await lose(site)
    await site.run(TaskType.CONTEXT)
    assert statuses(site) == [AttemptStatus.EXTERNAL_STARTED]
    assert site.newest().status is JobStatus.RUNNING
    held.release()
    await calling
    site.clock.advance(HARD_DEADLINE)
    await site.run(TaskType.CONTEXT)
    assert statuses(site) == [AttemptStatus.COMPLETED]
    assert not violations(site.view())


@pytest.mark.parametrize("ends", [True, False])
async def test_what_the_provider_cannot_tell_once_the_call_is_over_stays_unknown(*, ends: bool) -> None:
    site, (execution,) = await site_with_a_started_call()
    site.agent.script.then(
        RuntimeError("the process of the call dies") if ends else Held[Described](RuntimeError("never"))
    )
    calling = asyncio.create_task(perform(site.deployment, execution))
    await turns()
    await lose(site)
    for _ in range(2):
        await site.run(TaskType.CONTEXT)
        site.clock.advance(HARD_DEADLINE)
    calling.cancel()
    assert statuses(site) == [AttemptStatus.UNKNOWN]
    assert site.newest().status is JobStatus.UNKNOWN
    assert (len(started(site.ledger, AGENT)), len(started(site.ledger, LOOK_UP))) == (1, 2)
    site.clock.advance(HARD_DEADLINE)
    async with site.uow.begin(A) as tx:
        (task,) = (task for task in site.view().tasks if task.task_type is TaskType.CONTEXT)
        assert len(await tx.slots.take(task.lane, 10)) == 2
