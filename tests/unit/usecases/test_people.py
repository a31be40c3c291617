"""What people do, and what of it starts work again."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta

import pytest
from tests.unit.usecases.site import Site, content, turns

from imgproc_adapters.memory.processing import MemoryJobs
from imgproc_adapters.testing.seed import A
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import ContextConflict, JobNotRetryable
from imgproc_domain.ids import MemeId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Failed
from imgproc_domain.ports.models import Declined
from imgproc_domain.stage import ReverseImagePolicy, TaskType
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.edit import edit_context, replace_picture
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.submit import Submitted, submit

REFUSED = Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False)


async def failed() -> tuple[Site, Meme]:
    """A picture whose agent refused to describe it."""
    site = Site()
    await site.slots(1)
    meme = await site.upload()
    site.agent.script.then(REFUSED)
    await site.work_off()
    assert site.newest().status is JobStatus.FAILED
    return site, meme


async def test_the_same_upload_again_does_not_restart_a_failed_job() -> None:
    site, _ = await failed()
    await site.upload()
    assert [(job.revision, job.status) for job in site.view().jobs] == [(1, JobStatus.FAILED)]


async def test_a_replacement_by_the_same_bytes_does_not_restart_a_failed_job() -> None:
    site, meme = await failed()
    await replace_picture(site.deployment, A, meme.meme_id, None, content("cat"))
    assert [(job.revision, job.status) for job in site.view().jobs] == [(1, JobStatus.FAILED)]


async def test_words_of_a_person_are_embedded_also_where_the_last_job_failed() -> None:
    site, meme = await failed()
    await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="my own words"))
    await site.work_off()
    assert (site.newest().revision, site.newest().status) == (2, JobStatus.SUCCEEDED)
    assert len(site.view().findable) == 1


async def test_words_that_somebody_else_changed_meanwhile_are_not_overwritten() -> None:
    site, meme = await failed()
    await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="first"))
    with pytest.raises(ContextConflict):
        await edit_context(site.deployment, A, meme.meme_id, 0, Description(title="second"))
    assert [context.description.title for context in site.view().contexts] == ["first"]


async def test_only_what_ended_without_success_is_retried() -> None:
    site, _ = await failed()
    active = await retry_job(site.deployment, A, site.newest().job_id)
    with pytest.raises(JobNotRetryable):
        await retry_job(site.deployment, A, active.job_id)
    await site.work_off()
    assert site.newest().status is JobStatus.SUCCEEDED
    with pytest.raises(JobNotRetryable):
        await retry_job(site.deployment, A, active.job_id)


async def test_two_who_retry_at_once_open_one_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    site, meme = await failed()
    read = MemoryJobs.newest

    async def newest(self: MemoryJobs, meme_ids: Collection[MemeId]) -> Mapping[MemeId, Job]:
        found = await read(self, meme_ids)
        # long enough for somebody else to read the same, if nothing keeps them from it
        await turns()
        return found

    monkeypatch.setattr(MemoryJobs, "newest", newest)
    again = [Submission(meme.meme_id, ReverseImagePolicy.FORBID, Mode.EXPLICIT)]
    answers = await asyncio.gather(*(submit(site.deployment, A, again) for _ in range(2)))
    assert sorted(a.created for (a,) in answers if isinstance(a, Submitted)) == [False, True]
    assert [job.revision for job in site.view().jobs] == [1, 2]


async def test_a_maintenance_task_whose_claim_is_gone_writes_nothing() -> None:
    site = Site()
    await request_generation(site.deployment, A)
    (execution,) = await site.claim(TaskType.CACHE)
    site.heartbeat.renew([execution.claim], timedelta(0))
    assert isinstance(await build_generation(site.deployment, execution), Failed)
    async with site.uow.begin(A) as tx:
        assert await tx.generations.of_task(execution.task.task_id) is None
