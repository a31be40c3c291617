"""One worker process: the real `ImageProcessingWorker`, over a real pool, with models that follow the dice."""

import asyncio
import json
import logging
import os
import random
import signal
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen
from sqlalchemy.ext.asyncio import AsyncEngine

from chaos.models import ChaosAgent, ChaosTextModel, ChaosVisualModel, Dice
from chaos.plan import BOUNDS, LIMITS, QUOTA, WATCHED
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.ledger import FileLedger
from imgproc_adapters.testing.names import NameBlobs
from imgproc_app import event_loop
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.attempt import Replay
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.events import Event, WriteBackFenced
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.points import Passed, Point

PACE: Final = Pace(poll=0.4, sweep=0.6, grace=2.0, batch=50)

log = logging.getLogger(__name__)


@frozen
class Arm:
    """What the process does to itself when it has passed ``point`` so many times: ``kill`` or ``stop``."""

    act: str
    point: Point
    after: int


@frozen
class Order:
    """Everything a worker is told when it is born; travels as JSON. One that ``hears`` nothing polls."""

    name: str
    folder: Path
    dsn: str
    policy: str
    replay: Replay
    seed: str
    arm: Arm | None = None
    hears: bool = True

    def to_json(self) -> str:
        arm = [self.arm.act, self.arm.point, self.arm.after] if self.arm else None
        fields = [self.name, str(self.folder), self.dsn, self.policy, self.replay, self.seed, arm, self.hears]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, raw: str) -> "Order":
        name, folder, dsn, policy, replay, seed, arm, hears = json.loads(raw)
        armed = Arm(arm[0], Point(arm[1]), arm[2]) if arm else None
        return cls(name, Path(folder), dsn, policy, Replay(replay), seed, armed, hears)


def append(path: Path, fields: dict[str, Any]) -> None:
    """Add a JSON line that is whole also when its writer is killed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, (json.dumps(fields) + "\n").encode())
    finally:
        os.close(file)


@frozen
class FencedObserver:
    """Writes down every rejected write-back."""

    path: Path

    def note(self, event: Event) -> None:
        if isinstance(event, WriteBackFenced):
            append(self.path, {"task": str(event.task_id), "generation": event.generation, "reason": event.reason})


@define(eq=False)
class Fuse:
    """Told of every boundary; at the one it is armed for it kills or stops its own process, unless all is ``calm``."""

    folder: Path
    arm: Arm | None
    _passed: int = field(init=False, default=0)

    def __call__(self, point: Point) -> None:
        if self.arm is None or point is not self.arm.point:
            return
        self._passed += 1
        if self._passed < self.arm.after or (self.folder / "calm").exists():
            return
        act, self.arm = self.arm.act, None
        append(self.folder / "points.jsonl", {"act": act, "point": point})
        os.kill(os.getpid(), signal.SIGKILL if act == "kill" else signal.SIGSTOP)


def policy_of(name: str, engine: AsyncEngine) -> OperationPolicy:
    return QuotaPolicy(engine) if name == QUOTA else AllowAllPolicy()


def deployment_of(order: Order, engine: AsyncEngine, passed: Passed) -> Deployment:
    folder, dice = order.folder, Dice(random.Random(order.seed))
    local = FileLedger(folder / "local.jsonl")
    return Deployment(
        uow=PostgresUnitOfWork(engine),
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=ChaosVisualModel(local, dice),
        agent=ChaosAgent(order.replay, FileLedger(folder / "agent.jsonl"), dice),
        text=ChaosTextModel(local, dice),
        policy=policy_of(order.policy, engine),
        ids=SystemIds(),
        observer=FencedObserver(folder / "fenced.jsonl"),
        limits=LIMITS,
        passed=passed,
    )


async def _work(order: Order) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    engine = open_engine(order.dsn, pool_size=4, pool_timeout=5.0, limits=BOUNDS)
    try:
        worker = ImageProcessingWorker(
            deployment_of(order, engine, Fuse(order.folder, order.arm)),
            PostgresDispatch(engine),
            PostgresHeartbeat(order.dsn),
            PostgresListener(order.dsn if order.hears else None),
            PACE,
            WATCHED,
        )
        if await _started(worker, stopping):
            await stopping.wait()
            await worker.stop()
    finally:
        await engine.dispose()


async def _started(worker: ImageProcessingWorker, stopping: asyncio.Event) -> bool:
    """Start as soon as the database answers; its first answer may be long in coming."""
    while not stopping.is_set():
        try:
            await worker.start()
        except DatabaseUnavailable as error:
            log.warning("not started yet: %s", error.message)
            await asyncio.sleep(PACE.poll)
        else:
            return True
    return False


def run(order: Order) -> None:
    """Work until SIGTERM, or until something worse happens."""
    logging.basicConfig(
        filename=order.folder / f"{order.name}.log",
        format="%(relativeCreated)d %(process)d %(levelname)s %(name)s %(message)s",
        level=logging.INFO,
    )
    event_loop.run(_work(order))
