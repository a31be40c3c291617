"""A scope with a few tasks is not starved by one with thousands, whoever came first."""

from contextlib import AsyncExitStack

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.backlog import backlog_deployment, queue_tasks
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.seed import A, B
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.events import TaskSettled
from imgproc_domain.scope import Scope
from imgproc_domain.stage import LANE_OF, TASK_TYPE_OF, Lane, Stage
from imgproc_domain.task import TaskStatus

MANY = 2_000
FEW = 10
PLACES = {Lane.VISUAL: 4, Lane.AGENT: 2, Lane.TEXT: 4, Lane.MAINTENANCE: 1}
PATIENCE = 120.0


@pytest.mark.parametrize("stage", [Stage.VISUAL, Stage.AGENT])
@pytest.mark.parametrize("small", [B, Scope("a-scope-before-it")])
async def test_a_few_tasks_wait_for_few_of_the_many(
    database: str, direct: str, pooled: bool, engine: AsyncEngine, stage: Stage, small: Scope
) -> None:
    observer = RecordingObserver()
    deployment = backlog_deployment(PostgresUnitOfWork(engine), PLACES, observer)
    with psycopg.connect(direct) as connection:
        queue_tasks(connection, A, stage, MANY, deployment.config)
        queue_tasks(connection, small, stage, FEW, deployment.config)
    async with deployment.uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, PLACES[Lane.AGENT])
    heartbeat, listener = PostgresHeartbeat(database, pooler=pooled), PostgresListener(direct)
    worker = ImageProcessingWorker(deployment, PostgresDispatch(engine), heartbeat, listener, Pace())
    task_type = TASK_TYPE_OF[stage]

    def settled() -> list[TaskSettled]:
        """The tasks of this lane, in the order in which they ended."""
        return [event for event in observer.of(TaskSettled) if event.task_type is task_type]

    async with AsyncExitStack() as stack:
        await worker.start()
        stack.push_async_callback(worker.stop)
        await observer.until(lambda: sum(event.scope == small for event in settled()) >= FEW, PATIENCE)
    assert {event.status for event in settled()} == {TaskStatus.SUCCEEDED}
    *_, last = [number for number, event in enumerate(settled()) if event.scope == small]
    before = settled()[: last + 1]
    assert sum(event.scope == small for event in before) == FEW
    # of an odd number of places that are free at once the small scope gets one less, so two for one at the worst
    assert sum(event.scope == A for event in before) <= 2 * (FEW + PLACES[LANE_OF[task_type]])
