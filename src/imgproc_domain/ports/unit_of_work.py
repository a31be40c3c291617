"""One transaction, one scope."""

from collections.abc import Awaitable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar, overload

from imgproc_domain.ports.claims import ClaimStore, JobClaimStore
from imgproc_domain.ports.configuration import ConfigurationStore
from imgproc_domain.ports.evidence import EvidenceStore
from imgproc_domain.ports.execution import AttemptStore, GrantStore, ReleaseOutbox, SlotStore
from imgproc_domain.ports.library import ContextStore, MemeStore, ProductStore
from imgproc_domain.ports.migration import MigrationStore
from imgproc_domain.ports.processing import JobStore, TaskStore
from imgproc_domain.ports.retention import RetentionStore
from imgproc_domain.ports.search import GenerationStore, SearchStore
from imgproc_domain.ports.similar import SimilarStore
from imgproc_domain.ports.wakeups import Bell
from imgproc_domain.scope import Scope

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

Work = Coroutine[Any, Any, A]


class Together(Protocol):
    """Does work on the stores of one transaction that does not depend on each other's answers, in few round trips.

    What each asks first is done in the order in which they are given, then what each asks next; the results stand in
    that order. Nothing but stores of this transaction may be awaited in there.
    """

    @overload
    def __call__(self, a: Work[A], b: Work[B], /) -> Awaitable[tuple[A, B]]: ...
    @overload
    def __call__(self, a: Work[A], b: Work[B], c: Work[C], /) -> Awaitable[tuple[A, B, C]]: ...
    @overload
    def __call__(self, a: Work[A], b: Work[B], c: Work[C], d: Work[D], /) -> Awaitable[tuple[A, B, C, D]]: ...
    @overload
    def __call__(
        self, a: Work[A], b: Work[B], c: Work[C], d: Work[D], e: Work[E], /
    ) -> Awaitable[tuple[A, B, C, D, E]]: ...
    @overload
    def __call__(
        self, a: Work[A], b: Work[B], c: Work[C], d: Work[D], e: Work[E], f: Work[F], /
    ) -> Awaitable[tuple[A, B, C, D, E, F]]: ...


class Transaction(Protocol):
    """The stores of one scope inside one READ COMMITTED transaction.

    Every store sees and touches rows of ``scope`` alone; a foreign id answers like an unknown one. Locks are taken in
    one order everywhere, so that no two transactions wait for each other in a circle: tasks (with their attempts and
    grants), memes, the search state, jobs, slots; within a kind by ascending id.
    """

    @property
    def scope(self) -> Scope: ...
    @property
    def memes(self) -> MemeStore: ...
    @property
    def contexts(self) -> ContextStore: ...
    @property
    def products(self) -> ProductStore: ...
    @property
    def jobs(self) -> JobStore: ...
    @property
    def job_claims(self) -> JobClaimStore: ...
    @property
    def tasks(self) -> TaskStore: ...
    @property
    def claims(self) -> ClaimStore: ...
    @property
    def attempts(self) -> AttemptStore: ...
    @property
    def grants(self) -> GrantStore: ...
    @property
    def releases(self) -> ReleaseOutbox: ...
    @property
    def slots(self) -> SlotStore: ...
    @property
    def evidence(self) -> EvidenceStore: ...
    @property
    def search(self) -> SearchStore: ...
    @property
    def similar(self) -> SimilarStore: ...
    @property
    def generations(self) -> GenerationStore: ...
    @property
    def migration(self) -> MigrationStore: ...
    @property
    def configuration(self) -> ConfigurationStore: ...
    @property
    def retention(self) -> RetentionStore: ...
    @property
    def bell(self) -> Bell: ...
    @property
    def together(self) -> Together: ...

    async def now(self) -> datetime:
        """Return the database's clock at this statement (not at the transaction's start), timezone-aware UTC."""
        ...


class UnitOfWork(Protocol):
    def begin(self, scope: Scope) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction: committed when the block ends, rolled back whole when an exception leaves it.

        The first use of a scope registers it. No external call may happen inside the block.

        Raises:
            DatabaseUnavailable: the database did not answer; nothing was kept.
            CommitOutcomeUnknown: the connection ended during COMMIT; the transaction may have been kept.
            Conflict: a unique key refused a row, or the database ended the transaction to break a tie; nothing was
                kept. Read again and decide again.
        """
        ...
