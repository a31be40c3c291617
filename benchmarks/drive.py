"""Complete jobs a second: the same drive for an empty table, a long queue and a million finished jobs."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

from attrs import frozen

from benchmarks.meter import Reading
from benchmarks.processes import WorkerProcess
from benchmarks.rig import LANES, SCOPE, Rig, open_rig, seed_memes
from benchmarks.server import Database
from imgproc_domain.stage import Lane

PATIENCE: Final = 600.0
_LOOK_AGAIN: Final = 0.02
_MANY: Final = 10 * LANES[Lane.VISUAL]


@frozen
class Drained:
    """One drive. ``costs`` are per job, submitting included, under the names of the report."""

    jobs: int
    jobs_per_s: float
    bulk_submit_per_s: float
    costs: Mapping[str, float]


async def drain(database: Database, jobs: int) -> Drained:
    """Seed, submit and process so many jobs in this process, one after the other, as a peer's script does.

    Rates leave out seeding; costs are those of submitting and working, not of what is tidied up in between.

    Raises:
        RuntimeError: not all of them succeeded, or not all products are there.
    """
    memes = await asyncio.to_thread(seed_memes, database, jobs)
    found_before = await asyncio.to_thread(_findable, database)
    before = await _settled(database)
    async with open_rig(database.dsn) as one:
        await one.open_lane()
        begun = time.monotonic()
        await one.submit(memes)
        submitting = time.monotonic() - begun
    spent = await asyncio.to_thread(database.read) - before
    before = await _settled(database)
    async with open_rig(database.dsn) as one:
        done, seconds = await work(one, jobs, PATIENCE)
    spent += await asyncio.to_thread(database.read) - before
    found = await asyncio.to_thread(_findable, database) - found_before
    if not done == found == jobs:
        raise RuntimeError(f"{done} of {jobs} jobs succeeded and {found} of their pictures can be found")
    return Drained(jobs, jobs / seconds, jobs / submitting, spent.per_job(jobs))


async def _settled(database: Database) -> Reading:
    await asyncio.to_thread(database.settle)
    return await asyncio.to_thread(database.read)


async def work(one: Rig, jobs: int, within: float) -> tuple[int, float]:
    """Run a worker until so many jobs have succeeded, ``within`` seconds at most.

    Returns how many they were then, and the seconds since the worker was started.
    """
    worker = one.worker()
    begun = time.monotonic()
    await worker.start()
    try:
        await one.ended.reach(jobs, within)
        done, seconds = one.ended.succeeded, time.monotonic() - begun
    finally:
        await worker.stop()
    return done, seconds


async def queue(database: Database, jobs: int) -> float:
    """Fill the queue by submitting; returns submitted jobs a second."""
    memes = await asyncio.to_thread(seed_memes, database, jobs)
    async with open_rig(database.dsn) as one:
        await one.open_lane()
        begun = time.monotonic()
        await one.submit(memes)
        return jobs / (time.monotonic() - begun)


async def take_from_queue(database: Database, jobs: int, within: float) -> float:
    """Return complete jobs a second while the first ones of a queue much longer than ``jobs`` are worked off.

    Raises:
        RuntimeError: none was completed in time.
    """
    async with open_rig(database.dsn) as one:
        done, seconds = await work(one, jobs, within)
    if not done:
        raise RuntimeError(f"no job of the queue was complete after {within:g} s")
    return done / seconds


@frozen
class Shared:
    """Complete jobs a second of two processes, and the share of them that the second one completed."""

    jobs_per_s: float
    second: float


async def drain_by_two(database: Database, jobs: int) -> Shared:
    """Process jobs by a worker in this process and one in another, begun at the same moment.

    Raises:
        RuntimeError: not all of them succeeded, or, of many, the second process completed none.
    """
    memes = await asyncio.to_thread(seed_memes, database, jobs)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(open_rig(database.dsn))
        other = await stack.enter_async_context(WorkerProcess.open(database.dsn))
        await one.open_lane()
        await one.submit(memes)
        worker = one.worker()
        begun = time.monotonic()
        await asyncio.gather(other.start(), worker.start())
        try:
            await asyncio.wait_for(_nothing_live(one), PATIENCE)
            seconds = time.monotonic() - begun
        finally:
            await worker.stop()
        by_other = await other.stop()
    by_this = one.ended.succeeded
    # few jobs fit into the first claims of one process
    if by_this + by_other != jobs or (jobs > _MANY and not by_other):
        raise RuntimeError(f"{by_this} and {by_other} of {jobs} jobs were completed by the two processes")
    return Shared(jobs / seconds, by_other / jobs)


async def _nothing_live(one: Rig) -> None:
    """Wait until the scope has no live job; looks at the live ones alone, so that it costs the same at any size."""
    async with one.engine.connect() as raw:
        connection = await raw.execution_options(isolation_level="AUTOCOMMIT")
        while (await connection.exec_driver_sql(_LIVE)).scalar():  # noqa: ASYNC110 - it only looks on
            await asyncio.sleep(_LOOK_AGAIN)


def _findable(database: Database) -> int:
    return int(database.scalar("SELECT count(*) FROM search_vectors"))


_LIVE: Final = (
    f"SELECT EXISTS (SELECT FROM image_processing_jobs WHERE scope_id = '{SCOPE}' AND status IN ('queued', 'running'))"
)
