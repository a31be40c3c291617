"""Loops that wake by a hint and poll for the truth."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope

log = logging.getLogger(__name__)


class Wakeups:
    """One event a topic, set by hints from the database and from this process."""

    def __init__(self) -> None:
        self._events = {topic: asyncio.Event() for topic in Topic}

    def set(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            self._events[topic].set()

    def set_all(self) -> None:
        self.set(Topic)

    def clear(self, topic: Topic) -> None:
        self._events[topic].clear()

    async def wait(self, topic: Topic, at_most: float) -> None:
        """Return when the topic is set, or after ``at_most`` seconds."""
        try:
            async with asyncio.timeout(at_most):
                await self._events[topic].wait()
        except TimeoutError:
            return


async def each(scopes: Iterable[Scope], work: Callable[[Scope], Awaitable[int]]) -> int:
    """Do ``work`` for every scope and return the sum; one that fails does not keep the others from their turn."""
    total = 0
    for scope in scopes:
        try:
            total += await work(scope)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("scope %s: a step failed", scope)
    return total


async def repeat(
    step: Callable[[], Awaitable[bool]],
    *,
    wakeups: Wakeups,
    topic: Topic,
    poll: float,
    stopping: asyncio.Event,
) -> None:
    """Run ``step`` until ``stopping``: again at once while it found work, else at the next hint or poll.

    A step that the database fails is tried again after a poll; any other exception is a bug, logged and likewise
    survived, because one broken row must not end the worker.
    """
    while not stopping.is_set():
        wakeups.clear(topic)
        try:
            busy = await step()
        except (DatabaseUnavailable, Conflict) as error:
            log.warning("%s: %s", topic, error.message)
            busy = False
        except Exception:
            log.exception("%s: a step failed", topic)
            busy = False
        if not busy and not stopping.is_set():
            await wakeups.wait(topic, poll)
