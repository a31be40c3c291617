"""Collect outcomes as they come and write them back in batches, one transaction a scope."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from imgproc_domain.claim import Claim
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.settle import settle

log = logging.getLogger(__name__)


class Settler:
    """Whatever has finished by the time a batch is written goes into it: batches grow with the load by themselves.

    ``done`` is called with the claims of each batch that was decided, settled and fenced alike. A batch that the
    database refuses to take is tried again until it is decided or its leases have run out.
    """

    def __init__(self, deployment: Deployment, done: Callable[[Sequence[Claim]], None], retry_after: float) -> None:
        self._deployment = deployment
        self._done = done
        self._retry_after = retry_after
        self._waiting: dict[Scope, list[Settling]] = defaultdict(list)
        self._arrived = asyncio.Event()
        self._closing = False

    def put(self, item: Settling) -> None:
        self._waiting[item.claim.scope].append(item)
        self._arrived.set()

    async def run(self) -> None:
        """Write batches until `close` was called and nothing is left."""
        while self._waiting or not self._closing:
            if not self._waiting:
                await self._arrived.wait()
            self._arrived.clear()
            waiting, self._waiting = self._waiting, defaultdict(list)
            for scope, items in waiting.items():
                await self._settle(scope, items)

    def close(self) -> None:
        self._closing = True
        self._arrived.set()

    async def _settle(self, scope: Scope, items: Sequence[Settling]) -> None:
        lease = self._deployment.limits.lease.total_seconds()
        give_up = asyncio.get_running_loop().time() + lease
        while True:
            try:
                await settle(self._deployment, scope, items)
            except (DatabaseUnavailable, Conflict) as error:
                log.warning("settle: %s", error.message)
                if asyncio.get_running_loop().time() > give_up:
                    break
                await asyncio.sleep(self._retry_after)
            except Exception:
                log.exception("settle: a batch of %d failed; its items are settled one by one", len(items))
                await self._apart(scope, items)
                break
            else:
                break
        self._done([item.claim for item in items])

    async def _apart(self, scope: Scope, items: Sequence[Settling]) -> None:
        """Settle one by one after a bug in the batch, so that one item cannot take the others with it."""
        for item in items:
            try:
                await settle(self._deployment, scope, [item])
            except Exception:
                log.exception("settle: task %s is left to lease recovery", item.claim.task_id)
