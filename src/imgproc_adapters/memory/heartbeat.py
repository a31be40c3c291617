"""Renewal of leases from a thread of its own."""

from collections.abc import Collection
from datetime import timedelta

from attrs import evolve, frozen

from imgproc_adapters.memory.clock import Clock
from imgproc_adapters.memory.schema import TASKS
from imgproc_adapters.memory.store import MemoryStore
from imgproc_domain.claim import Claim
from imgproc_domain.task import why_fenced


@frozen
class MemoryHeartbeat:
    """Reads and writes committed rows under the store's mutex; a transaction that holds a row keeps the renewal."""

    _store: MemoryStore
    _clock: Clock

    def renew(self, claims: Collection[Claim], lease: timedelta) -> Collection[Claim]:
        stale: list[Claim] = []
        with self._store.mutex:
            now = self._clock.now()
            for claim in claims:
                task = self._store.rows(TASKS, claim.scope).get(claim.task_id)
                if task is None or why_fenced(task, claim, now) is not None:
                    stale.append(claim)
                else:
                    self._store.renew(evolve(task, lease=evolve(task.lease, expires_at=now + lease)))
        return stale

    def close(self) -> None:
        """Nothing is held between renewals."""
