"""How long a picture waits for an idle engine: one job at a time, submitted here, worked on by another process.

A sample begins just before the COMMIT that makes the job visible, and ends when the visual model is called with its
picture: the commit, the wake-up, the claim, the attempt's transactions and the call of the port. ``from_submit``
begins earlier, before the transaction that submits.
"""

import asyncio
import random
import time
from typing import Final

from attrs import frozen

from benchmarks.processes import WorkerProcess
from benchmarks.rig import SCOPE, Rig, open_rig, picture_name, seed_memes, submission
from benchmarks.server import Database
from benchmarks.stats import percentiles_ms
from imgproc_domain.ids import MemeId
from imgproc_domain.usecases.submit import Submitted, submit_locked

LEAST_PAUSE: Final = 0.02
MOST_PAUSE: Final = 0.07
_WARM: Final = 10


@frozen
class PickUp:
    """Milliseconds over all samples."""

    samples: int
    p50: float
    p99: float
    from_submit_p50: float
    from_submit_p99: float


async def pick_up(database: Database, samples: int) -> PickUp:
    """Submit one job at a time, each when the one before has ended and a short, irregular pause is over."""
    warm = min(_WARM, samples)
    memes = await asyncio.to_thread(seed_memes, database, warm + samples)
    pauses = random.Random(1)  # the same pauses in every run
    waits = []
    async with open_rig(database.dsn) as one, WorkerProcess.open(database.dsn, telling=True) as other:
        await one.open_lane()
        await other.start()
        for meme in memes:
            await asyncio.sleep(pauses.uniform(LEAST_PAUSE, MOST_PAUSE))
            waits.append(await _one(one, other, meme))
        ended = await other.stop()
    assert ended == len(memes), f"{ended} of {len(memes)} jobs succeeded"
    committing, submitting = zip(*waits[warm:], strict=True)
    return PickUp(samples, *percentiles_ms(committing), *percentiles_ms(submitting))


async def _one(one: Rig, other: WorkerProcess, meme: MemeId) -> tuple[float, float]:
    """Return the seconds from before the commit, and from before the submit, to the call."""
    submitting = time.monotonic()
    async with one.deployment.uow.begin(SCOPE) as tx:
        memes = await tx.memes.lock({meme})
        (answer,), _ = await submit_locked(tx, one.deployment, [submission(meme)], memes)
        committing = time.monotonic()
    assert isinstance(answer, Submitted), f"the job was not opened: {answer}"
    name, called = await other.hear("call")
    assert name == picture_name(meme), f"{name} was called instead of {picture_name(meme)}"
    await other.hear("ended")
    return called - committing, called - submitting
