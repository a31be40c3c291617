"""Processes of different deployments over one database, driven step by step."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Final

from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.ledger import MemoryLedger
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import MINUTE, NO_TIME, OWNER, A
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.job import Job
from imgproc_domain.outcome import Outcome
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, ReverseImagePolicy, TaskType
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.configuration import keep, take_over
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

LAST_STAGE_FIRST: Final = (TaskType.TEXT, TaskType.CONTEXT, TaskType.VISUAL)


class Process:
    """One process in scope `A`. Those that share ``ledger`` and ``policy`` are watched together."""

    def __init__(
        self,
        world: World,
        *,
        agent: ScriptedAgent,
        text: str,
        ledger: MemoryLedger,
        policy: RememberingPolicy,
        lease: timedelta = MINUTE,
    ) -> None:
        self.world = world
        self.deployment = Deployment(
            uow=world.uow,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(ledger=ledger),
            agent=agent,
            text=ScriptedTextModel(VectorSpace(text, 64), ledger=ledger),
            policy=policy,
            ids=SystemIds(),
            observer=RecordingObserver(),
            limits=Limits(configuration_lease=lease, look_again=NO_TIME, retry=RetryPolicy(base=NO_TIME)),
        )

    @property
    def fingerprint(self) -> str:
        return self.deployment.config.fingerprint

    async def slots(self, count: int) -> None:
        async with self.world.uow.begin(A) as tx:
            await tx.slots.resize(Lane.AGENT, count)

    async def take_over(self) -> None:
        await take_over(self.deployment, A)

    async def keep(self) -> bool:
        return await keep(self.deployment, A)

    async def upload(self, name: str = "cat") -> MemeId:
        uploaded = await upload(self.deployment, A, "a.png", _bytes(name), ReverseImagePolicy.FORBID)
        return uploaded.meme.meme_id

    async def reconcile(self) -> int:
        return await reconcile_due(self.deployment, self.world.dispatch, A, OWNER, 50)

    async def claim(self, task_type: TaskType) -> Sequence[Execution]:
        return await claim_tasks(self.deployment, A, task_type, 10, OWNER)

    async def called(self, executions: Sequence[Execution]) -> list[Settling]:
        """Start and perform what was claimed; what comes of it is not written back."""
        ready = await start(self.deployment, A, executions)
        ended = [(e, await perform(self.deployment, e)) for e in ready.running]
        decided = [(e, e.outcome) for e in ready.decided if e.outcome is not None]
        return [_settling(execution, outcome) for execution, outcome in (*ended, *decided)]

    async def settle(self, items: Sequence[Settling]) -> None:
        if items:
            await settle(self.deployment, A, items)

    async def run(self, task_type: TaskType) -> None:
        await self.settle(await self.called(await self.claim(task_type)))

    async def turn(self) -> None:
        """Do what a worker does once, so that a picture comes a stage further at most."""
        await self.keep()
        await self.reconcile()
        for task_type in LAST_STAGE_FIRST:
            await self.run(task_type)

    async def bring_to(self, task_type: TaskType) -> None:
        """Bring every picture to its queued task of this type."""
        for earlier in reversed(LAST_STAGE_FIRST[LAST_STAGE_FIRST.index(task_type) + 1 :]):
            await self.reconcile()
            await self.run(earlier)
        await self.reconcile()

    async def lose(self, executions: Sequence[Execution]) -> None:
        """Let the workers that hold these claims be lost, and recover what they held."""
        self.world.heartbeat.renew([execution.claim for execution in executions], NO_TIME)
        await expire_leases(self.deployment, A, IMAGE_TASK_TYPES, 10)

    async def revisions(self) -> list[Job]:
        """Return the jobs of the one picture, oldest first."""
        async with self.world.uow.begin(A) as tx:
            return sorted((await tx.jobs.page(None, 1_000)).jobs, key=lambda job: job.revision)


async def _bytes(name: str) -> AsyncIterator[bytes]:
    yield name.encode()


def _settling(execution: Execution, outcome: Outcome) -> Settling:
    return Settling(execution.claim, execution.attempt.attempt_id if execution.attempt else None, outcome)
