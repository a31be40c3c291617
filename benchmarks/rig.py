"""The engine as it is measured: stages that take no time, in one scope, with attempts, grants and every fence."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from attrs import define, field, frozen
from sqlalchemy.ext.asyncio import AsyncEngine

from benchmarks.server import Database
from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.ledger import Ledger, MemoryLedger
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.config import VectorSpace
from imgproc_domain.events import Event, JobEnded
from imgproc_domain.ids import MemeId
from imgproc_domain.job import JobStatus
from imgproc_domain.lane import LaneLimits
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.vector import Vector

SCOPE: Final = Scope("bench")
LANES: Final = {Lane.VISUAL: 100, Lane.AGENT: 400, Lane.TEXT: 400, Lane.MAINTENANCE: 1}
"""Places of a process. What a visual result opens is to find a place, also beside what is under way."""
CHUNK: Final = 500
BATCH: Final = 50
"""Pictures or texts that one call of a model takes."""
_POOL: Final = 8


@frozen
class Sizes:
    """Components of the vectors that are written."""

    visual: int = 768
    text: int = 512


@define
class Ended:
    """Counts the jobs that this process brought to an end, and wakes who waits for a number of them."""

    succeeded: int = 0
    failed: list[JobEnded] = field(factory=list)
    _wanted: int = 0
    _reached: asyncio.Event = field(factory=asyncio.Event)

    def note(self, event: Event) -> None:
        if not isinstance(event, JobEnded):
            return
        if event.status is JobStatus.SUCCEEDED:
            self.succeeded += 1
        else:
            self.failed.append(event)
        if self.failed or self.succeeded >= self._wanted:
            self._reached.set()

    async def reach(self, count: int, within: float) -> bool:
        """Wait until so many have succeeded; false if ``within`` seconds were not enough.

        Raises:
            RuntimeError: a job did not succeed.
        """
        self._wanted = count
        self._reached.clear()
        if self.succeeded < count and not self.failed:
            try:
                await asyncio.wait_for(self._reached.wait(), within)
            except TimeoutError:
                return False
        if self.failed:
            raise RuntimeError(f"a job did not succeed: {self.failed[0]}")
        return True


@frozen
class Rig:
    """One process's deployment on a database; ``announced`` if its workers put its configuration in force."""

    dsn: str
    engine: AsyncEngine
    deployment: Deployment
    ended: Ended
    announced: bool

    def worker(self) -> ImageProcessingWorker:
        return ImageProcessingWorker(
            self.deployment,
            PostgresDispatch(self.engine),
            PostgresHeartbeat(self.dsn),
            PostgresListener(self.dsn),
            Pace(),
            home=SCOPE if self.announced else None,
        )

    async def open_lane(self) -> None:
        """Give the agent lane its slots: once a database."""
        async with self.deployment.uow.begin(SCOPE) as tx:
            await tx.slots.resize(Lane.AGENT, LANES[Lane.AGENT])

    async def submit(self, memes: Sequence[MemeId]) -> None:
        """Submit pictures, `CHUNK` of them a transaction."""
        for start in range(0, len(memes), CHUNK):
            answers = await submit(self.deployment, SCOPE, [submission(m) for m in memes[start : start + CHUNK]])
            assert all(isinstance(answer, Submitted) and answer.created for answer in answers)


@asynccontextmanager
async def open_rig(
    dsn: str, sizes: Sizes | None = None, ledger: Ledger | None = None, ended: Ended | None = None
) -> AsyncIterator[Rig]:
    """Open a deployment for the length of the block; afterwards nothing of it is connected any more."""
    engine = open_engine(dsn, pool_size=_POOL)
    ended = ended or Ended()
    usual = Sizes()
    sizes = sizes or usual
    try:
        with TemporaryDirectory() as folder:
            made = _deployment(engine, Path(folder), ended, sizes, ledger or MemoryLedger())
            yield Rig(dsn, engine, made, ended, announced=sizes == usual)
    finally:
        await engine.dispose()


def _deployment(engine: AsyncEngine, folder: Path, ended: Ended, sizes: Sizes, ledger: Ledger) -> Deployment:
    visual = ScriptedVisualModel(VectorSpace(f"bench-{sizes.visual}", sizes.visual), batch=BATCH, ledger=ledger)
    text = ScriptedTextModel(VectorSpace(f"bench-{sizes.text}", sizes.text), batch=BATCH)
    # made once: to make a vector takes longer than to write it, and would be measured as the engine's time
    seen, said = (Vector.unit([1.0] * size) for size in (sizes.visual, sizes.text))
    visual.script.always(lambda _: seen)
    text.script.always(lambda _: said)
    return Deployment(
        uow=PostgresUnitOfWork(engine),
        blobs=LocalBlobStore(folder),
        decoder=ScriptedDecoder(),
        visual=visual,
        agent=ScriptedAgent(),
        text=text,
        policy=AllowAllPolicy(),
        ids=SystemIds(),
        observer=ended,
        limits=Limits(lanes=LaneLimits(LANES, agent_backpressure=5 * LANES[Lane.AGENT])),
    )


def submission(meme: MemeId) -> Submission:
    return Submission(meme, ReverseImagePolicy.FORBID, Mode.AUTOMATIC)


def picture_name(meme: MemeId) -> str:
    """Return the name of the file that `seed_memes` says a picture is kept in."""
    return f"{meme.hex}{meme.hex}"


def seed_memes(database: Database, count: int) -> list[MemeId]:
    """Put pictures into the scope, without jobs; their files are never read."""
    ids = SystemIds()
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"INSERT INTO scopes VALUES ('{SCOPE}', now()) ON CONFLICT DO NOTHING".encode())
        found = connection.execute("SELECT now()").fetchone()
        assert found is not None, "a scalar query returns a row"
        memes = [MemeId(ids.ordered(found[0])) for _ in range(count)]
        for start in range(0, count, 10_000):
            connection.execute(_MEMES, {"memes": memes[start : start + 10_000], "scope": SCOPE})
    return memes


_MEMES: Final = b"""
    INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
        storage_key, created_at, updated_at)
    SELECT %(scope)s, m, 'bench.png', n, 'image/png', 1, 1, 1, 1,
        left(encode(sha256(%(scope)s::text::bytea), 'hex'), 32) || '/' || n, now(), now()
    FROM (SELECT m, replace(m::text || m::text, '-', '') FROM unnest(%(memes)s::uuid[]) m) named (m, n)
"""
