"""Hints over LISTEN and NOTIFY. Whatever happens to them costs at most one polling interval."""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from imgproc_adapters.postgres.conninfo import UNBOUNDED, parameters
from imgproc_adapters.postgres.session import Ask, statement
from imgproc_domain.ports.wakeups import Topic

CHANNEL: Final = "imgproc"

_NOTIFY: Final = statement("SELECT pg_notify('{channel}', %(topics)s)", channel=CHANNEL)
_LISTEN: Final = statement("LISTEN {channel}", channel=CHANNEL)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0

_log = logging.getLogger(__name__)


class PostgresBell:
    """Collects the topics of one transaction; they are sent once, with its COMMIT."""

    def __init__(self) -> None:
        self._topics: set[Topic] = set()

    async def ring(self, topics: Collection[Topic]) -> None:
        self._topics |= set(topics)

    def note(self) -> Ask | None:
        """Return the statement that sends what was rung; None if nothing was."""
        return (_NOTIFY, {"topics": " ".join(sorted(self._topics))}) if self._topics else None


class PostgresListener:
    """An ear with a connection of its own, which comes back by itself after the database was away.

    ``dsn`` None says that there is nothing to listen to, as behind a pooler in transaction mode: then it only waits.
    Give it the database's own address where the pool goes through a pooler.
    """

    def __init__(self, dsn: str | None) -> None:
        self._dsn = dsn
        self._rung: set[Topic] = set()
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen; returns once hints arrive, or at once if the database cannot be reached yet."""
        if self._dsn is not None and self._task is None:
            connection = await self._connect(self._dsn)
            self._task = asyncio.create_task(self._listen(self._dsn, connection), name="imgproc-listener")

    async def wait(self, timeout: float) -> Collection[Topic]:  # noqa: ASYNC109 - the timeout is the polling interval
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), timeout)
        rung, self._rung = self._rung, set()
        self._heard.clear()
        return rung

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _listen(self, dsn: str, connection: AsyncConnection[Any] | None) -> None:
        pause = _FIRST_PAUSE
        while True:
            if connection is not None:
                pause = _FIRST_PAUSE
                await self._hear(connection)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            connection = await self._connect(dsn)
            if connection is not None:
                # nobody knows what was missed meanwhile: everything may have rung
                self._note(Topic)

    async def _hear(self, connection: AsyncConnection[Any]) -> None:
        """Take hints until the connection ends."""
        try:
            async with connection:
                async for notice in connection.notifies():
                    self._note(topic for topic in Topic if topic.value in notice.payload.split())
        except psycopg.Error as error:
            _log.warning("wake-up hints are lost until the database answers again: %s", type(error).__name__)

    async def _connect(self, dsn: str) -> AsyncConnection[Any] | None:
        try:
            connection = await AsyncConnection.connect(autocommit=True, **parameters(dsn, UNBOUNDED))
            await connection.execute(_LISTEN)
        except psycopg.Error as error:
            _log.warning("no wake-up hints from the database: %s", type(error).__name__)
            return None
        return connection

    def _note(self, topics: Any) -> None:
        self._rung.update(topics)
        if self._rung:
            self._heard.set()
