"""The ports over dictionaries: real transactions, row locks and a clock that can be set.

It passes the same contracts as the PostgreSQL adapter and stands in for it in a host's tests and in state machines.
One event loop uses a store at a time; only `MemoryHeartbeat` may be used from other threads.
"""

from imgproc_adapters.memory.bell import MemoryListener
from imgproc_adapters.memory.clock import Clock, ManualClock, SystemClock
from imgproc_adapters.memory.dispatch import MemoryDispatch
from imgproc_adapters.memory.heartbeat import MemoryHeartbeat
from imgproc_adapters.memory.store import MemoryStore
from imgproc_adapters.memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork

__all__ = [
    "Clock",
    "ManualClock",
    "MemoryDispatch",
    "MemoryHeartbeat",
    "MemoryListener",
    "MemoryStore",
    "MemoryTransaction",
    "MemoryUnitOfWork",
    "SystemClock",
]
