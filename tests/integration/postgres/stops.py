"""A unit of work that stands still at one point of one transaction, until it is told to go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from attrs import define, field, frozen

from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope


@frozen
class Point:
    """Before, or just after, the ``nth`` call of a store's method (``search.nearest``), over all transactions."""

    call: str
    after: bool = False
    nth: int = 1

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.call} {self.nth}"


@define(eq=False)
class StoppingUnitOfWork:
    """Stops once at ``point``. ``reached`` is set when it stands there; it goes on when ``go_on`` is set.

    With ``commit`` it stops at the end of the transaction in which the point was passed, before that is committed: the
    only way for calls that are sent together with others.
    """

    _inner: UnitOfWork
    point: Point
    commit: bool = False
    reached: asyncio.Event = field(factory=asyncio.Event)
    go_on: asyncio.Event = field(factory=asyncio.Event)
    _calls: int = field(init=False, default=0)

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        before = self._calls
        async with self._inner.begin(scope) as tx:
            yield cast("Transaction", _Watched(tx, "", self))
            if self.commit and before < self.point.nth <= self._calls:
                await self._stop()

    def passing(self, call: str, work: Callable[[], Any]) -> Any:
        """Do what a store does: what is sent together with others is not waited for here."""
        if call != self.point.call:
            return work()
        self._calls += 1
        return work() if self.commit or self._calls != self.point.nth else self._stopped(work)

    async def _stopped(self, work: Callable[[], Awaitable[Any]]) -> Any:
        if not self.point.after:
            await self._stop()
        found = await work()
        if self.point.after:
            await self._stop()
        return found

    async def _stop(self) -> None:
        self.reached.set()
        await self.go_on.wait()


@frozen
class _Watched:
    """A transaction, or one of its stores, whose methods are looked at by their dotted names."""

    _inner: Any
    _path: str
    _uow: StoppingUnitOfWork

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        path = f"{self._path}.{name}" if self._path else name
        if not callable(found):
            return found if isinstance(found, str) else _Watched(found, path, self._uow)
        return lambda *args, **kwargs: self._uow.passing(path, lambda: found(*args, **kwargs))
