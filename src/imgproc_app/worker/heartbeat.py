"""Renew leases from a thread of its own, which neither a blocked event loop nor a busy model can stall."""

import logging
import threading
from collections.abc import Callable, Collection
from datetime import timedelta

from imgproc_domain.claim import Claim
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ports.claims import Heartbeat

log = logging.getLogger(__name__)


class HeartbeatThread:
    """Renews every held claim three times a lease, in one statement a scope.

    ``lost`` is called from the thread with claims that are no longer current: their local execution must stop. A
    database that does not answer is asked again at the next beat; the leases decide how long that may go on.
    """

    def __init__(self, heartbeat: Heartbeat, lease: timedelta, lost: Callable[[Collection[Claim]], None]) -> None:
        self._heartbeat = heartbeat
        self._lease = lease
        self._lost = lost
        self._held: set[Claim] = set()
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="imgproc-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hold(self, claims: Collection[Claim]) -> None:
        with self._guard:
            self._held.update(claims)

    def drop(self, claims: Collection[Claim]) -> None:
        with self._guard:
            self._held.difference_update(claims)

    def stop(self) -> None:
        """End the thread and its connection; waits for a beat that is under way."""
        self._stop.set()
        self._thread.join()
        self._heartbeat.close()

    def _beat(self) -> None:
        interval = self._lease.total_seconds() / 3
        while not self._stop.wait(interval):
            with self._guard:
                held = frozenset(self._held)
            if held:
                self._renew(held)

    def _renew(self, held: frozenset[Claim]) -> None:
        try:
            lost = self._heartbeat.renew(held, self._lease)
        except DatabaseUnavailable as error:
            log.warning("heartbeat: the database did not answer (%s)", error.message)
            return
        except Exception:
            # leases must outlive any bug: the next beat tries again
            log.exception("heartbeat: a beat failed")
            return
        with self._guard:
            gone = [claim for claim in lost if claim in self._held]
            self._held.difference_update(gone)
        if gone:
            self._lost(gone)
