"""The history has every change in the transaction that made it, so that what was written without a fence is seen."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest_asyncio
from chaos import history
from chaos.evidence import Evidence, Kind
from chaos.judge_writes import judge_writes
from chaos.models import VISUAL_SPACE, picture_made
from chaos.plan import WATCHED
from chaos.reading import connect, read_left, read_view

from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_context, make_job, make_meme, make_task
from imgproc_domain.claim import Lease
from imgproc_domain.ids import WorkerId
from imgproc_domain.product import VisualProduct
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus, succeed
from imgproc_domain.usecases.deployment import Limits

LEASE = Limits().lease
OWNER = WorkerId("worker")


@pytest_asyncio.fixture
async def uow(direct: str) -> AsyncIterator[PostgresUnitOfWork]:
    history.install(direct)
    engine = open_engine(direct)
    yield PostgresUnitOfWork(engine)
    await engine.dispose()


def stale(dsn: str) -> list[str]:
    left = read_left(dsn, [WATCHED])
    evidence = Evidence(
        views=left.views,
        calls=[],
        history=list(history.read(dsn)),
        promised={},
        texts=[],
        pending=left.pending,
        reserved=left.reserved,
        clock=0.0,
        lane=0,
        quota=False,
    )
    return [offence.what for offence in judge_writes(evidence) if offence.kind is Kind.STALE_WRITE]


async def test_a_product_without_its_task_is_seen_and_one_with_it_is_not(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(WATCHED)
    job = make_job(meme)
    product = VisualProduct(meme.meme_id, meme.picture.sha256, VISUAL_SPACE.id, picture_made(meme.picture.sha256.hex))
    async with uow.begin(WATCHED) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
        await tx.tasks.add([make_task(job)])
    async with uow.begin(WATCHED) as tx:
        (task,) = await tx.claims.claim(TaskType.VISUAL, 1, OWNER, LEASE)
    async with uow.begin(WATCHED) as tx:
        await tx.products.put_visual([product])
        await tx.claims.save([succeed(task, await tx.now())])
    assert stale(direct) == []
    async with uow.begin(WATCHED) as tx:
        await tx.products.put_visual([product])
    (told,) = stale(direct)
    assert "was written while no task of picture" in told


async def test_a_write_back_after_the_lease_is_seen(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(WATCHED)
    job = make_job(meme)
    async with uow.begin(WATCHED) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
        await tx.tasks.add([make_task(job)])
    async with uow.begin(WATCHED) as tx:
        (task,) = await tx.claims.claim(TaskType.VISUAL, 1, OWNER, timedelta(0))
    async with uow.begin(WATCHED) as tx:
        await tx.claims.save([succeed(task, await tx.now())])
    (told,) = stale(direct)
    assert "was written back by imgproc after its lease had run out" in told


async def test_every_step_of_a_row_is_kept_in_order(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(WATCHED)
    job = make_job(meme)
    task = make_task(job)
    async with uow.begin(WATCHED) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
        await tx.tasks.add([task])
        await tx.contexts.put([make_context(meme)])
    async with uow.begin(WATCHED) as tx:
        (claimed,) = await tx.claims.claim(TaskType.VISUAL, 1, OWNER, LEASE)
        await tx.claims.save([succeed(claimed, await tx.now())])
    kept = [change for change in history.read(direct) if change.kind == history.TASK]
    assert [(c.key, c.state, c.number) for c in kept] == [
        (str(task.task_id), state, number)
        for state, number in ((TaskStatus.QUEUED, 0), (TaskStatus.RUNNING, 1), (TaskStatus.SUCCEEDED, 1))
    ]
    first, claim, end = (change.tx for change in kept)
    assert first < claim == end
    (context,) = (change for change in history.read(direct) if change.kind == history.CONTEXT)
    assert (context.tx, context.number) == (first, 1)


async def test_a_view_is_what_is_stored(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(WATCHED)
    job = make_job(meme)
    async with uow.begin(WATCHED) as tx:
        await tx.memes.add(meme)
        await tx.jobs.add([job])
        await tx.tasks.add([make_task(job)])
        await tx.products.put_visual(
            [VisualProduct(meme.meme_id, meme.picture.sha256, VISUAL_SPACE.id, picture_made(meme.picture.sha256.hex))]
        )
    with connect(direct) as connection:
        view = read_view(connection, WATCHED)
    assert [row.meme_id for row in view.memes] == [meme.meme_id]
    assert [(row.job_id, len(row.stages)) for row in view.jobs] == [(job.job_id, 3)]
    assert [row.lease for row in view.tasks] == [Lease()]
    ((left,),) = (each.visual for each in read_left(direct, [WATCHED]).views)
    assert left.vector.cosine_distance(picture_made(meme.picture.sha256.hex)) < 1e-3
