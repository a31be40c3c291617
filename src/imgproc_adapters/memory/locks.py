"""Row locks with waiting, skipping and an end to circles, as READ COMMITTED transactions know them."""

import asyncio
from collections.abc import Hashable
from typing import Final

from imgproc_domain.errors import Conflict, DatabaseUnavailable

LOCK_TIMEOUT: Final = 10.0

Name = tuple[str, Hashable, Hashable]
"""Table or index, partition, key."""


class RowLocks:
    """Exclusive locks, each held by one transaction until it ends. Holders are compared by identity."""

    def __init__(self, timeout: float = LOCK_TIMEOUT) -> None:
        self._timeout = timeout
        self._holders: dict[Name, object] = {}
        self._held: dict[int, list[Name]] = {}
        self._awaited: dict[int, Name] = {}
        self._waiters: dict[Name, list[asyncio.Future[None]]] = {}

    def holds(self, holder: object, name: Name) -> bool:
        return self._holders.get(name) is holder

    def try_acquire(self, holder: object, name: Name) -> bool:
        """Take the lock unless another transaction has it."""
        other = self._holders.get(name)
        if other is None:
            self._holders[name] = holder
            self._held.setdefault(id(holder), []).append(name)
        return other is None or other is holder

    async def acquire(self, holder: object, name: Name) -> None:
        """Take the lock, waiting for its holder; raises as `settle` does."""
        while not self.try_acquire(holder, name):
            await self.settle(holder, name)

    async def settle(self, holder: object, name: Name) -> None:
        """Wait until no other transaction has the lock, without taking it.

        Raises:
            Conflict: waiting would close a circle of transactions that wait for each other.
            DatabaseUnavailable: the other transaction did not end within the time-out.
        """
        while self._holders.get(name, holder) is not holder:
            if self._closes_circle(holder, name):
                raise Conflict("two transactions wait for each other")
            await self._wait(holder, name)

    def release(self, holder: object) -> None:
        """Give up every lock of a transaction that has ended."""
        for name in self._held.pop(id(holder), ()):
            del self._holders[name]
            for waiter in self._waiters.pop(name, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _closes_circle(self, holder: object, name: Name) -> bool:
        other = self._holders.get(name)
        while other is not None:
            if other is holder:
                return True
            awaited = self._awaited.get(id(other))
            other = self._holders.get(awaited) if awaited is not None else None
        return False

    async def _wait(self, holder: object, name: Name) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(name, []).append(waiter)
        self._awaited[id(holder)] = name
        try:
            await asyncio.wait_for(waiter, self._timeout)
        except TimeoutError as late:
            raise DatabaseUnavailable("a row stayed locked by another transaction") from late
        finally:
            del self._awaited[id(holder)]
