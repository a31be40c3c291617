"""Start, stop, and the loops in between."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from attrs import frozen

from imgproc_app.worker.heartbeat import HeartbeatThread
from imgproc_app.worker.lane import LaneRunner, Perform
from imgproc_app.worker.loops import Wakeups, each, repeat
from imgproc_app.worker.settler import Accept, Settler
from imgproc_domain.claim import Claim
from imgproc_domain.ids import WorkerId
from imgproc_domain.ports.claims import Dispatch, Heartbeat
from imgproc_domain.ports.wakeups import Listener, Topic
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, MAINTENANCE_TASK_TYPES, TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.configuration import keep, take_over
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.handover import Handover, opened_by
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.recover import expire_leases, flush_releases

log = logging.getLogger(__name__)

_SCOPES_A_TURN = 32


@frozen
class Pace:
    """How often loops look without a hint, in seconds, and how much they take at once."""

    poll: float = 1.0
    sweep: float = 2.0
    grace: float = 20.0
    batch: int = 200


class _Worker:
    """Claims, runs and settles the task types it owns, and recovers expired leases of those types alone."""

    def __init__(
        self,
        deployment: Deployment,
        dispatch: Dispatch,
        heartbeat: Heartbeat,
        listener: Listener,
        performers: Mapping[TaskType, Perform],
        pace: Pace,
    ) -> None:
        self._deployment = deployment
        self._dispatch = dispatch
        self._listener = listener
        self._pace = pace
        self._types = frozenset(performers)
        self._owner = WorkerId(deployment.ids.secret())
        self._wakeups = Wakeups()
        self._sweep_wakeups = Wakeups()
        self._stopping = asyncio.Event()
        self._superseded = False
        self._heartbeat = HeartbeatThread(heartbeat, deployment.limits.lease, self._lost_from_thread)
        self._settler = Settler(deployment, self._settled, pace.poll, self._offer)
        self._lanes = {task_type: self._lane(task_type, run) for task_type, run in performers.items()}
        self._loops: list[asyncio.Task[None]] = []
        self._settling: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_expired: Scope | None = None

    def _lane(self, task_type: TaskType, run: Perform) -> LaneRunner:
        return LaneRunner(
            task_type,
            deployment=self._deployment,
            dispatch=self._dispatch,
            owner=self._owner,
            perform=run,
            heartbeat=self._heartbeat,
            settler=self._settler,
            look_again=self._pace.poll,
        )

    async def start(self) -> None:
        """Open the listener and the heartbeat and begin to work."""
        self._loop = asyncio.get_running_loop()
        await self._listener.start()
        self._heartbeat.start()
        self._settling = asyncio.create_task(self._settler.run(), name="imgproc-settler")
        steps = [(Topic(t.value), lane.turn, self._pace.poll) for t, lane in self._lanes.items()]
        for topic, step, poll in [*steps, *self._more_steps()]:
            self._loops.append(asyncio.create_task(self._repeat(step, topic, poll), name=f"imgproc-{topic}"))
        self._loops.append(asyncio.create_task(self._sweep(), name="imgproc-sweep"))
        self._loops.append(asyncio.create_task(self._listen(), name="imgproc-listen"))
        log.info("worker %s started: %s", self._owner[:8], ", ".join(sorted(self._types)))

    async def stop(self) -> None:
        """Stop claiming, let running calls finish within the grace, give the rest back, and settle everything."""
        self._stopping.set()
        self._wakeups.set_all()
        self._sweep_wakeups.set_all()
        if self._loops:
            _, late = await asyncio.wait(self._loops, timeout=self._pace.grace)
            for loop in late:
                loop.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.gather(*(lane.finish(self._pace.grace) for lane in self._lanes.values()))
        self._settler.close()
        if self._settling is not None:
            await self._settling
        await asyncio.to_thread(self._heartbeat.stop)
        await self._listener.close()
        log.info("worker %s stopped", self._owner[:8])

    def _more_steps(self) -> Sequence[tuple[Topic, Callable[[], Awaitable[bool]], float]]:
        return ()

    async def _repeat(self, step: Callable[[], Awaitable[bool]], topic: Topic, poll: float) -> None:
        async def unless_superseded() -> bool:
            # claims look at what is in force themselves: this spares the database those that would find nothing
            return not self._superseded and await step()

        await repeat(unless_superseded, wakeups=self._wakeups, topic=topic, poll=poll, stopping=self._stopping)

    async def _listen(self) -> None:
        while not self._stopping.is_set():
            rung = await self._listener.wait(self._pace.poll)
            for task_type, lane in self._lanes.items():
                if Topic(task_type.value) in rung:
                    lane.ring()
            self._wakeups.set(rung)

    async def _sweep(self) -> None:
        async def once() -> bool:
            async def expire(scope: Scope) -> int:
                return await expire_leases(self._deployment, scope, self._types, self._pace.batch)

            if self._superseded:
                return False
            scopes = await self._dispatch.expired_scopes(self._types, self._last_expired, _SCOPES_A_TURN)
            if scopes:
                # also if one of them fails: the scopes behind them are not to wait for that
                self._last_expired = scopes[-1]
            if await each(scopes, expire):
                self._wakeups.set_all()
            return False

        wakeups, poll = self._sweep_wakeups, self._pace.sweep
        await repeat(once, wakeups=wakeups, topic=Topic.JOBS, poll=poll, stopping=self._stopping)

    @property
    def _works(self) -> bool:
        return not self._stopping.is_set() and not self._superseded

    def _settled(self, claims: Sequence[Claim]) -> None:
        # whatever else this made ready rings by itself
        self._wakeups.set(Topic(t.value) for t, lane in self._lanes.items() if lane.settled(claims))

    @asynccontextmanager
    async def _offer(self, items: Sequence[Settling]) -> AsyncIterator[tuple[Handover, Accept]]:
        """Keep places in the lanes for what a batch opens, and start what it was given."""
        opened = opened_by(items)
        room = await self._room() if opened[TaskType.CONTEXT] else 0
        begun = asyncio.get_running_loop().time()
        ending = [item.claim for item in items]
        wanted = {t: min(opened[t], room) if t is TaskType.CONTEXT else opened[t] for t in self._lanes}
        places = {t: self._lanes[t].keep(n, ending) for t, n in wanted.items() if n > 0} if self._works else {}
        try:
            yield Handover(self._owner, places, room, begun), self._adopt
        finally:
            refused = [task_type for task_type, kept in places.items() if self._lanes[task_type].give_back(kept)]
            self._wakeups.set(Topic(task_type.value) for task_type in refused)

    def _adopt(self, executions: Sequence[Execution]) -> None:
        by_type: dict[TaskType, list[Execution]] = defaultdict(list)
        for execution in executions:
            by_type[execution.task.task_type].append(execution)
        for task_type, adopted in by_type.items():
            # a lane that is being stopped, or has no turns, starts nothing any more
            lane = self._lanes[task_type]
            (lane.adopt if self._works else lane.decline)(adopted)
        self._wakeups.set(Topic(task_type.value) for task_type in by_type)

    async def _room(self) -> int:
        """Return how many agent tasks may be opened before the backpressure limit holds the others up."""
        if TaskType.CONTEXT not in self._types or self._deployment.immediate is None:
            return 0
        most = self._deployment.limits.lanes.agent_backpressure
        return most - await self._dispatch.queued(TaskType.CONTEXT, most)

    def _lost_from_thread(self, claims: Collection[Claim]) -> None:
        assert self._loop is not None, "the heartbeat starts after the loop is known"
        self._loop.call_soon_threadsafe(self._lost, claims)

    def _lost(self, claims: Collection[Claim]) -> None:
        for lane in self._lanes.values():
            lane.lost(claims)


class ImageProcessingWorker(_Worker):
    """The only one that scans, claims, expires and settles the three image task types, and reconciles jobs.

    It takes the scope from the persisted row only. Any number of them may run, in any number of processes.

    With a scope to reach the database by, ``home``, it puts its configuration in force when it starts, and from then
    on says that it is alive; superseded by another deployment it settles what it has and takes nothing, until the
    other one is gone. Without one it works only where no configuration was ever put in force, or its own is: it says
    so when it starts, because it cannot tell later.
    """

    def __init__(
        self,
        deployment: Deployment,
        dispatch: Dispatch,
        heartbeat: Heartbeat,
        listener: Listener,
        pace: Pace | None = None,
        home: Scope | None = None,
    ) -> None:
        performers = dict.fromkeys(sorted(IMAGE_TASK_TYPES), perform)
        super().__init__(deployment, dispatch, heartbeat, listener, performers, pace or Pace())
        self._home = home
        self._last_due: Scope | None = None
        self._last_release: Scope | None = None

    async def start(self) -> None:
        if self._home is None:
            log.warning(
                "worker %s has no home: it takes no work while another configuration is in force", self._owner[:8]
            )
        else:
            await take_over(self._deployment, self._home)
        await super().start()
        if self._home is not None:
            self._loops.append(asyncio.create_task(self._keep(self._home), name="imgproc-configuration"))

    async def _keep(self, home: Scope) -> None:
        async def once() -> bool:
            self._note(superseded=not await keep(self._deployment, home))
            return False

        wakeups, poll = self._sweep_wakeups, self._deployment.limits.configuration_lease.total_seconds() / 3
        await repeat(once, wakeups=wakeups, topic=Topic.JOBS, poll=poll, stopping=self._stopping)

    def _note(self, *, superseded: bool) -> None:
        if superseded == self._superseded:
            return
        self._superseded = superseded
        if superseded:
            log.warning("worker %s takes no work: another deployment's configuration is in force", self._owner[:8])
            for lane in self._lanes.values():
                lane.decline_adopted()
        else:
            log.warning("worker %s takes work again: its configuration is in force", self._owner[:8])
            self._wakeups.set_all()

    def _more_steps(self) -> Sequence[tuple[Topic, Callable[[], Awaitable[bool]], float]]:
        return ((Topic.JOBS, self._reconcile, self._pace.poll), (Topic.RELEASES, self._release, self._pace.sweep))

    async def _reconcile(self) -> bool:
        async def reconcile(scope: Scope) -> int:
            return await reconcile_due(self._deployment, self._dispatch, scope, self._owner, self._pace.batch)

        scopes = await self._dispatch.due_scopes(self._last_due, _SCOPES_A_TURN)
        if scopes:
            # another one goes first next time: the first may take all the room, or keep the others from their turn
            self._last_due = scopes[-1] if len(scopes) == _SCOPES_A_TURN else scopes[0]
        found = await each(scopes, reconcile)
        if found:
            self._wakeups.set_all()
        return found > 0

    async def _release(self) -> bool:
        async def release(scope: Scope) -> int:
            return await flush_releases(self._deployment, scope, self._pace.batch)

        scopes = await self._dispatch.release_scopes(self._last_release, _SCOPES_A_TURN)
        if scopes:
            # also if their releases fail: those of the scopes behind them are not to wait for that
            self._last_release = scopes[-1]
        return await each(scopes, release) > 0


class TaskWorker(_Worker):
    """The general worker for maintenance tasks. It never touches an image task: its types are disjoint from theirs."""

    def __init__(
        self,
        deployment: Deployment,
        dispatch: Dispatch,
        heartbeat: Heartbeat,
        listener: Listener,
        performers: Mapping[TaskType, Perform],
        pace: Pace | None = None,
    ) -> None:
        foreign = frozenset(performers) - MAINTENANCE_TASK_TYPES
        if foreign:
            raise ValueError(f"owned by ImageProcessingWorker: {', '.join(sorted(foreign))}")
        super().__init__(deployment, dispatch, heartbeat, listener, performers, pace or Pace())
