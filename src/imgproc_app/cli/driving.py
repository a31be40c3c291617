"""Take pictures in and follow their jobs at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from imgproc_app.cli.jobs import Followed, JobFollower
from imgproc_app.cli.session import Stop, pause

_LOOK_EVERY: Final = 0.25

Tick = Callable[[Sequence[Followed]], Awaitable[None]]


async def drive(taking: Coroutine[Any, Any, None], follower: JobFollower, tick: Tick, stop: Stop) -> None:
    """Run ``taking``, which adds jobs to ``follower``, and ``tick`` with what is seen of them, until all have ended.

    Returns early when ``stop`` is set, once ``taking`` has ended in its own way. What it raises is raised here.
    """
    task = asyncio.create_task(taking)
    try:
        while not stop.is_set() and not (task.done() and len(follower) == 0):
            await tick(await follower.look())
            await pause(_LOOK_EVERY, stop)
            if task.done():
                # an error of the intake concerns all pictures: nobody needs to wait for the others first
                task.result()
        await task
    finally:
        task.cancel()
