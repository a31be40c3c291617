"""A unit of work that fails on demand, over any other one."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto

from attrs import define, field

from imgproc_domain.errors import CommitOutcomeUnknown, DatabaseUnavailable
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope


class Fault(Enum):
    """What becomes of one transaction."""

    NONE = auto()
    REFUSED = auto()
    """The database does not answer: the block never runs."""
    ROLLED_BACK = auto()
    """The connection ends before COMMIT: the block ran, nothing was kept."""
    REPLY_LOST = auto()
    """The connection ends during COMMIT, and everything was kept."""
    COMMIT_LOST = auto()
    """The connection ends during COMMIT, and nothing was kept."""


class _AbandonedError(Exception):
    """Makes the inner unit of work roll back."""


def _abandon_if(lost: bool) -> None:
    if lost:
        raise _AbandonedError


@define(eq=False)
class FaultyUnitOfWork:
    """Plan faults by ``plan(...)``, one a transaction in the order they begin; after them nothing fails."""

    _inner: UnitOfWork
    _planned: deque[Fault] = field(init=False, factory=deque)

    def plan(self, *faults: Fault) -> None:
        self._planned.extend(faults)

    def forget(self) -> None:
        """Drop the faults that were planned and not met."""
        self._planned.clear()

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        fault = self._planned.popleft() if self._planned else Fault.NONE
        if fault is Fault.REFUSED:
            raise DatabaseUnavailable("the database does not answer")
        try:
            async with self._inner.begin(scope) as tx:
                yield tx
                _abandon_if(fault in (Fault.ROLLED_BACK, Fault.COMMIT_LOST))
        except _AbandonedError:
            if fault is Fault.ROLLED_BACK:
                raise DatabaseUnavailable("the connection ended; nothing was kept") from None
            raise CommitOutcomeUnknown("the connection ended during COMMIT") from None
        if fault is Fault.REPLY_LOST:
            raise CommitOutcomeUnknown("the connection ended during COMMIT")
