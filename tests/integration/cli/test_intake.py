"""Many files into one library: real files and a real blob store, an engine in memory, models that are scripted."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.world import memory_world
from imgproc_app.cli.folder import walk
from imgproc_app.cli.intake import Intake, Item, Outcome
from imgproc_app.cli.jobs import JobFollower
from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import close
from imgproc_domain.scope import LOCAL
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.deployment import Deployment

from .terminal import SAMPLES


@pytest.fixture
def faulty() -> FaultyUnitOfWork:
    return FaultyUnitOfWork(memory_world().uow)


@pytest.fixture
def deployment(tmp_path: Path, faulty: FaultyUnitOfWork) -> Deployment:
    return Deployment(
        uow=faulty,
        blobs=LocalBlobStore(tmp_path / "blobs", timedelta(hours=1)),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(),
        policy=AllowAllPolicy(),
        ids=SystemIds(),
        observer=RecordingObserver(),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty pictures, two of them with the same bytes, and a file that is none."""
    picture = (SAMPLES / "bee.jpg").read_bytes()
    (tmp_path / "in").mkdir()
    for number in range(59):
        (tmp_path / "in" / f"{number:02}.jpg").write_bytes(picture + bytes([number]))
    (tmp_path / "in" / "twin.jpg").write_bytes(picture + bytes([0]))
    (tmp_path / "in" / "none.jpg").write_text("none")
    return tmp_path / "in"


async def taken(intake: Intake, folder: Path, stop: asyncio.Event | None = None) -> list[Item]:
    return [item async for item in intake.run(walk(folder), stop or asyncio.Event())]


def counted(items: list[Item]) -> dict[Outcome, int]:
    return {outcome: sum(item.outcome is outcome for item in items) for outcome in Outcome}


async def test_each_content_is_taken_once_and_a_second_run_takes_nothing(deployment: Deployment, folder: Path) -> None:
    intake = Intake(deployment, LOCAL)
    first, second = await taken(intake, folder), await taken(intake, folder)
    assert counted(first) == {Outcome.IMPORTED: 59, Outcome.PRESENT: 1, Outcome.REJECTED: 1, Outcome.SKIPPED: 0}
    assert counted(second) == {Outcome.IMPORTED: 0, Outcome.PRESENT: 60, Outcome.REJECTED: 1, Outcome.SKIPPED: 0}
    jobs = [{item.path: item.job.job_id for item in run if item.job} for run in (first, second)]
    assert jobs[0] == jobs[1]


async def test_a_database_that_is_away_for_a_moment_costs_nothing(
    deployment: Deployment, faulty: FaultyUnitOfWork, folder: Path
) -> None:
    faulty.plan(Fault.REFUSED, Fault.NONE, Fault.COMMIT_LOST, Fault.REPLY_LOST)
    items = await taken(Intake(deployment, LOCAL), folder)
    counts = counted(items)
    # whoever does not hear of its own success finds the picture there when asking again
    assert counts[Outcome.IMPORTED] + counts[Outcome.PRESENT] == 60
    assert len({item.job.job_id for item in items if item.job}) == 59


async def test_an_active_job_under_another_policy_is_told_and_left_alone(deployment: Deployment, folder: Path) -> None:
    await taken(Intake(deployment, LOCAL), folder)
    again = await taken(Intake(deployment, LOCAL, ReverseImagePolicy.AUTO), folder)
    assert {item.code for item in again if item.outcome is Outcome.REJECTED} == {
        "generation_policy_conflict",
        "unsupported_media",
    }


async def test_it_ends_at_the_next_file_when_told_to_stop(deployment: Deployment, folder: Path) -> None:
    stop, seen = asyncio.Event(), []
    async for item in Intake(deployment, LOCAL).run(walk(folder), stop):
        seen.append(item)
        stop.set()
    assert 1 <= len(seen) < 20


async def test_a_file_that_vanishes_or_is_too_large_concerns_nobody_else(deployment: Deployment, folder: Path) -> None:
    small = evolve(deployment, limits=evolve(deployment.limits, upload_bytes=1_000))
    items = await taken(Intake(small, LOCAL), folder)
    assert {item.code for item in items} == {"image_too_large", "unsupported_media"}
    (folder / "00.jpg").unlink()
    assert counted(await taken(Intake(deployment, LOCAL), folder))[Outcome.IMPORTED] == 59


async def test_a_job_is_followed_into_the_revision_that_replaces_it(deployment: Deployment, folder: Path) -> None:
    follower = JobFollower(deployment, LOCAL)
    for item in await taken(Intake(deployment, LOCAL), folder):
        if item.job is not None:
            follower.add(item.path.name, item.job.job_id)
    assert len(follower) == 59
    changed = evolve(deployment, text=ScriptedTextModel(space=VectorSpace("another", 8)))
    await taken(Intake(changed, LOCAL), folder)
    assert not await follower.look()
    successors = [followed.job for followed in await follower.look()]
    assert len(successors) == len(follower) == 59
    assert {job.revision for job in successors} == {2}


async def test_a_known_picture_keeps_its_policy_unless_another_is_named(deployment: Deployment, folder: Path) -> None:
    first = await taken(Intake(deployment, LOCAL, ReverseImagePolicy.AUTO), folder)
    await ended(deployment, first)
    unnamed = await taken(Intake(deployment, LOCAL), folder)
    jobs = [{item.path: item.job.job_id for item in run if item.job} for run in (first, unnamed)]
    assert jobs[0] == jobs[1]
    assert not any(item.again for item in unnamed)
    named = await taken(Intake(deployment, LOCAL, ReverseImagePolicy.FORBID), folder)
    assert sum(item.again for item in named) == 59
    assert {item.job.reverse_image_policy for item in named if item.job} == {ReverseImagePolicy.FORBID}


async def ended(deployment: Deployment, items: list[Item]) -> None:
    """End the jobs of these items."""
    reason = Diagnosis(ErrorCode.AGENT_FAILED, "ended by the test")
    async with deployment.uow.begin(LOCAL) as tx:
        now = await tx.now()
        jobs = await tx.jobs.lock({item.job.job_id for item in items if item.job})
        await tx.jobs.save([close(job, reason, now) for job in jobs.values()])
