"""The engine's benchmark on a server of its own, in small: it measures what it says, and nothing else."""

import shutil
from collections.abc import Iterator

import pytest
from benchmarks.drive import drain
from benchmarks.engine import KEYS, measure
from benchmarks.finished import finish
from benchmarks.plan import Plan
from benchmarks.rig import SCOPE, open_rig, seed_memes
from benchmarks.server import Database, fresh_database
from benchmarks.submitting import copy_limit

from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.invariants import check
from imgproc_domain.job import JobStatus
from imgproc_domain.usecases.views import job_counts

SMALL = Plan(jobs=12, rounds=1, seconds=1, samples=3, singles=2, bulk=15, finished=40, queued=30, within=60.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    data_dir = tmp_path_factory.mktemp("bench")
    with EmbeddedPostgres(data_dir, durable=False) as running:
        yield running
    shutil.rmtree(data_dir)


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[Database]:
    with fresh_database(server, "bench_test") as made:
        yield made


def test_every_figure_of_the_engine_is_measured(server: EmbeddedPostgres) -> None:
    found = measure(server, SMALL)
    assert found.errors == {}
    assert tuple(found.values) == KEYS
    figures = {name: value for name, value in found.values.items() if isinstance(value, float) and value > 0}
    assert figures.keys() == found.values.keys()
    assert figures["ratio"] == pytest.approx(figures["jobs_per_s"] / figures["limit_jobs_per_s"])
    assert figures["idle_pickup_ms_p50"] <= figures["idle_pickup_ms_p99"]
    # a job is three stages, each with an attempt and a product: no fewer rows than that
    assert figures["wal_bytes_per_job"] > 2_000
    copied = found.details["copy_rows_per_job"]
    assert isinstance(copied, float)
    assert copied >= 5


async def test_what_is_drained_has_succeeded_and_can_be_found(database: Database) -> None:
    found = await drain(database, 12)
    assert found.jobs == 12
    async with open_rig(database.dsn) as one:
        assert await job_counts(one.deployment, SCOPE) == {JobStatus.SUCCEEDED: 12}
    assert database.scalar("SELECT count(*) FROM search_vectors") == 12
    assert database.scalar("SELECT count(*) FROM task_attempts WHERE status = 'completed'") == 36


async def test_jobs_that_do_not_succeed_are_no_measurement(database: Database) -> None:
    await drain(database, 2)
    memes = seed_memes(database, 3)
    async with open_rig(database.dsn) as one:
        await one.submit(memes)
        database.run("UPDATE memes SET deleted_at = now() WHERE meme_id = %s", [memes[1]])
        worker = one.worker()
        await worker.start()
        with pytest.raises(RuntimeError, match="did not succeed"):
            await one.ended.reach(3, 60.0)
        await worker.stop()


async def test_finished_jobs_are_whole_and_those_after_them_are_told_apart(database: Database) -> None:
    await finish(database, 40)
    report = await check(database.dsn, quiescent=True)
    assert report.lines() == []
    async with open_rig(database.dsn) as one:
        assert await job_counts(one.deployment, SCOPE) == {JobStatus.SUCCEEDED: 40}
    for table, rows in {"tasks": 120, "task_attempts": 120, "operation_grants": 40, "search_vectors": 40}.items():
        assert database.scalar(f"SELECT count(*) FROM {table}") == rows
    assert (await drain(database, 5)).jobs == 5


async def test_the_limit_of_submits_copies_what_they_have_written(database: Database) -> None:
    memes = seed_memes(database, 7)
    async with open_rig(database.dsn) as one:
        await one.submit(memes)
    rows = sum(
        database.scalar(f"SELECT count(*) FROM {table}")
        for table in ("image_processing_jobs", "image_processing_stages", "tasks")
    )
    assert copy_limit(database).rows_per_job >= rows / 7
