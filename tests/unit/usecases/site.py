"""One process over a memory store, driven step by step."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from datetime import timedelta

from imgproc_adapters.memory import (
    ManualClock,
    MemoryDispatch,
    MemoryHeartbeat,
    MemoryStore,
    MemoryUnitOfWork,
)
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.faults import FaultyUnitOfWork
from imgproc_adapters.testing.ledger import MemoryLedger
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import OWNER, A
from imgproc_adapters.testing.view import View, memory_view
from imgproc_app.worker.heartbeat import HeartbeatThread
from imgproc_app.worker.lane import LaneRunner, Perform
from imgproc_app.worker.settler import Settler
from imgproc_domain.attempt import Replay
from imgproc_domain.claim import Claim
from imgproc_domain.job import Job
from imgproc_domain.lane import LaneLimits
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Outcome
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, Settled, Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, ReverseImagePolicy, TaskType
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start


async def content(name: str) -> AsyncIterator[bytes]:
    yield name.encode()


async def turns(count: int = 100) -> None:
    """Let everything that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)


def holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool | None]]:
    """Look at a condition as `until` wants it."""

    async def look() -> bool | None:
        return condition() or None

    return look


async def never(deployment: Deployment, execution: Execution) -> Outcome:
    """Perform an execution whose call never ends."""
    await asyncio.Event().wait()
    return await perform(deployment, execution)


class Site:
    """One process over a memory store, driven step by step."""

    def __init__(
        self,
        *,
        lane: int = 2,
        backpressure: int = 256,
        policy: RememberingPolicy | None = None,
        local: Replay = Replay.SAFE,
        places: int = 4,
    ) -> None:
        """``local`` is what can be proven of the local models' lost calls; their lanes have ``places``."""
        self.store, self.clock, self.ledger = MemoryStore(), ManualClock(), MemoryLedger()
        self.policy = policy or RememberingPolicy()
        self.agent = ScriptedAgent(ledger=self.ledger)
        self.visual = ScriptedVisualModel(ledger=self.ledger, replay=local)
        self.uow = FaultyUnitOfWork(MemoryUnitOfWork(self.store, self.clock))
        self.observer = RecordingObserver()
        self.dispatch = MemoryDispatch(self.store, self.clock)
        self.heartbeat = MemoryHeartbeat(self.store, self.clock)
        lanes = LaneLimits(
            {Lane.VISUAL: places, Lane.AGENT: lane, Lane.TEXT: places, Lane.MAINTENANCE: 1}, backpressure
        )
        self.deployment = Deployment(
            uow=self.uow,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=self.visual,
            agent=self.agent,
            text=ScriptedTextModel(ledger=self.ledger, replay=local),
            policy=self.policy,
            ids=SystemIds(),
            observer=self.observer,
            limits=Limits(look_again=timedelta(0), lanes=lanes),
        )

    async def slots(self, count: int) -> None:
        async with self.uow.begin(A) as tx:
            await tx.slots.resize(Lane.AGENT, count)

    async def upload(self, name: str = "cat", scope: Scope = A) -> Meme:
        return (await upload(self.deployment, scope, "a.png", content(name), ReverseImagePolicy.FORBID)).meme

    async def reconcile(self, scope: Scope = A) -> int:
        return await reconcile_due(self.deployment, self.dispatch, scope, OWNER, 50)

    async def claim(self, task_type: TaskType, limit: int = 10, scope: Scope = A) -> Sequence[Execution]:
        return await claim_tasks(self.deployment, scope, task_type, limit, OWNER)

    async def finish(self, executions: Sequence[Execution], scope: Scope = A) -> Sequence[Settled | Fenced]:
        """Start, perform and settle what was claimed."""
        ready = await start(self.deployment, scope, executions)
        items = [await self._performed(e) for e in ready.running]
        items += [_settling(e, e.outcome) for e in ready.decided if e.outcome is not None]
        return await settle(self.deployment, scope, items) if items else []

    async def run(self, task_type: TaskType, scope: Scope = A) -> None:
        await self.finish(await self.claim(task_type, scope=scope), scope)

    async def work_off(self, scope: Scope = A) -> None:
        for _ in range(10):
            await self.reconcile(scope)
            for task_type in sorted(IMAGE_TASK_TYPES):
                await self.run(task_type, scope)

    async def until_agent(self, scope: Scope = A) -> None:
        """Bring every picture to its queued agent task."""
        await self.reconcile(scope)
        await self.run(TaskType.VISUAL, scope)
        await self.reconcile(scope)

    def view(self, scope: Scope = A) -> View:
        return memory_view(self.store, scope, self.clock.now())

    def newest(self, scope: Scope = A) -> Job:
        return max(self.view(scope).jobs, key=lambda job: job.revision)

    def lane(self, task_type: TaskType, perform: Perform, look_again: float = 1_000.0) -> tuple[LaneRunner, Settler]:
        """A real lane with a real settler; the heartbeat has no thread here."""
        heartbeat = HeartbeatThread(self.heartbeat, timedelta(minutes=1), lambda _: None)

        def done(claims: Collection[Claim]) -> None:
            lane.settled(claims)

        settler = Settler(self.deployment, done, 0.01)
        lane = LaneRunner(
            task_type,
            deployment=self.deployment,
            dispatch=self.dispatch,
            owner=OWNER,
            perform=perform,
            heartbeat=heartbeat,
            settler=settler,
            look_again=look_again,
        )
        return lane, settler

    async def _performed(self, execution: Execution) -> Settling:
        return _settling(execution, await perform(self.deployment, execution))


def _settling(execution: Execution, outcome: Outcome) -> Settling:
    return Settling(execution.claim, execution.attempt.attempt_id if execution.attempt else None, outcome)
