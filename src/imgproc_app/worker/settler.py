"""Collect outcomes as they come and write them back in batches, one transaction a scope."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from imgproc_domain.claim import Claim
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.handover import Handover
from imgproc_domain.usecases.settle import settle, settle_and_claim

log = logging.getLogger(__name__)


# While the server works on one batch this process prepares another. Under load a batch waits a moment for more results:
# what it costs to write is mostly the same for one and for many.
_AT_ONCE = 2
_MANY = 16
_GATHERING = 0.004

Accept = Callable[[Sequence[Execution]], None]
Offer = Callable[[Sequence[Settling]], AbstractAsyncContextManager[tuple[Handover, Accept]]]


class Settler:
    """Whatever has finished by the time a batch is written goes into it: batches grow with the load by themselves.

    ``done`` is called with the claims of each batch that was decided, settled and fenced alike. A batch that the
    database refuses to take is tried again until it is decided or its leases have run out. ``offer`` keeps places for
    what a batch opens, and takes it.
    """

    def __init__(
        self,
        deployment: Deployment,
        done: Callable[[Sequence[Claim]], None],
        retry_after: float,
        offer: Offer | None = None,
    ) -> None:
        self._deployment = deployment
        self._done = done
        self._retry_after = retry_after
        self._offer = offer
        self._lease = deployment.limits.lease.total_seconds()
        self._waiting: dict[Scope, list[Settling]] = defaultdict(list)
        self._writing: list[Sequence[Settling]] = []
        self._stirred = asyncio.Event()
        self._closing = False
        self._busy = False
        self._bound: asyncio.Timeout | None = None

    def put(self, item: Settling) -> None:
        self._waiting[item.claim.scope].append(item)
        self._stirred.set()

    async def run(self) -> None:
        """Write batches until `close` was called and nothing is left.

        From then on that takes one lease at most, however many scopes there are and whatever the database does: what
        is not written by then is left to lease recovery.
        """
        try:
            async with asyncio.timeout(self._lease if self._closing else None) as self._bound:
                await asyncio.gather(*(self._write() for _ in range(_AT_ONCE)))
        except TimeoutError:
            left = [item.claim for items in (*self._writing, *self._waiting.values()) for item in items]
            log.warning("settle: %d results are left to lease recovery: the database did not take them", len(left))
            self._done(left)
        finally:
            self._bound = None

    def close(self) -> None:
        """Let `run` end once everything is written; nothing may be put any more."""
        if self._closing:
            return
        self._closing = True
        self._stirred.set()
        if self._bound is not None:
            self._bound.reschedule(asyncio.get_running_loop().time() + self._lease)

    async def _write(self) -> None:
        while self._waiting or not self._closing:
            if not self._may_write():
                self._stirred.clear()
                await self._stirred.wait()
                continue
            if self._busy and not self._closing:
                await asyncio.sleep(_GATHERING)
            if not self._waiting:
                continue
            scope = next(iter(self._waiting))
            items = self._waiting.pop(scope)
            self._busy = len(items) >= _MANY
            self._writing.append(items)
            await self._settle(scope, items)
            self._writing.remove(items)
            self._stirred.set()

    def _may_write(self) -> bool:
        """Whether a batch is worth a transaction: always if there is no other, else only a large one."""
        if not self._writing or self._closing:
            return bool(self._waiting)
        return sum(map(len, self._waiting.values())) >= _MANY

    async def _settle(self, scope: Scope, items: Sequence[Settling]) -> None:
        give_up = asyncio.get_running_loop().time() + self._lease
        while True:
            try:
                await self._write_batch(scope, items)
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

    async def _write_batch(self, scope: Scope, items: Sequence[Settling]) -> None:
        if self._offer is None:
            await settle(self._deployment, scope, items)
            return
        async with self._offer(items) as (handover, accept):
            _, executions = await settle_and_claim(self._deployment, scope, items, handover)
            accept(executions)

    async def _apart(self, scope: Scope, items: Sequence[Settling]) -> None:
        """Settle one by one after a bug in the batch, so that one item cannot take the others with it."""
        for item in items:
            try:
                await settle(self._deployment, scope, [item])
            except Exception:
                log.exception("settle: task %s is left to lease recovery", item.claim.task_id)
