"""What the memory adapter refuses beyond the ports: mistakes that a database would refuse in its own way."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.memory import ManualClock, MemoryDispatch, MemoryHeartbeat, MemoryStore, MemoryUnitOfWork
from imgproc_adapters.testing.factories import LONG_AGO, make_attempt, make_context, make_job, make_meme, make_task
from imgproc_adapters.testing.seed import MINUTE, OWNER, A, B
from imgproc_domain import task as tasks
from imgproc_domain.claim import Claim, drop
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task

WENT_WRONG = Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def uow(store: MemoryStore, clock: ManualClock) -> MemoryUnitOfWork:
    return MemoryUnitOfWork(store, clock)


async def running(uow: MemoryUnitOfWork) -> Task:
    meme = make_meme(A)
    job = make_job(meme)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
        await tx.tasks.add([make_task(job)])
    async with uow.begin(A) as tx:
        (task,) = await tx.claims.claim(TaskType.VISUAL, 1, OWNER, MINUTE)
    return task


async def save(uow: MemoryUnitOfWork, task: Task) -> None:
    async with uow.begin(A) as tx:
        await tx.claims.lock([Claim(A, task.task_id, OWNER, 1)])
        await tx.claims.save([task])


async def test_a_row_without_its_parent_is_refused_at_commit(uow: MemoryUnitOfWork) -> None:
    with pytest.raises(AssertionError, match="no memes row"):
        async with uow.begin(A) as tx:
            await tx.jobs.add([make_job(make_meme(A))])
    with pytest.raises(AssertionError, match="no tasks row"):
        async with uow.begin(A) as tx:
            await tx.attempts.add([make_attempt(make_task(make_job(make_meme(A))))])
    with pytest.raises(AssertionError, match="no memes row"):
        async with uow.begin(A) as tx:
            await tx.contexts.put([make_context(make_meme(A))])


async def test_a_row_of_another_scope_is_refused(uow: MemoryUnitOfWork) -> None:
    with pytest.raises(AssertionError, match="I1"):
        async with uow.begin(A) as tx:
            await tx.memes.add(make_meme(B))


async def test_a_row_that_is_not_locked_is_not_written(uow: MemoryUnitOfWork) -> None:
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    with pytest.raises(AssertionError, match="only locked rows"):
        async with uow.begin(A) as tx:
            await tx.memes.save(meme)


async def test_an_ended_task_never_becomes_active_again(uow: MemoryUnitOfWork) -> None:
    task = await running(uow)
    await save(uow, tasks.fail(task, WENT_WRONG, LONG_AGO))
    with pytest.raises(AssertionError, match="I10"):
        await save(uow, task)


async def test_a_generation_never_falls(uow: MemoryUnitOfWork) -> None:
    task = await running(uow)
    with pytest.raises(AssertionError, match="I3"):
        await save(uow, evolve(task, lease=evolve(task.lease, generation=0)))


async def test_a_running_task_without_a_holder_is_refused(uow: MemoryUnitOfWork) -> None:
    task = await running(uow)
    with pytest.raises(AssertionError, match="held exactly while it runs"):
        await save(uow, evolve(task, lease=drop(task.lease)))


async def test_a_job_that_is_over_but_has_no_end_is_refused(uow: MemoryUnitOfWork) -> None:
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    with pytest.raises(AssertionError, match="an end exactly once it is over"):
        async with uow.begin(A) as tx:
            await tx.jobs.add([evolve(make_job(meme), status=JobStatus.FAILED)])


async def test_a_transaction_that_has_ended_cannot_be_used(uow: MemoryUnitOfWork) -> None:
    async with uow.begin(A) as tx:
        await tx.now()
    with pytest.raises(AssertionError, match="has ended"):
        await tx.memes.count()


async def test_a_lock_that_is_never_given_up_ends_the_waiting_transaction(clock: ManualClock) -> None:
    uow, meme = MemoryUnitOfWork(MemoryStore(lock_timeout=0.01), clock), make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    async with uow.begin(A) as holder:
        await holder.memes.lock([meme.meme_id])
        with pytest.raises(DatabaseUnavailable):
            async with uow.begin(A) as tx:
                await tx.memes.lock([meme.meme_id])


async def test_an_insert_waits_for_whoever_may_be_giving_its_unique_value_up(uow: MemoryUnitOfWork) -> None:
    old, new, asking = make_meme(A, content="same"), make_meme(A, content="same"), asyncio.Event()
    async with uow.begin(A) as tx:
        await tx.memes.add(old)

    async def upload() -> None:
        async with uow.begin(A) as tx:
            asking.set()
            await tx.memes.add(new)

    async with uow.begin(A) as tx:
        await tx.memes.lock([old.meme_id])
        uploading = asyncio.create_task(upload())
        await asking.wait()
        await tx.memes.save(evolve(old, deleted_at=LONG_AGO))
    await uploading
    async with uow.begin(A) as tx:
        assert list((await tx.memes.by_content([new.picture.sha256])).values()) == [new]


async def test_a_renewal_while_a_transaction_holds_the_task_is_kept(
    uow: MemoryUnitOfWork, store: MemoryStore, clock: ManualClock
) -> None:
    task = await running(uow)
    async with uow.begin(A) as tx:
        (locked,) = (await tx.claims.lock([task.claim])).values()
        assert not MemoryHeartbeat(store, clock).renew([task.claim], 60 * MINUTE)
        await tx.claims.save([locked])
    async with uow.begin(A) as tx:
        after = (await tx.tasks.get([task.task_id]))[task.task_id]
    assert after.lease.expires_at == clock.now() + 60 * MINUTE


async def test_time_passes_only_when_told(uow: MemoryUnitOfWork, store: MemoryStore, clock: ManualClock) -> None:
    await running(uow)
    dispatch = MemoryDispatch(store, clock)
    assert await dispatch.expired_scopes([TaskType.VISUAL], None, 10) == []
    clock.advance(timedelta(minutes=1))
    assert await dispatch.expired_scopes([TaskType.VISUAL], None, 10) == [A]
