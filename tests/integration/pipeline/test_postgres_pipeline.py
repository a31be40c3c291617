"""The pipeline machine over PostgreSQL: the same rules and invariants as over memory."""

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from psycopg import AsyncConnection

from imgproc_adapters.postgres import rows
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.invariants import check
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.session import Row
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.pipeline import PipelineMachine, Site
from imgproc_adapters.testing.pipeline_agent import AgentPipelineMachine
from imgproc_adapters.testing.pipeline_handover import HandoverPipelineMachine
from imgproc_adapters.testing.view import View
from imgproc_adapters.testing.world import World
from imgproc_domain.attempt import Replay
from imgproc_domain.ids import AttemptId, MemeId, Sha256
from imgproc_domain.lane import Slot
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane
from imgproc_domain.vector import Vector

NUMBERS = count(1)
ELAPSE = (
    "UPDATE tasks SET available_at = available_at - %(time)s, lease_expires_at = lease_expires_at - %(time)s",
    "UPDATE image_processing_jobs SET due_at = due_at - %(time)s, lease_expires_at = lease_expires_at - %(time)s",
    "UPDATE task_attempts SET hard_deadline_at = hard_deadline_at - %(time)s",
    "UPDATE lane_slots SET free_at = free_at - %(time)s",
)


class PostgresPipeline(PipelineMachine):
    dsn: str
    direct: str
    pooled: bool

    async def open_site(self) -> Site:
        scope = Scope(f"machine-{next(NUMBERS)}")
        engine = open_engine(self.dsn, pool_size=3, pooler=self.pooled)
        heartbeat = PostgresHeartbeat(self.dsn, pooler=self.pooled)
        reader = await AsyncConnection.connect(self.direct, autocommit=True)
        await reader.execute("DELETE FROM lane_slots")

        async def elapse(time: timedelta) -> None:
            for statement in ELAPSE:
                await reader.execute(statement.encode(), {"time": time})

        async def close() -> None:
            await reader.close()
            heartbeat.close()
            await engine.dispose()

        async def view() -> View:
            return await read_view(reader, scope)

        world = World(
            uow=PostgresUnitOfWork(engine),
            dispatch=PostgresDispatch(engine),
            heartbeat=heartbeat,
            listener=lambda: PostgresListener(self.direct),
        )
        return Site(world, scope, view, elapse, close)

    async def _work_off(self) -> None:
        await super()._work_off()
        report = await check(self.direct, [self.site.scope], quiescent=True)
        assert not report.broken, report.lines()


async def read_view(reader: AsyncConnection[Row], scope: Scope) -> View:
    """Read every row of a scope in one snapshot."""
    async with reader.transaction():
        await reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

        async def select(columns: str, table: str) -> list[Row]:
            found = await reader.execute(f"SELECT {columns} FROM {table} WHERE scope_id = %s".encode(), [scope])
            return await found.fetchall()

        stages = [(row[0], rows.stage_of(row)) for row in await select(rows.STAGE, "image_processing_stages s")]
        by_job = {job_id: {s.stage: s for owner, s in stages if owner == job_id} for job_id, _ in stages}
        now = (await (await reader.execute("SELECT statement_timestamp()")).fetchall())[0][0]
        slots = await (
            await reader.execute("SELECT lane, number, scope_id, task_id, generation, free_at FROM lane_slots")
        ).fetchall()
        return View(
            scope=scope,
            now=now,
            memes=[rows.meme_of(scope, row) for row in await select(rows.MEME, "memes m")],
            contexts=[rows.context_of(scope, row) for row in await select(rows.CONTEXT, "meme_contexts c")],
            jobs=[
                rows.job_of(scope, row, rows.in_order(by_job[row[0]]))
                for row in await select(rows.JOB, "image_processing_jobs j")
            ],
            tasks=[rows.task_of(scope, row) for row in await select(rows.TASK, "tasks t")],
            attempts=[rows.attempt_of(scope, row) for row in await select(rows.ATTEMPT, "task_attempts a")],
            grants=[rows.grant_of(scope, row) for row in await select(rows.GRANT, "operation_grants g")],
            slots=[Slot(Lane(row[0]), *row[1:]) for row in slots],
            visual=[visual_of(row) for row in await select(VISUAL, "visual_embeddings")],
            text=[text_of(row) for row in await select(TEXT, "text_embeddings")],
            findable=[text_of(row) for row in await select(FINDABLE, "search_vectors")],
            attested=[
                AttemptId(attempt_id)
                for attempt_id, dead, over in await select(RESOLUTION, "execution_resolutions")
                if dead and over
            ],
        )


VISUAL = "meme_id, image_sha256, space_id"
TEXT = "meme_id, image_sha256, metadata_hash, embedding_model_version"
FINDABLE = "meme_id, image_sha256, metadata_hash, space_id"
RESOLUTION = "attempt_id, owner_dead, call_over"
ANY_VECTOR = Vector.unit([1.0])


def visual_of(row: Row) -> VisualProduct:
    return VisualProduct(MemeId(row[0]), Sha256(row[1]), row[2], ANY_VECTOR)


def text_of(row: Row) -> TextProduct:
    return TextProduct(MemeId(row[0]), Sha256(row[1]), Sha256(row[2]), row[3], ANY_VECTOR)


class PostgresAgentPipeline(AgentPipelineMachine, PostgresPipeline):
    pass


class PostgresHandoverPipeline(HandoverPipelineMachine, PostgresPipeline):
    pass


class PostgresLookUpPipeline(PostgresAgentPipeline):
    replay = Replay.LOOKUP


@pytest.mark.parametrize(
    "machine", [PostgresPipeline, PostgresAgentPipeline, PostgresLookUpPipeline, PostgresHandoverPipeline]
)
def test_the_invariants_hold_in_any_order_of_events(
    machine: type[PostgresPipeline], database: str, direct: str, pooled: bool
) -> None:
    run_state_machine_as_test(
        type("Machine", (machine,), {"dsn": database, "direct": direct, "pooled": pooled}),
        settings=settings(
            max_examples=12, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
