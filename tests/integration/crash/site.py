"""What the process that dies and those that recover have in common: the same database, models and policy."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from attrs import frozen
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.policy.allow_all import AllowAllPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.crash import RememberedAgent
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.ledger import FileLedger
from imgproc_adapters.testing.models import ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.seed import NO_TIME
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.attempt import Replay
from imgproc_domain.policy import Operation
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.ports.unit_of_work import UnitOfWork
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.points import Point

SCOPE = Scope("crash")
LEASE = timedelta(seconds=30)
"""So long that no machine is too slow for it: a test lets the time pass (see `Scene.elapse`)."""
DEADLINE = timedelta(minutes=5)
"""Of every call; so long for the same reason."""
UNITS = 10


class Policy(StrEnum):
    ALLOW_ALL = "allow_all"
    QUOTA = "quota"


@frozen
class Site:
    """Where everything is. ``folder`` holds the ledger, the bytes and what a dying process says."""

    database: str
    pooled: bool
    folder: Path
    replay: Replay = Replay.SAFE
    policy: Policy = Policy.QUOTA
    lease: timedelta = LEASE

    @property
    def ledger(self) -> FileLedger:
        return FileLedger(self.folder / "ledger")

    @property
    def told(self) -> Path:
        return self.folder / "told"

    def engine(self) -> AsyncEngine:
        return open_engine(self.database, pool_size=1, pooler=self.pooled)

    def deployment(self, engine: AsyncEngine, uow: UnitOfWork, passed: Callable[[Point], None]) -> Deployment:
        return Deployment(
            uow=uow,
            blobs=LocalBlobStore(self.folder / "blobs"),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(ledger=self.ledger, hard_deadline=DEADLINE),
            agent=RememberedAgent(replay=self.replay, ledger=self.ledger, hard_deadline=DEADLINE),
            text=ScriptedTextModel(ledger=self.ledger, hard_deadline=DEADLINE),
            policy=self.policy_of(engine),
            ids=SystemIds(),
            observer=RecordingObserver(),
            limits=Limits(lease=self.lease, job_lease=self.lease, look_again=NO_TIME, retry=RetryPolicy(base=NO_TIME)),
            passed=passed,
        )

    def policy_of(self, engine: AsyncEngine) -> OperationPolicy:
        match self.policy:
            case Policy.ALLOW_ALL:
                return AllowAllPolicy()
            case Policy.QUOTA:
                return QuotaPolicy(engine, dict.fromkeys(Operation, Quota(UNITS, Period.MONTH)))

    def worker(self, deployment: Deployment, engine: AsyncEngine) -> ImageProcessingWorker:
        return ImageProcessingWorker(
            deployment,
            PostgresDispatch(engine),
            PostgresHeartbeat(self.database, pooler=self.pooled),
            PostgresListener(None if self.pooled else self.database),
            Pace(poll=0.25, sweep=0.1),
        )
