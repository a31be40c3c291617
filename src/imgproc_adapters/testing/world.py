"""What a contract suite works on: one empty engine, whatever it is made of."""

from collections.abc import Callable

from attrs import Factory, frozen

from imgproc_adapters.memory import (
    ManualClock,
    MemoryDispatch,
    MemoryHeartbeat,
    MemoryListener,
    MemoryStore,
    MemoryUnitOfWork,
)
from imgproc_domain.config import VectorSpace
from imgproc_domain.ports.claims import Dispatch, Heartbeat
from imgproc_domain.ports.unit_of_work import UnitOfWork
from imgproc_domain.ports.wakeups import Listener

TEXT_SPACE = VectorSpace("contract-text", 8)
VISUAL_SPACE = VectorSpace("contract-visual", 8)


@frozen
class World:
    """Adapters over one database that holds no row yet, in no scope, and no slot of any lane.

    Suites make leases of length zero where they need expired ones, so that no clock has to be moved.
    ``listener`` makes a new ear; the suite starts and closes it.
    """

    uow: UnitOfWork
    dispatch: Dispatch
    heartbeat: Heartbeat
    listener: Callable[[], Listener]
    text_space: VectorSpace = Factory(lambda: TEXT_SPACE)
    visual_space: VectorSpace = Factory(lambda: VISUAL_SPACE)


def memory_world(clock: ManualClock | None = None) -> World:
    """Return a world over a memory store of its own."""
    store, clock = MemoryStore(), clock or ManualClock()
    return World(
        uow=MemoryUnitOfWork(store, clock),
        dispatch=MemoryDispatch(store, clock),
        heartbeat=MemoryHeartbeat(store, clock),
        listener=lambda: MemoryListener(store),
    )
