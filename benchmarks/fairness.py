"""Ten tasks of one scope beside 100,000 of another, over the same lane: how long the ten wait, and for how many."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import psycopg
from attrs import asdict, frozen
from rich.table import Table

from benchmarks.plan import Plan
from benchmarks.server import Database, fresh_database
from benchmarks.stats import percentiles_ms
from benchmarks.steps import Measured, Steps
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.backlog import backlog_deployment, queue_tasks
from imgproc_app import event_loop
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.events import Event, TaskSettled
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TASK_TYPE_OF, Lane, Stage, TaskType
from imgproc_domain.usecases.deployment import Deployment

MANY = Scope("many")
FEW = Scope("few")
TASKS = 10
PLACES = {Lane.VISUAL: 4, Lane.AGENT: 2, Lane.TEXT: 4, Lane.MAINTENANCE: 1}
LANES = {Lane.VISUAL: Stage.VISUAL, Lane.AGENT: Stage.AGENT}


@frozen
class FairnessResult:
    """Of one lane. ``others_settled`` counts the big scope's tasks that ended while the ten were queued or running.

    Pick-up is from when a task is available until it is claimed, by the database's clock, other ones of the ten
    included; ``alone`` without the other scope. Percentiles are over all tasks of all rounds.
    """

    backlog: int
    tasks: int
    rounds: int
    places: int
    others_settled_p50: float
    others_settled_max: int
    alone_p50_ms: float
    alone_p99_ms: float
    beside_p50_ms: float
    beside_p99_ms: float
    ratio_p50: float
    ratio_p99: float


class Settled:
    """Counts what a lane settles, scope by scope, and wakes who waits for it."""

    def __init__(self, task_type: TaskType) -> None:
        self._task_type = task_type
        self.counts = dict.fromkeys((MANY, FEW), 0)
        self._noted = asyncio.Event()

    def note(self, event: Event) -> None:
        if isinstance(event, TaskSettled) and event.task_type is self._task_type:
            self.counts[event.scope] += 1
            self._noted.set()

    async def few(self, count: int) -> int:
        """Return how many the big scope has had when the small one has had ``count``."""
        while self.counts[FEW] < count:
            self._noted.clear()
            await self._noted.wait()
        return self.counts[MANY]


async def run(database: Database, lane: Lane, backlog: int, rounds: int) -> FairnessResult:
    """Measure one lane of an empty database: first the small scope alone, then beside ``backlog`` queued tasks."""
    engine = open_engine(database.dsn, pool_size=8)
    settled = Settled(TASK_TYPE_OF[LANES[lane]])
    deployment = backlog_deployment(PostgresUnitOfWork(engine), PLACES, settled)
    async with deployment.uow.begin(MANY) as tx:
        await tx.slots.resize(Lane.AGENT, PLACES[Lane.AGENT])
    worker = ImageProcessingWorker(
        deployment, PostgresDispatch(engine), PostgresHeartbeat(database.dsn), PostgresListener(database.dsn), Pace()
    )
    try:
        async with _working(worker):
            await _rounds(database, deployment, settled, LANES[lane], rounds)
            alone = await asyncio.to_thread(_pick_ups, database, LANES[lane], rounds)
            await asyncio.to_thread(_queue, database, deployment, MANY, LANES[lane], backlog)
            others = await _rounds(database, deployment, settled, LANES[lane], rounds)
        beside = await asyncio.to_thread(_pick_ups, database, LANES[lane], rounds)
    finally:
        await engine.dispose()
    return _result(backlog, rounds, PLACES[lane], others, alone, beside)


@asynccontextmanager
async def _working(worker: ImageProcessingWorker) -> AsyncIterator[None]:
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


async def _rounds(
    database: Database, deployment: Deployment, settled: Settled, stage: Stage, rounds: int
) -> Sequence[int]:
    """Queue ten tasks of the small scope so many times; returns how many of the other one ended meanwhile."""
    others = []
    for _ in range(rounds):
        wanted, before = settled.counts[FEW] + TASKS, settled.counts[MANY]
        await asyncio.to_thread(_queue, database, deployment, FEW, stage, TASKS)
        others.append(await settled.few(wanted) - before)
    return others


def _queue(database: Database, deployment: Deployment, scope: Scope, stage: Stage, count: int) -> None:
    with psycopg.connect(database.dsn) as connection:
        queue_tasks(connection, scope, stage, count, deployment.config)


def _pick_ups(database: Database, stage: Stage, rounds: int) -> list[float]:
    """Return the seconds that the tasks of the last rounds waited."""
    query = (
        "SELECT extract(epoch FROM started_at - available_at)::float FROM tasks"
        " WHERE scope_id = %s AND task_type = %s ORDER BY created_at DESC LIMIT %s"
    )
    with psycopg.connect(database.dsn) as connection:
        found = connection.execute(query, [FEW, TASK_TYPE_OF[stage], rounds * TASKS]).fetchall()
    return [seconds for (seconds,) in found]


def _result(
    backlog: int, rounds: int, places: int, others: Sequence[int], alone: Sequence[float], beside: Sequence[float]
) -> FairnessResult:
    alone_p50, alone_p99 = percentiles_ms(alone)
    beside_p50, beside_p99 = percentiles_ms(beside)
    return FairnessResult(
        backlog=backlog,
        tasks=TASKS,
        rounds=rounds,
        places=places,
        others_settled_p50=statistics.median(others),
        others_settled_max=max(others),
        alone_p50_ms=alone_p50,
        alone_p99_ms=alone_p99,
        beside_p50_ms=beside_p50,
        beside_p99_ms=beside_p99,
        ratio_p50=beside_p50 / alone_p50,
        ratio_p99=beside_p99 / alone_p99,
    )


def measure(server: EmbeddedPostgres, plan: Plan) -> Measured:
    """Measure one lane after the other."""
    steps = Steps("fairness")
    values: dict[str, object] = {}
    for lane in LANES:
        with (
            steps.step(f"the {lane} lane beside {plan.backlog:,} queued tasks"),
            fresh_database(server, f"fairness_{lane}") as database,
        ):
            values[lane.value] = asdict(event_loop.run(run(database, lane, plan.backlog, plan.fairness_rounds)))
    return Measured(values, {}, steps.errors)


def table(results: Mapping[str, FairnessResult]) -> Table:
    """Return one line a lane."""
    made = Table(title=f"{TASKS} tasks of one scope beside a backlog of another, instant stages, one process")
    for heading in ("lane", "places", "backlog", "others settled meanwhile", "pick-up p50 / p99, ms", "alone"):
        made.add_column(heading, justify="left" if heading == "lane" else "right")
    made.add_column("ratio p50 / p99", justify="right")
    for lane, result in results.items():
        made.add_row(
            lane,
            str(result.places),
            f"{result.backlog:,}",
            f"{result.others_settled_p50:.0f} (at most {result.others_settled_max})",
            f"{result.beside_p50_ms:.1f} / {result.beside_p99_ms:.1f}",
            f"{result.alone_p50_ms:.1f} / {result.alone_p99_ms:.1f}",
            f"{result.ratio_p50:.1f} / {result.ratio_p99:.1f}",
        )
    return made
