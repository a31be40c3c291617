"""The engine with instant stages: complete three-stage jobs, fully fenced, with attempts and grants, in one process."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.server import Database, Reading, read
from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_app.observability import LogObserver
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.job import JobStatus
from imgproc_domain.lane import LaneLimits
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.usecases.views import job_counts

SCOPE = Scope("bench")
LANE = 200
CHUNK = 500


@frozen
class EngineResult:
    """Measured values, per job where the name says so."""

    jobs: int
    jobs_per_s: float
    bulk_submit_per_s: float
    wal_bytes_per_job: float
    commits_per_job: float
    client_cpu_us_per_job: float
    server_cpu_us_per_job: float


async def run(database: Database, jobs: int) -> EngineResult:
    """Seed ``jobs`` pictures, submit them, and process them all."""
    engine = open_engine(database.dsn, pool_size=8)
    try:
        with TemporaryDirectory() as folder:
            deployment = _deployment(engine, Path(folder))
            return await _measure(database, engine, deployment, jobs)
    finally:
        await engine.dispose()


def _deployment(engine: AsyncEngine, folder: Path) -> Deployment:
    lanes = dict.fromkeys((Lane.VISUAL, Lane.AGENT, Lane.TEXT), LANE) | {Lane.MAINTENANCE: 1}
    return Deployment(
        uow=PostgresUnitOfWork(engine),
        blobs=LocalBlobStore(folder),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(VectorSpace("bench", 768)),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(VectorSpace("bench", 512)),
        policy=AllowAllPolicy(),
        ids=SystemIds(),
        observer=LogObserver(),
        limits=Limits(lanes=LaneLimits(lanes, agent_backpressure=10 * LANE)),
    )


async def _measure(database: Database, engine: AsyncEngine, deployment: Deployment, jobs: int) -> EngineResult:
    memes = await asyncio.to_thread(_seed, database, jobs)
    async with deployment.uow.begin(SCOPE) as tx:
        await tx.slots.resize(Lane.AGENT, LANE)
    before = await asyncio.to_thread(read, database)
    begun = time.perf_counter()
    for start in range(0, jobs, CHUNK):
        wanted = [Submission(m, ReverseImagePolicy.FORBID, Mode.AUTOMATIC) for m in memes[start : start + CHUNK]]
        answers = await submit(deployment, SCOPE, wanted)
        assert all(isinstance(answer, Submitted) and answer.created for answer in answers)
    submitted = time.perf_counter()
    worker = ImageProcessingWorker(
        deployment, PostgresDispatch(engine), PostgresHeartbeat(database.dsn), PostgresListener(database.dsn), Pace()
    )
    await worker.start()
    while (await job_counts(deployment, SCOPE)).get(JobStatus.SUCCEEDED, 0) < jobs:  # noqa: ASYNC110 - it only looks on
        await asyncio.sleep(0.05)
    ended = time.perf_counter()
    await worker.stop()
    after = await asyncio.to_thread(read, database)
    return _result(jobs, submitted - begun, ended - submitted, before, after)


def _seed(database: Database, jobs: int) -> list[MemeId]:
    ids = SystemIds()
    now = database.scalar("SELECT extract(epoch FROM now())")
    memes = [MemeId(ids.ordered(_at(now))) for _ in range(jobs)]
    listed = ", ".join(f"('{meme}')" for meme in memes)
    database.run(f"INSERT INTO scopes (scope_id, created_at) VALUES ('{SCOPE}', now()) ON CONFLICT DO NOTHING")
    database.run(
        "INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,"
        f" storage_key, created_at, updated_at) SELECT '{SCOPE}', m::uuid, 'bench.png', md5(m) || md5(m), 'image/png',"
        f" 1, 1, 1, 1, left(encode(sha256('{SCOPE}'), 'hex'), 32) || '/' || md5(m) || md5(m), now(), now()"
        f" FROM (VALUES {listed}) v(m)"
    )
    return memes


def _at(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def _result(jobs: int, submitting: float, processing: float, before: Reading, after: Reading) -> EngineResult:
    return EngineResult(
        jobs=jobs,
        jobs_per_s=jobs / processing,
        bulk_submit_per_s=jobs / submitting,
        wal_bytes_per_job=(after.wal - before.wal) / jobs,
        commits_per_job=(after.commits - before.commits) / jobs,
        client_cpu_us_per_job=(after.client_cpu - before.client_cpu) / jobs * 1e6,
        server_cpu_us_per_job=(after.server_cpu - before.server_cpu) / jobs * 1e6,
    )
