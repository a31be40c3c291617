"""Jobs with their stages."""

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_job, make_meme, make_picture, make_task
from imgproc_adapters.testing.seed import MINUTE, A, B, read_job, store, store_jobs
from imgproc_adapters.testing.world import World
from imgproc_domain import job as jobs
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict
from imgproc_domain.ids import JobId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.policy import DenialReason, Denied
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.stage import ReverseImagePolicy, Stage

VERSIONS = [("cat", ReverseImagePolicy.FORBID), ("cat", ReverseImagePolicy.AUTO), ("dog", ReverseImagePolicy.FORBID)]
WENT_WRONG = Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong")


async def _all_jobs(tx: Transaction) -> list[Job]:
    seen: list[Job] = []
    after: JobId | None = None
    while True:
        page = await tx.jobs.page(after, 2)
        seen.extend(page.jobs)
        after = page.after
        if after is None:
            return seen


async def _end(world: World, job: Job) -> Job:
    """Fail a job at its current stage."""
    async with world.uow.begin(job.scope) as tx:
        await tx.memes.lock([job.meme_id])
        locked = (await tx.jobs.lock([job.job_id]))[job.job_id]
        ended = jobs.close(locked, WENT_WRONG, await tx.now())
        await tx.jobs.save([ended])
    return ended


class JobStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_job_is_read_back_with_its_stages(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        assert await read_job(world, job) == job

    async def test_a_meme_has_at_most_one_active_job(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme, make_job(meme))
        with pytest.raises(Conflict):
            await store(world, make_job(meme, revision=2))

    async def test_a_meme_has_each_revision_once(self, world: World) -> None:
        meme = make_meme(A)
        job = make_job(meme)
        await store(world, meme, job)
        await _end(world, job)
        with pytest.raises(Conflict):
            await store(world, make_job(meme, revision=1))
        await store(world, make_job(meme, revision=2))

    async def test_a_job_may_end_and_the_next_revision_begin_in_one_transaction(self, world: World) -> None:
        meme = make_meme(A)
        job, following = make_job(meme), make_job(meme, revision=2)
        await store(world, meme, job)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([meme.meme_id])
            locked = await tx.jobs.lock([job.job_id])
            await tx.jobs.save([jobs.close(locked[job.job_id], WENT_WRONG, await tx.now())])
            await tx.jobs.add([following])
        async with world.uow.begin(A) as tx:
            assert await tx.jobs.active([meme.meme_id]) == {meme.meme_id: following.job_id}
            assert await tx.jobs.newest([meme.meme_id]) == {meme.meme_id: following}

    async def test_the_newest_job_is_that_of_the_highest_revision_whether_active_or_not(self, world: World) -> None:
        meme, bare = make_meme(A), make_meme(A)
        job = make_job(meme)
        await store(world, meme, bare, job)
        ended = await _end(world, job)
        async with world.uow.begin(A) as tx:
            assert await tx.jobs.newest([meme.meme_id, bare.meme_id]) == {meme.meme_id: ended}
            assert await tx.jobs.active([meme.meme_id, bare.meme_id]) == {}
        later = make_job(meme, revision=2)
        await store(world, later)
        async with world.uow.begin(A) as tx:
            assert await tx.jobs.newest([meme.meme_id]) == {meme.meme_id: later}
            assert await tx.jobs.active([meme.meme_id]) == {meme.meme_id: later.job_id}

    async def test_the_newest_job_of_a_picture_version_is_found_behind_those_of_others(self, world: World) -> None:
        meme, bare = make_meme(A), make_meme(A)
        await store(world, meme, bare)
        versions = [*VERSIONS, *VERSIONS]
        made = []
        for revision, (content, policy) in enumerate(versions, 1):
            shown = evolve(meme, picture=make_picture(content))
            await store(world, job := make_job(shown, revision=revision, policy=policy))
            made.append(await _end(world, job))
        wanted = {PictureVersion.of(job): job for job in made}
        missing = [evolve(version, meme_id=bare.meme_id) for version in wanted]
        async with world.uow.begin(A) as tx:
            assert await tx.jobs.newest_of([*wanted, *missing]) == wanted
            assert await tx.jobs.newest_of(list(wanted)[:1]) == dict([next(iter(wanted.items()))])
            assert await tx.jobs.newest_of([]) == {}
        assert [job.revision for job in wanted.values()] == [4, 5, 6]
        async with world.uow.begin(B) as tx:
            assert await tx.jobs.newest_of(list(wanted)) == {}

    async def test_the_live_ones_among_jobs_are_those_that_have_not_ended(self, world: World) -> None:
        going, over = await store_jobs(world, 2)
        (foreign,) = await store_jobs(world, 1, scope=B)
        ended = await _end(world, over)
        assert not ended.live
        never = make_job(make_meme(A))
        async with world.uow.begin(A) as tx:
            asked = [job.job_id for job in (going, going, over, foreign, never)]
            assert set(await tx.jobs.live(asked)) == {going.job_id}
            assert set(await tx.jobs.live([])) == set()

    async def test_every_state_of_a_job_is_read_back_as_it_was_saved(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        task = make_task(job)
        denied = Denied(DenialReason.LIMIT_EXCEEDED, "enough for today", LONG_AGO + MINUTE)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([job.meme_id])
            locked = (await tx.jobs.lock([job.job_id]))[job.job_id]
            now = await tx.now()
            opened = jobs.open_stage(locked, Stage.VISUAL, task.task_id, now)
            await tx.tasks.add([task])
            await tx.jobs.save([opened])
            assert (await tx.jobs.get([job.job_id]))[job.job_id] == opened
            done = jobs.reuse(jobs.complete_stage(opened, Stage.VISUAL, now), [Stage.VISUAL])
            blocked = jobs.block(done, Stage.AGENT, denied, now)
            await tx.jobs.save([blocked])
        assert await read_job(world, job) == blocked

    async def test_pages_are_filtered_by_status_and_current_stage(self, world: World) -> None:
        stored = await store_jobs(world, 3)
        failed = await _end(world, stored[1])
        reused = jobs.reuse(stored[2], [Stage.VISUAL])
        async with world.uow.begin(A) as tx:
            await tx.jobs.lock([reused.job_id])
            await tx.jobs.save([reused])
        async with world.uow.begin(A) as tx:
            assert (await tx.jobs.page(None, 10, JobStatus.FAILED)).jobs == (failed,)
            assert (await tx.jobs.page(None, 10, stage=Stage.VISUAL)).jobs == (failed, stored[0])
            assert (await tx.jobs.page(None, 10, JobStatus.QUEUED, Stage.AGENT)).jobs == (reused,)
            assert (await tx.jobs.page(None, 10, JobStatus.FAILED, Stage.TEXT)).jobs == ()

    async def test_pages_show_every_job_once_newest_first(self, world: World) -> None:
        stored = await store_jobs(world, 5)
        await store_jobs(world, 1, scope=B)
        async with world.uow.begin(A) as tx:
            assert await _all_jobs(tx) == stored[::-1]

    async def test_the_newest_job_of_each_live_meme_is_counted(self, world: World) -> None:
        memes = [make_meme(A), make_meme(A), make_meme(A, deleted_at=LONG_AGO)]
        stored = [make_job(meme) for meme in memes]
        await store(world, *memes, *stored)
        await _end(world, stored[0])
        counts = await self._counts(world)
        assert counts == {JobStatus.FAILED: 1, JobStatus.QUEUED: 1}
        await store(world, make_job(memes[0], revision=2))
        assert await self._counts(world) == {JobStatus.QUEUED: 2}

    async def _counts(self, world: World) -> dict[JobStatus, int]:
        async with world.uow.begin(A) as tx:
            return {status: count for status, count in (await tx.jobs.counts()).items() if count}
