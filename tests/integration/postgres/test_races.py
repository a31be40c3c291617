"""Two transactions, interleaved by hand: what one does while the other holds the row."""

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import TypeVar

import psycopg
import pytest
import pytest_asyncio
from attrs import evolve

from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_attempt, make_grant, make_job, make_meme, make_task
from imgproc_domain import attempt as attempts
from imgproc_domain import grant as grants
from imgproc_domain import task as tasks
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.claim import Fence
from imgproc_domain.errors import Conflict
from imgproc_domain.grant import GrantStatus
from imgproc_domain.ids import WorkerId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.stage import IMAGE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

A = Scope("races-a")
B = Scope("races-b")
ONE, TWO = WorkerId("one"), WorkerId("two")
MINUTE = timedelta(minutes=1)
PATIENCE = 30.0

T = TypeVar("T")


async def waiting(direct: str, blocked: int = 1) -> None:
    """Return once that many of the database's connections wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE), await psycopg.AsyncConnection.connect(direct, autocommit=True) as watcher:
        while True:
            if await (await watcher.execute(query)).fetchone() == (blocked,):
                return
            await asyncio.sleep(0.01)


async def past(tx: Transaction, moment: datetime) -> None:
    """Return once the database's clock has passed the moment."""
    while True:
        if await tx.now() > moment:
            return
        await asyncio.sleep(0.05)


async def soon(result: Awaitable[T]) -> T:
    return await asyncio.wait_for(result, PATIENCE)


@pytest_asyncio.fixture
async def job(uow: PostgresUnitOfWork) -> Job:
    meme = make_meme(A)
    job = make_job(meme)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
    return job


@pytest_asyncio.fixture
async def queued(uow: PostgresUnitOfWork, job: Job) -> Task:
    task = make_task(job, Stage.VISUAL)
    async with uow.begin(A) as tx:
        await tx.tasks.add([task])
    return task


async def claimed(uow: PostgresUnitOfWork, lease: timedelta = MINUTE) -> Task:
    async with uow.begin(A) as tx:
        (task,) = await tx.claims.claim(TaskType.VISUAL, 1, ONE, lease)
    return task


async def test_a_claim_passes_by_what_another_is_claiming(uow: PostgresUnitOfWork, queued: Task) -> None:
    async with uow.begin(A) as first:
        assert [task.task_id for task in await first.claims.claim(TaskType.VISUAL, 5, ONE, MINUTE)] == [queued.task_id]
        async with uow.begin(A) as second:
            assert not await soon(second.claims.claim(TaskType.VISUAL, 5, TWO, MINUTE))


async def test_a_claim_that_is_rolled_back_leaves_the_task_for_others(uow: PostgresUnitOfWork, queued: Task) -> None:
    async def change_my_mind() -> None:
        async with uow.begin(A) as first:
            await first.claims.claim(TaskType.VISUAL, 1, ONE, MINUTE)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await change_my_mind()
    assert (await claimed(uow)).lease.generation == queued.lease.generation + 1


async def test_expiry_passes_by_what_is_being_settled(uow: PostgresUnitOfWork, queued: Task) -> None:
    running = await claimed(uow, lease=timedelta(0))
    async with uow.begin(A) as settling, uow.begin(A) as sweeping:
        await settling.claims.lock([running.claim])
        assert not await soon(sweeping.claims.lock_expired(IMAGE_TASK_TYPES, 5))


async def test_a_settling_that_waited_for_the_expiry_is_fenced(
    uow: PostgresUnitOfWork, direct: str, queued: Task
) -> None:
    running = await claimed(uow, lease=timedelta(0))
    async with uow.begin(A) as settling:
        async with uow.begin(A) as sweeping:
            (expired,) = await sweeping.claims.lock_expired(IMAGE_TASK_TYPES, 5)
            late = asyncio.create_task(settling.claims.lock([running.claim]))
            await waiting(direct)
            await sweeping.claims.save([tasks.expire(expired, await sweeping.now(), RetryPolicy())])
        seen = (await soon(late))[running.task_id]
        assert seen.status is TaskStatus.QUEUED
        assert tasks.why_fenced(seen, running.claim, await settling.now()) is Fence.NOT_RUNNING


async def test_a_lease_that_ended_while_its_holder_waited_is_over(
    uow: PostgresUnitOfWork, direct: str, queued: Task
) -> None:
    running = await claimed(uow, lease=timedelta(seconds=0.5))
    assert running.lease.expires_at is not None
    async with uow.begin(A) as settling:
        async with uow.begin(A) as other:
            await other.claims.lock([running.claim])
            late = asyncio.create_task(settling.claims.lock([running.claim]))
            await waiting(direct)
            await past(other, running.lease.expires_at)
        seen = (await soon(late))[running.task_id]
        assert tasks.why_fenced(seen, running.claim, await settling.now()) is Fence.EXPIRED


async def test_a_reconcile_whose_lease_ended_while_it_waited_is_over(
    uow: PostgresUnitOfWork, database: str, job: Job
) -> None:
    async with uow.begin(A) as tx:
        (held,) = await tx.job_claims.claim_due(1, ONE, timedelta(seconds=0.5))
    assert held.lease.expires_at is not None
    async with uow.begin(A) as reconciling:
        async with uow.begin(A) as other:
            await other.jobs.lock([job.job_id])
            late = asyncio.create_task(reconciling.job_claims.lock([held.claim]))
            await waiting(database)
            await past(other, held.lease.expires_at)
        assert not await soon(late)


async def test_a_claim_of_one_scope_is_unknown_in_another(uow: PostgresUnitOfWork, queued: Task) -> None:
    running = await claimed(uow)
    async with uow.begin(B) as tx:
        assert not await tx.claims.lock([running.claim])
        assert not await tx.claims.lock([evolve(running.claim, scope=B)])
        assert not await tx.tasks.get([running.task_id])


async def test_of_two_jobs_opened_at_once_one_is_refused(uow: PostgresUnitOfWork, direct: str, job: Job) -> None:
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)

    async def second() -> None:
        async with uow.begin(A) as tx:
            await tx.jobs.add([make_job(meme)])

    async with uow.begin(A) as first:
        await first.jobs.add([make_job(meme)])
        # what is new is sent with what is asked next
        await first.now()
        late = asyncio.create_task(second())
        await waiting(direct)
    with pytest.raises(Conflict):
        await soon(late)


async def test_a_job_whose_rival_is_rolled_back_is_kept(uow: PostgresUnitOfWork, direct: str, job: Job) -> None:
    meme: Meme = make_meme(A)
    kept = make_job(meme)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)

    async def second() -> None:
        async with uow.begin(A) as tx:
            await tx.jobs.add([kept])

    async def first() -> None:
        async with uow.begin(A) as tx:
            await tx.jobs.add([make_job(meme)])
            await tx.now()
            late.append(asyncio.create_task(second()))
            await waiting(direct)
            raise RuntimeError("changed my mind")

    late: list[asyncio.Task[None]] = []
    with pytest.raises(RuntimeError, match="changed my mind"):
        await first()
    await soon(late[0])
    async with uow.begin(A) as tx:
        assert await tx.jobs.active([meme.meme_id]) == {meme.meme_id: kept.job_id}


async def test_of_two_that_start_one_attempt_one_may_call(uow: PostgresUnitOfWork, direct: str, queued: Task) -> None:
    prepared = make_attempt(queued)
    async with uow.begin(A) as tx:
        await tx.attempts.add([prepared])
        started = attempts.start_external(prepared, await tx.now(), await tx.now() + MINUTE)
    change = [(AttemptStatus.PREPARED, started)]
    async with uow.begin(A) as second:
        async with uow.begin(A) as first:
            assert await first.attempts.save(change) == {prepared.attempt_id}
            late = asyncio.create_task(second.attempts.save(change))
            await waiting(direct)
        assert not await soon(late)


async def test_a_grant_that_is_being_committed_is_waited_for(uow: PostgresUnitOfWork, database: str, job: Job) -> None:
    task = make_task(job, Stage.AGENT)
    grant = make_grant(task)
    async with uow.begin(A) as tx:
        await tx.tasks.add([task])
        await tx.grants.add([grant])
    async with uow.begin(A) as settling:
        async with uow.begin(A) as starting:
            await starting.grants.lock([grant.grant_id])
            late = asyncio.create_task(settling.grants.lock([grant.grant_id]))
            await waiting(database)
            await starting.grants.save([grants.commit(grant, await starting.now())])
        assert (await soon(late))[grant.grant_id].status is GrantStatus.COMMITTED
