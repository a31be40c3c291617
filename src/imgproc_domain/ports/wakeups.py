"""Hints that there is work. A lost hint costs at most one polling interval; polling is the truth."""

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from imgproc_domain.stage import TaskType


class Topic(StrEnum):
    """What a hint is about: a queue of leaf tasks, due jobs, or the release outbox."""

    VISUAL = TaskType.VISUAL.value
    CONTEXT = TaskType.CONTEXT.value
    TEXT = TaskType.TEXT.value
    CACHE = TaskType.CACHE.value
    JOBS = "jobs"
    RELEASES = "releases"


class Bell(Protocol):
    async def ring(self, topics: Collection[Topic]) -> None:
        """Wake listeners of these topics when, and only if, this transaction commits."""
        ...


class Listener(Protocol):
    """One process's ear. Open from `start` to `close`."""

    async def start(self) -> None: ...

    async def wait(self, timeout: float) -> Collection[Topic]:  # noqa: ASYNC109 - the timeout is the polling interval
        """Return the topics rung since the last call, at once if there are any, else after at most ``timeout`` seconds.

        Where hints cannot be had (a connection pooler, a database restart) this waits and returns nothing.
        """
        ...

    async def close(self) -> None: ...
