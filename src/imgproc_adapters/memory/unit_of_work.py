"""Transactions over a store."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from attrs import frozen

from imgproc_adapters.memory.bell import MemoryBell
from imgproc_adapters.memory.claims import MemoryClaims, MemoryJobClaims
from imgproc_adapters.memory.clock import Clock
from imgproc_adapters.memory.configuration import MemoryConfiguration
from imgproc_adapters.memory.evidence import MemoryEvidence
from imgproc_adapters.memory.execution import MemoryAttempts, MemoryGrants, MemoryReleases, MemorySlots
from imgproc_adapters.memory.generations import MemoryGenerations
from imgproc_adapters.memory.library import MemoryContexts, MemoryMemes, MemoryProducts
from imgproc_adapters.memory.processing import MemoryJobs, MemoryTasks
from imgproc_adapters.memory.retention import MemoryRetention
from imgproc_adapters.memory.search import MemorySearch
from imgproc_adapters.memory.search_state import MemoryMigration
from imgproc_adapters.memory.session import Session
from imgproc_adapters.memory.similar import MemorySimilar
from imgproc_adapters.memory.store import MemoryStore
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope


class MemoryTransaction:
    """The stores of one scope over one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.memes = MemoryMemes(session)
        self.contexts = MemoryContexts(session)
        self.products = MemoryProducts(session)
        self.jobs = MemoryJobs(session)
        self.job_claims = MemoryJobClaims(session)
        self.tasks = MemoryTasks(session)
        self.claims = MemoryClaims(session)
        self.attempts = MemoryAttempts(session)
        self.grants = MemoryGrants(session)
        self.releases = MemoryReleases(session)
        self.slots = MemorySlots(session)
        self.evidence = MemoryEvidence(session)
        self.search = MemorySearch(session)
        self.similar = MemorySimilar(session)
        self.generations = MemoryGenerations(session)
        self.migration = MemoryMigration(session)
        self.configuration = MemoryConfiguration(session)
        self.retention = MemoryRetention(session)
        self.bell = MemoryBell(session)

    @property
    def scope(self) -> Scope:
        return self._session.scope

    async def now(self) -> datetime:
        return self._session.now()

    async def together(self, *works: Coroutine[Any, Any, Any]) -> Any:
        try:
            return [await work for work in works]
        finally:
            # those behind one that failed were never begun
            for work in works:
                work.close()


@frozen
class MemoryUnitOfWork:
    """Any number of transactions at once, READ COMMITTED, with row locks that wait, skip and refuse circles.

    A transaction whose statement raised `Conflict` keeps nothing, even if the block swallows the error.
    """

    _store: MemoryStore
    _clock: Clock

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        # a real database makes its caller wait here; without it one busy coroutine would starve the others
        await asyncio.sleep(0)
        self._store.scopes.add(scope)
        session = Session(self._store, self._clock, scope)
        try:
            yield MemoryTransaction(session)
            session.commit()
        finally:
            session.close()
