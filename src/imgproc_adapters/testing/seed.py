"""Rows put in place through the ports, before a test begins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from imgproc_adapters.testing.factories import make_grant, make_job, make_meme, make_task
from imgproc_adapters.testing.world import World
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt
from imgproc_domain.context import Context
from imgproc_domain.grant import Grant
from imgproc_domain.ids import WorkerId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TASK_TYPE_OF, Stage
from imgproc_domain.task import Task

Row = Meme | Context | Job | Task | Grant | Attempt

A: Final = Scope("contract-a")
B: Final = Scope("contract-b")
OWNER: Final = WorkerId("worker-1")
ANOTHER: Final = WorkerId("worker-2")
MINUTE: Final = timedelta(minutes=1)
NO_TIME: Final = timedelta(0)
"""A lease of this length has expired as soon as it is made."""


class _RolledBackError(Exception):
    """Leaves a transaction so that it is rolled back."""


@asynccontextmanager
async def rolled_back(world: World, scope: Scope = A) -> AsyncIterator[Transaction]:
    """Open a transaction that ends with an exception, as a crash in the middle of it would."""
    with suppress(_RolledBackError):
        async with world.uow.begin(scope) as tx:
            yield tx
            raise _RolledBackError


async def store(world: World, *rows: Row) -> None:
    """Insert rows of one scope in one transaction, parents first."""
    async with world.uow.begin(rows[0].scope) as tx:
        for meme in (row for row in rows if isinstance(row, Meme)):
            await tx.memes.add(meme)
        await tx.contexts.put([row for row in rows if isinstance(row, Context)])
        await tx.jobs.add([row for row in rows if isinstance(row, Job)])
        await tx.tasks.add([row for row in rows if isinstance(row, Task)])
        await tx.grants.add([row for row in rows if isinstance(row, Grant)])
        await tx.attempts.add([row for row in rows if isinstance(row, Attempt)])


async def store_jobs(world: World, count: int, scope: Scope = A) -> list[Job]:
    """Store queued, due jobs, each of a meme of its own, and return them oldest id first."""
    memes = [make_meme(scope) for _ in range(count)]
    jobs = [make_job(meme) for meme in memes]
    await store(world, *memes, *jobs)
    return jobs


async def new_tasks(world: World, count: int, stage: Stage, scope: Scope = A) -> list[Task]:
    """Return queued tasks that are not stored yet, each of a stored meme and job of its own, oldest id first."""
    return [make_task(job, stage) for job in await store_jobs(world, count, scope)]


async def store_tasks(world: World, count: int, stage: Stage = Stage.VISUAL, scope: Scope = A) -> list[Task]:
    """Store queued tasks, each of a meme and job of its own and with its grant, and return them oldest id first."""
    tasks = await new_tasks(world, count, stage, scope)
    await store(world, *tasks, *(make_grant(task) for task in tasks if task.grant_id))
    return tasks


async def claim(
    world: World,
    limit: int = 1,
    lease: timedelta = MINUTE,
    owner: WorkerId = OWNER,
    stage: Stage = Stage.VISUAL,
    scope: Scope = A,
) -> list[Task]:
    """Claim tasks in a transaction of their own and return them as they are then."""
    async with world.uow.begin(scope) as tx:
        return list(await tx.claims.claim(TASK_TYPE_OF[stage], limit, owner, lease))


async def running_task(world: World, lease: timedelta = MINUTE, scope: Scope = A) -> Task:
    """Store one task and claim it."""
    await store_tasks(world, 1, scope=scope)
    (task,) = await claim(world, lease=lease, scope=scope)
    return task


async def expire(world: World, task: Task) -> Task:
    """Take an expired lease away, as recovery does."""
    async with world.uow.begin(task.scope) as tx:
        (expired,) = await tx.claims.lock_expired([task.task_type], 1)
        after = tasks.expire(expired, await tx.now(), RetryPolicy(max_lease_losses=100))
        await tx.claims.save([after])
    return after


async def read_task(world: World, task: Task) -> Task:
    async with world.uow.begin(task.scope) as tx:
        return (await tx.tasks.get([task.task_id]))[task.task_id]


async def read_job(world: World, job: Job) -> Job:
    async with world.uow.begin(job.scope) as tx:
        return (await tx.jobs.get([job.job_id]))[job.job_id]
