"""The leaf units of execution."""

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import make_grant, make_job, make_maintenance_task, make_meme, make_task
from imgproc_adapters.testing.seed import (
    MINUTE,
    NO_TIME,
    OWNER,
    A,
    B,
    claim,
    expire,
    read_task,
    running_task,
    store,
    store_jobs,
    store_tasks,
)
from imgproc_adapters.testing.world import World
from imgproc_domain import job as jobs
from imgproc_domain import task as tasks
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict
from imgproc_domain.ids import TaskId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

WENT_WRONG = Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong")


async def _all_tasks(tx: Transaction) -> list[Task]:
    seen: list[Task] = []
    after: TaskId | None = None
    while True:
        page = await tx.tasks.page(after, 2)
        seen.extend(page.tasks)
        after = page.after
        if after is None:
            return seen


async def _fail(world: World, task: Task) -> Task:
    async with world.uow.begin(task.scope) as tx:
        locked = (await tx.claims.lock([task.claim]))[task.task_id]
        failed = tasks.fail(locked, WENT_WRONG, await tx.now())
        await tx.claims.save([failed])
    return failed


async def _new_job(
    world: World, meme: Meme, revision: int, policy: ReverseImagePolicy = ReverseImagePolicy.FORBID
) -> Job:
    job = make_job(meme, revision=revision, policy=policy)
    await store(world, job)
    return job


async def _end_job(world: World, job: Job) -> None:
    async with world.uow.begin(job.scope) as tx:
        await tx.memes.lock([job.meme_id])
        locked = (await tx.jobs.lock([job.job_id]))[job.job_id]
        await tx.jobs.save([jobs.close(locked, WENT_WRONG, await tx.now())])


async def _asked(
    world: World, meme: Meme, revision: int, policy: ReverseImagePolicy = ReverseImagePolicy.FORBID
) -> Task:
    """Let a job of the meme ask its agent and end; return the agent's task as it is then."""
    job = await _new_job(world, meme, revision, policy)
    task = make_task(job, Stage.AGENT)
    await store(world, task, make_grant(task))
    async with world.uow.begin(job.scope) as tx:
        await tx.memes.lock([job.meme_id])
        locked = (await tx.jobs.lock([job.job_id]))[job.job_id]
        reached = jobs.reuse(locked, [Stage.VISUAL])
        await tx.jobs.save([jobs.open_stage(reached, Stage.AGENT, task.task_id, await tx.now())])
    async with world.uow.begin(job.scope) as tx:
        (claimed,) = await tx.claims.claim(TaskType.CONTEXT, 1, OWNER, MINUTE)
    failed = await _fail(world, claimed)
    await _end_job(world, job)
    return failed


class TaskStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_task_is_read_back_as_it_was_added(self, world: World) -> None:
        (task,) = await store_tasks(world, 1)
        maintenance = make_maintenance_task(A)
        await store(world, maintenance)
        async with world.uow.begin(A) as tx:
            found = await tx.tasks.get([task.task_id, maintenance.task_id])
        assert found == {task.task_id: task, maintenance.task_id: maintenance}

    async def test_one_target_has_one_active_task_of_a_type(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        agent, again = make_task(job, Stage.AGENT), make_task(job, Stage.AGENT)
        await store(world, make_task(job, Stage.VISUAL), agent, make_grant(agent))
        with pytest.raises(Conflict):
            await store(world, again, make_grant(again))

    async def test_the_last_agent_task_of_a_picture_version_is_that_of_its_highest_revision(self, world: World) -> None:
        meme, bare = make_meme(A), make_meme(A)
        await store(world, meme, bare)
        first, second = [await _asked(world, meme, revision) for revision in (1, 2)]
        # a later revision that never came to its agent, and one of another policy
        await _end_job(world, await _new_job(world, meme, 3))
        other = await _asked(world, meme, 4, ReverseImagePolicy.AUTO)
        version = PictureVersion(meme.meme_id, meme.picture.sha256, ReverseImagePolicy.FORBID)
        auto, missing = evolve(version, policy=ReverseImagePolicy.AUTO), evolve(version, meme_id=bare.meme_id)
        assert first != second
        async with world.uow.begin(A) as tx:
            assert await tx.tasks.last_agents([version, missing]) == {version: second}
            assert await tx.tasks.last_agents([version, auto]) == {version: second, auto: other}
            assert await tx.tasks.last_agents([]) == {}
        async with world.uow.begin(B) as tx:
            assert await tx.tasks.last_agents([version]) == {}

    async def test_a_task_may_be_claimed_in_the_transaction_that_adds_it(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        task = make_task(job)
        async with world.uow.begin(A) as tx:
            now = await tx.now()
            claimed = tasks.claim(task, OWNER, now, MINUTE)
            await tx.tasks.add([claimed])
        assert await read_task(world, task) == claimed
        assert (claimed.status, claimed.lease.generation) == (TaskStatus.RUNNING, 1)
        assert await claim(world) == []
        assert not world.heartbeat.renew([claimed.claim], MINUTE)
        async with world.uow.begin(A) as tx:
            assert [t.task_id for t in (await tx.claims.lock([claimed.claim])).values()] == [task.task_id]

    async def test_one_that_is_lost_is_recovered_like_any_other(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        task = make_task(job)
        async with world.uow.begin(A) as tx:
            await tx.tasks.add([tasks.claim(task, OWNER, await tx.now(), NO_TIME)])
        await expire(world, task)
        (again,) = await claim(world)
        assert again.task_id == task.task_id
        assert again.lease.generation > 1

    async def test_a_running_task_is_active_too(self, world: World) -> None:
        running = await running_task(world)
        assert running.target is not None
        async with world.uow.begin(A) as tx:
            job = (await tx.jobs.get([running.target.job_id]))[running.target.job_id]
        with pytest.raises(Conflict):
            await store(world, make_task(job))

    async def test_after_its_task_ended_a_target_may_have_another(self, world: World) -> None:
        running = await running_task(world)
        assert running.target is not None
        await _fail(world, running)
        async with world.uow.begin(A) as tx:
            job = (await tx.jobs.get([running.target.job_id]))[running.target.job_id]
        await store(world, make_task(job))

    @pytest.mark.parametrize("change", ["policy", "configuration", "picture"])
    async def test_another_policy_configuration_or_picture_is_another_target(self, world: World, change: str) -> None:
        (job,) = await store_jobs(world, 1)
        other = {
            "policy": evolve(job, reverse_image_policy=ReverseImagePolicy.AUTO),
            "configuration": evolve(job, config_fingerprint="config-2"),
            "picture": evolve(job, image_sha256=make_meme(A).picture.sha256),
        }[change]
        await store(world, make_task(job), make_task(other))

    async def test_maintenance_tasks_have_no_target_to_conflict_about(self, world: World) -> None:
        await store(world, make_maintenance_task(A), make_maintenance_task(A))
        async with world.uow.begin(A) as tx:
            _newer, _older = (await tx.tasks.page(None, 10)).tasks

    async def test_unknown_and_foreign_tasks_are_missing(self, world: World) -> None:
        (foreign,) = await store_tasks(world, 1, scope=B)
        async with world.uow.begin(A) as tx:
            assert not await tx.tasks.get([foreign.task_id])

    async def test_a_meme_is_busy_while_a_leaf_task_of_it_is_live(self, world: World) -> None:
        running = await running_task(world)
        ended = await running_task(world)
        await _fail(world, ended)
        queued, unasked = await store_tasks(world, 2)
        asked = [t.target.meme_id for t in (running, ended, queued) if t.target]
        async with world.uow.begin(A) as tx:
            busy = await tx.tasks.busy(asked)
        assert unasked not in busy
        assert sorted(t.task_id for t in busy) == [running.task_id, queued.task_id]

    async def test_pages_are_filtered_by_type_and_status(self, world: World) -> None:
        (visual,) = await store_tasks(world, 1)
        (text,) = await store_tasks(world, 1, Stage.TEXT)
        async with world.uow.begin(A) as tx:
            assert (await tx.tasks.page(None, 10)).tasks == (text, visual)
            assert (await tx.tasks.page(None, 10, TaskType.TEXT)).tasks == (text,)
            assert (await tx.tasks.page(None, 10, TaskType.TEXT, TaskStatus.QUEUED)).tasks == (text,)
            assert (await tx.tasks.page(None, 10, status=TaskStatus.RUNNING)).tasks == ()

    async def test_pages_show_every_task_once_newest_first(self, world: World) -> None:
        stored = await store_tasks(world, 5)
        async with world.uow.begin(A) as tx:
            assert await _all_tasks(tx) == stored[::-1]
