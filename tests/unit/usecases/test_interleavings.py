"""Interleavings that once broke a promise of the design."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from attrs import evolve
from tests.unit.usecases.site import Site, content, turns

from imgproc_adapters.memory import (
    MemoryListener,
)
from imgproc_adapters.testing.factories import (
    make_context,
    make_grant,
    make_job,
    make_meme,
    make_picture,
    make_task,
)
from imgproc_adapters.testing.invariants import violations
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT
from imgproc_adapters.testing.policy import RememberingPolicy, Reservation
from imgproc_adapters.testing.seed import A, store
from imgproc_adapters.testing.world import World
from imgproc_domain.context import Description, Origin
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.policy import Decision, DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.ports.models import Declined
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.edit import edit_context
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.recover import expire_leases, flush_releases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start


async def test_words_written_while_the_agent_task_is_queued_are_not_overwritten() -> None:
    site = Site()
    await site.slots(2)
    meme = await site.upload()
    await site.until_agent()
    await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="my own words"))
    await site.work_off()
    (context,) = site.view().contexts
    assert context.provenance is not None
    assert (context.description.title, context.provenance.origin) == ("my own words", Origin.PERSON)


async def test_no_agent_is_called_for_a_picture_that_a_person_has_described_meanwhile() -> None:
    site = Site()
    await site.slots(2)
    meme = await site.upload()
    await site.until_agent()
    await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="my own words"))
    await site.work_off()
    assert started(site.ledger, AGENT) == []


async def test_words_written_while_the_agent_runs_are_found_even_if_the_agent_then_fails() -> None:
    site = Site()
    await site.slots(2)
    meme = await site.upload()
    await site.until_agent()
    claimed = await site.claim(TaskType.CONTEXT)
    await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="my own words"))
    site.agent.script.then(Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False))
    await site.finish(claimed)
    await site.work_off()
    assert len(site.view().findable) == 1


async def test_an_upload_that_meets_a_replacement_of_the_same_bytes_keeps_its_picture() -> None:
    site = Site()
    meme = await site.upload("cat")
    async with site.uow.begin(A) as tx:
        locked = (await tx.memes.lock([meme.meme_id]))[meme.meme_id]
        await tx.memes.save(evolve(locked, picture=make_picture("dog")))
        again = asyncio.create_task(
            upload(site.deployment, A, "a.png", content("cat"), ReverseImagePolicy.FORBID), name="upload"
        )
        await turns()
    uploaded = await again
    assert uploaded.meme.picture.sha256 == meme.picture.sha256
    assert meme.picture.sha256 in {row.picture.sha256 for row in site.view().memes if row.exists}


class LostReplyPolicy(RememberingPolicy):
    """Reserves, but its answer does not arrive: the adapter fails closed."""

    async def acquire(self, request: OperationRequest) -> Decision:
        decision = await super().acquire(request)
        if request.operation is not Operation.ANALYSIS_AGENT:
            return decision
        return Denied(DenialReason.UNAVAILABLE, "no answer in time")


async def test_a_reservation_whose_answer_was_lost_is_given_back() -> None:
    site = Site(policy=LostReplyPolicy())
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    assert site.newest().status is JobStatus.BLOCKED
    await flush_releases(site.deployment, A, 10)
    assert site.policy.reserved == []


class RaisingPolicy(RememberingPolicy):
    """A host's adapter with a bug that one picture finds."""

    poison: str = ""

    async def acquire(self, request: OperationRequest) -> Decision:
        if request.resource == self.poison:
            raise RuntimeError("a bug of the host's")
        return await super().acquire(request)


async def test_a_policy_that_raises_for_one_picture_does_not_stop_the_others() -> None:
    policy = RaisingPolicy()
    site = Site(policy=policy)
    await site.slots(2)
    policy.poison = str((await site.upload("cat")).meme_id)
    await site.upload("dog")
    await site.reconcile()
    await site.run(TaskType.VISUAL)
    for _ in range(3):
        with suppress(RuntimeError):
            await site.reconcile()
        site.clock.advance(timedelta(minutes=10))
    assert any(job.stage(Stage.AGENT).task_id for job in site.view().jobs)


async def test_a_job_that_waits_for_room_wakes_nobody() -> None:
    site = Site(backpressure=1)
    await site.slots(1)
    for name in ("cat", "dog", "owl"):
        await site.upload(name)
    await site.until_agent()
    ear = MemoryListener(site.store)
    await ear.start()
    await site.reconcile()
    assert Topic.JOBS not in await ear.wait(0)


async def test_a_call_that_was_lost_keeps_one_slot_only() -> None:
    site = Site()
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    await start(site.deployment, A, claimed := await site.claim(TaskType.CONTEXT))
    site.heartbeat.renew([e.claim for e in claimed], timedelta(0))
    await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10)
    await site.run(TaskType.CONTEXT)
    assert site.newest().status is JobStatus.UNKNOWN
    assert sum(slot.task_id is not None for slot in site.view().slots) == 1


async def _embedded_and_described() -> tuple[Site, Sequence[Settling]]:
    """A vector of old words and the new words, each made under its own job, ready to be settled in one batch."""
    site = Site()
    await site.slots(2)
    world = World(site.uow, site.dispatch, site.heartbeat, lambda: MemoryListener(site.store))
    meme = make_meme(A)
    made_with = site.deployment.config.fingerprint
    earlier, later = (make_job(meme, revision=n, config_fingerprint=made_with, due_at=None) for n in (1, 2))
    closed = evolve(earlier, status=JobStatus.FAILED, completed_at=site.clock.now())
    agent_task = make_task(later, Stage.AGENT)
    grant = make_grant(agent_task)
    agent_task = evolve(agent_task, grant_id=grant.grant_id)
    await store(world, meme, make_context(meme), earlier, make_task(earlier, Stage.TEXT))
    embedding = (await start(site.deployment, A, await site.claim(TaskType.TEXT))).running
    async with site.uow.begin(A) as tx:
        await tx.jobs.lock([earlier.job_id])
        await tx.jobs.save([closed])
    await store(world, later, agent_task, grant)
    site.policy.known[(A, grant.operation, f"{later.job_id}:{Stage.AGENT}")] = Reservation.RESERVED
    describing = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    assert (len(embedding), len(describing)) == (1, 1)
    return site, [await site._performed(e) for e in (*embedding, *describing)]


async def test_a_batch_that_changes_a_context_publishes_no_vector_of_the_old_one() -> None:
    site, items = await _embedded_and_described()
    await settle(site.deployment, A, items)
    assert not [sentence for sentence in violations(site.view()) if sentence.startswith("I14")]


async def test_an_item_of_a_batch_sees_the_words_that_another_one_before_it_writes() -> None:
    site, items = await _embedded_and_described()
    await settle(site.deployment, A, items[::-1])
    (text,) = (task for task in site.view().tasks if task.task_type is TaskType.TEXT)
    assert (text.status, text.error and text.error.code) == (TaskStatus.QUEUED, ErrorCode.CONTEXT_CHANGED)
