"""What stores ask at the same time travels at once: in its order, with the same errors, and in few round trips."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.test_races import soon, waiting
from tests.integration.postgres.trips import Trips

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.factories import make_job, make_meme
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.ids import JobId, WorkerId
from imgproc_domain.job import Job, JobStatus, close
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import Lane, ReverseImagePolicy, TaskType
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.claim import Execution, attempt_of, claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.handover import Handover
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.settle import settle_and_claim
from imgproc_domain.usecases.start import start
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.usecases.views import job_counts

A = Scope("trips-a")
ME = WorkerId("me")


@pytest_asyncio.fixture
async def trips(lone: AsyncEngine, tmp_path: Path) -> AsyncIterator[Trips]:
    # the scope's own rows are written by its first transaction
    async with PostgresUnitOfWork(lone).begin(A) as tx:
        await tx.now()
    async with checked_out(lone) as connection:
        trips = Trips(tmp_path / "trace", connection)
    yield trips
    trips.close()


@pytest_asyncio.fixture
async def deployment(lone: AsyncEngine) -> Deployment:
    uow = PostgresUnitOfWork(lone)
    async with uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, 2)
    return Deployment(
        uow=uow,
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(),
        policy=AllowAllPolicy(),
        ids=SystemIds(),
        observer=RecordingObserver(),
    )


async def stored(uow: UnitOfWork, content: str = "cat") -> Meme:
    meme = make_meme(A, content=content)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    return meme


async def test_results_stand_in_the_order_of_the_works_however_many_steps_each_takes(uow: PostgresUnitOfWork) -> None:
    meme = await stored(uow)
    job = make_job(meme)
    async with uow.begin(A) as tx:
        await tx.jobs.add([job])
    async with uow.begin(A) as tx:
        none, newest, memes, (now, locked) = await tx.together(
            # asks nothing, twice, once, and for two others
            tx.jobs.get([]),
            tx.jobs.newest([meme.meme_id]),
            tx.memes.get([meme.meme_id]),
            both(tx, job),
        )
    assert (none, dict(newest), dict(memes)) == ({}, {meme.meme_id: job}, {meme.meme_id: meme})
    assert (now.tzinfo is not None, dict(locked)) == (True, {job.job_id: job})


async def both(tx: Transaction, job: Job) -> tuple[datetime, Mapping[JobId, Job]]:
    return await tx.together(tx.now(), tx.jobs.lock([job.job_id]))


async def test_what_is_asked_first_is_done_first(uow: PostgresUnitOfWork) -> None:
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        before, _, after = await tx.together(
            tx.memes.get([meme.meme_id]), tx.memes.add(meme), tx.memes.get([meme.meme_id])
        )
    assert (dict(before), dict(after)) == ({}, {meme.meme_id: meme})


async def test_the_first_error_is_the_one_that_is_raised_and_nothing_is_kept(
    uow: PostgresUnitOfWork, caplog: pytest.LogCaptureFixture
) -> None:
    meme = await stored(uow)
    twin, other = make_meme(A, content="cat"), make_meme(A, content="dog")
    with caplog.at_level(logging.DEBUG), pytest.raises(Conflict, match="exists already"):
        async with uow.begin(A) as tx:
            await tx.together(tx.memes.add(other), tx.memes.add(twin), tx.now(), tx.memes.count())
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []
    async with uow.begin(A) as tx:
        assert list(await tx.memes.get([meme.meme_id, twin.meme_id, other.meme_id])) == [meme.meme_id]


async def test_a_work_that_refuses_ends_the_others_and_keeps_nothing(uow: PostgresUnitOfWork) -> None:
    meme = await stored(uow)
    gone, other = make_job(meme), make_meme(A, content="dog")
    with pytest.raises(Conflict, match="is gone"):
        async with uow.begin(A) as tx:
            await tx.together(tx.jobs.save([gone]), tx.memes.add(other), tx.jobs.newest([meme.meme_id]))
    async with uow.begin(A) as tx:
        assert await tx.memes.count() == 1


async def test_a_transaction_goes_on_behind_works_that_were_given_up_in_the_middle(uow: PostgresUnitOfWork) -> None:
    async def refuse(tx: Transaction) -> None:
        await tx.now()
        raise LookupError

    async def twice(tx: Transaction) -> None:
        await tx.now()
        await tx.now()

    async def nested(tx: Transaction) -> None:
        await tx.together(tx.now(), twice(tx))

    await stored(uow)
    async with uow.begin(A) as tx:
        with pytest.raises(LookupError):
            await tx.together(refuse(tx), nested(tx))
        assert await tx.memes.count() == 1


async def test_a_transaction_in_which_a_statement_was_interrupted_keeps_nothing_and_says_so(
    uow: PostgresUnitOfWork,
) -> None:
    meme = await stored(uow)

    async def give_up_waiting() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.add(make_meme(A, content="dog"))
            with pytest.raises(TimeoutError):
                # nobody lets go of what this waits for
                await asyncio.wait_for(tx.memes.lock([meme.meme_id]), 0.1)

    async with uow.begin(A) as tx:
        await tx.memes.lock([meme.meme_id])
        with pytest.raises(DatabaseUnavailable, match="interrupted"):
            await give_up_waiting()
    async with uow.begin(A) as tx:
        assert await tx.memes.count() == 1


async def test_a_transaction_that_begins_with_a_refused_statement_keeps_nothing(uow: PostgresUnitOfWork) -> None:
    await stored(uow)
    with pytest.raises(Conflict):
        async with uow.begin(A) as tx:
            await tx.memes.add(make_meme(A, content="cat"))
    async with uow.begin(A) as tx:
        assert await tx.memes.count() == 1


async def test_what_is_new_is_read_by_what_follows(uow: PostgresUnitOfWork) -> None:
    job = make_job(await stored(uow))
    async with uow.begin(A) as tx:
        await tx.jobs.add([job])
        assert await tx.jobs.get([job.job_id]) == {job.job_id: job}


async def test_a_submit_takes_few_round_trips(deployment: Deployment, trips: Trips) -> None:
    meme = await stored(deployment.uow)
    with trips.at_most(2):
        await submit(deployment, A, [wanted(meme)])


async def test_a_submit_that_waits_for_its_picture_decides_on_what_it_finds_then(
    deployment: Deployment, uow: PostgresUnitOfWork, direct: str
) -> None:
    meme = await stored(uow)
    await submit(deployment, A, [wanted(meme)])
    async with uow.begin(A) as tx:
        await tx.memes.lock([meme.meme_id])
        # it asks for the newest job in the round trip in which it waits
        late = asyncio.create_task(submit(deployment, A, [wanted(meme)]))
        await waiting(direct)
        (job,) = (await tx.jobs.lock((await tx.jobs.active([meme.meme_id])).values())).values()
        failed = close(job, Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong"), await tx.now())
        await tx.jobs.save([failed])
    assert await soon(late) == [Submitted(failed, created=False)]


async def test_many_submits_take_as_few_round_trips_as_one(deployment: Deployment, trips: Trips) -> None:
    memes = [await stored(deployment.uow, f"picture {number}") for number in range(20)]
    with trips.at_most(2):
        answers = await submit(deployment, A, [wanted(meme) for meme in memes])
    async with deployment.uow.begin(A) as tx:
        kept = await tx.jobs.newest([meme.meme_id for meme in memes])
        tasks = {task.target.job_id: task for task in await tx.tasks.busy(kept) if task.target}
    assert answers == [Submitted(kept[meme.meme_id], created=True) for meme in memes]
    assert [tasks[job.job_id].task_id for job in kept.values()] == [job.stages[0].task_id for job in kept.values()]


async def test_a_claim_takes_few_round_trips(deployment: Deployment, lone: AsyncEngine, trips: Trips) -> None:
    await opened(deployment)
    with trips.at_most(1):
        assert list(await PostgresDispatch(lone).ready_scopes(TaskType.VISUAL, A, 16)) == [A]
    with trips.at_most(3):
        assert len(await claim_tasks(deployment, A, TaskType.VISUAL, 10, ME)) == 1


async def test_a_stage_is_settled_and_the_next_begun_in_few_round_trips(deployment: Deployment, trips: Trips) -> None:
    await opened(deployment)
    visual = await claim_tasks(deployment, A, TaskType.VISUAL, 10, ME)
    with trips.at_most(9):
        agent = await settled(deployment, visual)
    with trips.at_most(3):
        running = (await start(deployment, A, agent)).running
    with trips.at_most(8):
        text = await settled(deployment, running)
    with trips.at_most(8):
        assert await settled(deployment, text) == []
    assert await job_counts(deployment, A) == {JobStatus.SUCCEEDED: 1}


def wanted(meme: Meme) -> Submission:
    return Submission(meme.meme_id, ReverseImagePolicy.FORBID, Mode.AUTOMATIC)


async def opened(deployment: Deployment) -> None:
    meme = await stored(deployment.uow)
    await submit(deployment, A, [wanted(meme)])


async def settled(deployment: Deployment, executions: Sequence[Execution]) -> Sequence[Execution]:
    """Make the calls, settle them, and return what was handed over."""
    items = [Settling(e.claim, attempt_of(e).attempt_id, await perform(deployment, e)) for e in executions]
    places = dict.fromkeys(TaskType, 1)
    handover = Handover(ME, places, 1, asyncio.get_running_loop().time())
    _, handed_over = await settle_and_claim(deployment, A, items, handover)
    return handed_over
