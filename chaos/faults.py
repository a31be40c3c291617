"""The seeded controller of everything that goes wrong."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from attrs import define, field

from chaos.fleet import Fleet, Member
from chaos.plan import LEASE, Plan
from chaos.proxy import Proxy
from chaos.server import ChaosServer
from imgproc_domain.attempt import Replay

log = logging.getLogger(__name__)

_MOST_STOPPED: Final = 3
_TOP_UP_SECONDS: Final = 300.0


@define(eq=False)
class Faults:
    """Everything that goes wrong in a run, in an order and at a pace given by the seed.

    ``progress`` rises from 0 to 1. The work goes on in step with it: `run` waits while ``behind()`` says so.
    """

    plan: Plan
    fleet: Fleet
    server: ChaosServer
    people: Proxy
    dice: random.Random
    progress: float = 0.0
    restarts: int = 0
    partitions: int = 0
    naps: int = 0
    _tasks: set[asyncio.Task[None]] = field(factory=set)

    @property
    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies())

    @property
    def reached(self) -> bool:
        done = (self.fleet.kills, self.fleet.stops, self.restarts, self.cuts)
        return all(x >= y for x, y in zip(done, self._wanted(), strict=True))

    async def run(self, behind: Callable[[], bool]) -> None:
        events = self._events()
        due: Counter[str] = Counter()
        for number, event in enumerate(events):
            await asyncio.sleep(self.dice.expovariate(1 / self.plan.pace))
            while behind():  # noqa: ASYNC110 - the work sends no event
                await asyncio.sleep(0.1)
            self.progress = number / len(events)
            if self.progress > 1 / 2:
                # from now on those who are born may ask the provider; for a while both kinds work side by side
                self.fleet.replay = Replay.LOOKUP
            due[event] += 1
            await self._let_happen(event, due)
        await self._top_up(due)
        self.progress = 1.0
        await asyncio.gather(*self._tasks)

    def _events(self) -> list[str]:
        plan = self.plan
        wanted = {"kill": plan.kills, "stop": plan.stops, "cut": plan.cuts, "restart": plan.restarts}
        extra = {"partition": plan.partitions, "nap": plan.naps}
        events = [name for name, count in (wanted | extra).items() for _ in range(count)]
        self.dice.shuffle(events)
        return events

    async def _let_happen(self, event: str, due: Counter[str]) -> None:
        """Make good what is due by now; workers that did it to themselves at a point were there first."""
        happen: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "cut": self._cut,
            "restart": self._restart,
            "partition": self._partition,
            "nap": self._nap,
        }
        done = {"kill": self.fleet.kills, "stop": self.fleet.stops + self.fleet.stops_under_way, "cut": self.cuts}
        if done.get(event, -1) < due[event]:
            await happen[event]()

    async def _top_up(self, due: Counter[str]) -> None:
        """Go on until the wanted numbers are reached: a cut happens at the next COMMIT only, a stop may end early."""
        give_up = time.monotonic() + _TOP_UP_SECONDS
        while not self.reached and time.monotonic() < give_up:
            for event in ("kill", "stop", "cut"):
                await self._let_happen(event, due)
            await asyncio.sleep(self.plan.pace)

    def _wanted(self) -> tuple[int, int, int, int]:
        return self.plan.kills, self.plan.stops, self.plan.restarts, self.plan.cuts

    def _proxies(self) -> list[Proxy]:
        return [*(member.proxy for member in self.fleet.members), self.people]

    def _victim(self) -> Member | None:
        running = self.fleet.running
        return self.dice.choice(running) if running else None

    async def _kill(self) -> None:
        if (member := self._victim()) is not None:
            self.fleet.kill(member)

    async def _stop(self) -> None:
        standing = sum(member.stopped for member in self.fleet.members)
        if standing < _MOST_STOPPED and (member := self._victim()) is not None:
            self.fleet.stop(member, self.fleet.long_stop())

    async def _nap(self) -> None:
        if (member := self._victim()) is not None:
            self.naps += 1
            self.fleet.stop(member, self.dice.uniform(0.3, 0.9) * LEASE.total_seconds(), counted=False)

    async def _cut(self) -> None:
        self.dice.choice(self._proxies()).cut()

    async def _partition(self) -> None:
        member = self._victim()
        if member is None or not member.proxy.open.is_set():
            return
        self.partitions += 1
        seconds, ends_in_reset = self.dice.uniform(0.5, 5.0), self.dice.random() < 1 / 2
        task = asyncio.get_running_loop().create_task(member.proxy.partition(seconds, reset=ends_in_reset))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart(self) -> None:
        await asyncio.to_thread(self.server.restart)
        self.restarts += 1
        log.info("the server was restarted")
