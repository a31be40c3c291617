"""A call that may have been made is not made again because something else changed meanwhile: only a person decides."""

from datetime import timedelta

from attrs import evolve
from tests.unit.usecases.site import Site

from imgproc_adapters.testing.invariants import violations
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, NOTHING_KNOWN, ScriptedTextModel
from imgproc_adapters.testing.seed import A
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, TaskType
from imgproc_domain.usecases.configuration import take_over
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.start import start

LEASE = timedelta(seconds=30)
HARD_DEADLINE = timedelta(hours=1)


async def site_before_its_call() -> Site:
    site = Site()
    await take_over(site.deployment, A)
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    return site


def with_another_text_model(site: Site) -> Deployment:
    """The same agent; the next deployment embeds texts with another model."""
    text = ScriptedTextModel(space=VectorSpace("scripted-text-2", 64), ledger=site.ledger)
    return evolve(site.deployment, text=text)


async def test_a_call_that_becomes_unknown_while_another_deployment_takes_over_is_not_repeated() -> None:
    site = await site_before_its_call()
    old, new = site.deployment, with_another_text_model(site)
    calling = await site.claim(TaskType.CONTEXT)
    await take_over(new, A)
    site.deployment = new
    await site.upload()
    site.agent.script.then(NOTHING_KNOWN)
    site.deployment = old
    await site.finish(calling)
    site.deployment = new
    site.clock.advance(site.agent.hard_deadline)
    await site.work_off()
    assert [job.status for job in site.view().jobs] == [JobStatus.UNKNOWN]
    assert len(started(site.ledger, AGENT)) == 1
    assert not violations(site.view())


async def test_an_upload_under_another_configuration_does_not_repeat_an_unknown_call() -> None:
    site = await site_before_its_call()
    site.agent.script.then(NOTHING_KNOWN)
    await site.run(TaskType.CONTEXT)
    site.clock.advance(site.agent.hard_deadline)
    site.deployment = with_another_text_model(site)
    await take_over(site.deployment, A)
    await site.upload()
    await site.work_off()
    assert [job.status for job in site.view().jobs] == [JobStatus.UNKNOWN]
    await retry_job(site.deployment, A, site.newest().job_id)
    await site.work_off()
    assert site.newest().status is JobStatus.SUCCEEDED
    assert len(started(site.ledger, AGENT)) == 2


async def test_look_ups_that_kill_their_worker_end_as_unknown() -> None:
    site = await site_before_its_call()
    site.agent.replay, site.agent.hard_deadline = Replay.LOOKUP, HARD_DEADLINE
    await start(site.deployment, A, await site.claim(TaskType.CONTEXT))
    losses = 2 * site.deployment.limits.retry.max_lease_losses
    for lost in range(1, losses + 1):
        site.clock.advance(LEASE + timedelta(seconds=1))
        assert await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10) == 1
        async with site.uow.begin(A) as tx:
            # each look-up took a slot, and this is about how many there may be
            await tx.slots.resize(Lane.AGENT, 2 + lost)
        assert len(await site.claim(TaskType.CONTEXT)) == (lost < losses)
    assert site.newest().status is JobStatus.UNKNOWN
    assert [row.status for row in site.view().attempts][-1] is AttemptStatus.UNKNOWN
    assert [grant.status for grant in site.view().grants] == [GrantStatus.UNKNOWN]
    assert not violations(site.view())
