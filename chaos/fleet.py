"""The workers of a run, each with its own proxy: born again as soon as they die, killed, stopped and continued."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from chaos import clocks
from chaos.plan import CLOCKS, LEASE, Plan
from chaos.proxy import Proxy
from chaos.worker import Arm, Order
from imgproc_domain.attempt import Replay
from imgproc_domain.usecases.points import Point

log = logging.getLogger(__name__)

RARE: Final = frozenset({Point.LEASES_EXPIRED, Point.RELEASE_TOLD, Point.RELEASE_FINISHED})
_ARMED: Final = 0.75
_STOPPED_AMONG_ARMED: Final = 0.2
_PATIENCE: Final = 30.0


@define(eq=False)
class Member:
    """One place in the fleet; ``pid`` is the process that has it now, None while it is being born."""

    number: int
    proxy: Proxy
    dsn: Callable[[str], str]
    pid: int | None = None
    births: int = 0
    killed: bool = False
    stopped: bool = False


@define(eq=False)
class Fleet:
    """`start` is told the way to the database through a port, in whose name.

    Deaths by SIGKILL are kills, whoever sent it.
    """

    plan: Plan
    folder: Path
    dice: random.Random
    members: list[Member] = field(factory=list)
    replay: Replay = Replay.NEVER
    kills: int = 0
    kills_at_points: int = 0
    stops: int = 0
    stops_at_points: int = 0
    stops_under_way: int = 0
    crashes: list[str] = field(factory=list)
    _nurseries: list[Process] = field(factory=list)
    _newborn: list[asyncio.Queue[Member]] = field(factory=list)
    _tasks: set[asyncio.Task[None]] = field(factory=set)
    _closing: bool = False

    async def start(self, upstream: Callable[[], int], dsn: Callable[[int, str], str]) -> None:
        for seconds in CLOCKS:
            nursery = await self._open_nursery(seconds)
            self._nurseries.append(nursery)
            self._newborn.append(asyncio.Queue())
            self._do(self._listen(nursery, self._newborn[-1]))
        for number in range(self.plan.workers):
            proxy = Proxy(upstream)
            port = await proxy.start()
            member = Member(number, proxy, partial(dsn, port))
            self.members.append(member)
            self._bear(member)

    async def _open_nursery(self, seconds: int) -> Process:
        errors = os.open(self.folder / f"nursery{seconds:+d}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "chaos.nursery", str(seconds)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[1],
                env=os.environ | clocks.environment(seconds) | {"OPENBLAS_NUM_THREADS": "1"},
            )
        finally:
            os.close(errors)

    @property
    def running(self) -> Sequence[Member]:
        return [m for m in self.members if m.pid is not None and not m.stopped and not m.killed]

    def kill(self, member: Member) -> None:
        assert member.pid is not None, "only what was born can die"
        member.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGKILL)

    def stop(self, member: Member, seconds: float, *, counted: bool = True) -> None:
        """Let the process stand still for a while."""
        assert member.pid is not None, "only what was born can stand still"
        member.stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGSTOP)
        self._do(self._continue(member, member.pid, seconds, counted=counted))

    def long_stop(self) -> float:
        """Return how long a stop past the lease takes."""
        return LEASE.total_seconds() + self.dice.uniform(0.3, 2.0)

    async def close(self) -> None:
        """Let all workers end in order, then their nurseries."""
        self._closing = True
        for member in self.members:
            if member.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGCONT)
                    os.kill(member.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while any(m.pid is not None for m in self.members):  # noqa: ASYNC110 - processes send no event here
                    await asyncio.sleep(0.05)
        self.crashes += [f"worker {m.number} did not end at SIGTERM" for m in self.members if m.pid is not None]
        for nursery in self._nurseries:
            assert nursery.stdin is not None, "it was opened with a pipe"
            nursery.stdin.close()
            await nursery.wait()
        for member in self.members:
            await member.proxy.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _bear(self, member: Member) -> None:
        place = member.number % len(CLOCKS)
        member.births += 1
        member.pid, member.killed, member.stopped = None, False, False
        order = Order(
            name=f"worker-{member.number}",
            folder=self.folder,
            dsn=member.dsn(f"worker-{member.number}.{member.births}"),
            policy=self.plan.policy,
            replay=self.replay,
            seed=f"{self.plan.seed}/{member.number}/{member.births}",
            arm=self._arm(),
            hears=member.number % 2 == 0,
        )
        stdin = self._nurseries[place].stdin
        assert stdin is not None, "it was opened with a pipe"
        self._newborn[place].put_nowait(member)
        stdin.write(order.to_json().encode() + b"\n")

    def _arm(self) -> Arm | None:
        if self.dice.random() > _ARMED:
            return None
        act = "stop" if self.dice.random() < _STOPPED_AMONG_ARMED else "kill"
        if (self.stops >= self.plan.stops) if act == "stop" else (self.kills >= self.plan.kills):
            return None
        point = self.dice.choice(list(Point))
        return Arm(act, point, 1 if point in RARE else self.dice.randint(1, 6))

    async def _listen(self, nursery: Process, newborn: "asyncio.Queue[Member]") -> None:
        assert nursery.stdout is not None, "it was opened with a pipe"
        while line := await nursery.stdout.readline():
            what, pid, status = line.split()
            if what == b"born":
                newborn.get_nowait().pid = int(pid)
                continue
            member = next((m for m in self.members if m.pid == int(pid)), None)
            if member is not None and what == b"stopped":
                self._stopped(member)
            elif member is not None and what == b"died":
                self._died(member, int(status))

    def _stopped(self, member: Member) -> None:
        if not member.stopped:
            # by its own hand, at a point
            assert member.pid is not None, "it was born"
            member.stopped = True
            self.stops_at_points += 1
            self._do(self._continue(member, member.pid, self.long_stop(), counted=True))

    def _died(self, member: Member, status: int) -> None:
        if status == -signal.SIGKILL:
            self.kills += 1
            self.kills_at_points += not member.killed
        elif status or not self._closing:
            self.crashes.append(f"worker {member.number} ended with {status}")
        member.pid = None
        if not self._closing:
            self._bear(member)

    async def _continue(self, member: Member, pid: int, seconds: float, *, counted: bool) -> None:
        self.stops_under_way += counted
        await asyncio.sleep(seconds)
        self.stops_under_way -= counted
        if member.pid == pid and not member.killed:
            self.stops += counted
            member.stopped = False
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def points(self) -> Counter[str]:
        """Return how often which point was where a worker killed or stopped itself."""
        path = self.folder / "points.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return Counter(line.partition('"point": "')[2].rstrip('"}') for line in lines)
