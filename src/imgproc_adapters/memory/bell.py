"""Hints inside one process."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from attrs import frozen

from imgproc_adapters.memory.session import Session
from imgproc_adapters.memory.store import MemoryStore
from imgproc_domain.ports.wakeups import Topic


@frozen
class MemoryBell:
    _session: Session

    async def ring(self, topics: Collection[Topic]) -> None:
        self._session.ring(topics)


class MemoryListener:
    """Hears every transaction that commits on the store between `start` and `close`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rung: set[Topic] = set()
        self._signal = asyncio.Event()

    async def start(self) -> None:
        self._store.ears.append(self._hear)

    async def wait(self, timeout: float) -> Collection[Topic]:  # noqa: ASYNC109 - the port's polling interval
        if not self._rung:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signal.wait(), timeout)
        rung = frozenset(self._rung)
        self._rung.clear()
        self._signal.clear()
        return rung

    async def close(self) -> None:
        if self._hear in self._store.ears:
            self._store.ears.remove(self._hear)

    def _hear(self, topics: Collection[Topic]) -> None:
        self._rung.update(topics)
        self._signal.set()
