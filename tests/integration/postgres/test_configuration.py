"""What is stored of the configuration in force, where the port cannot show it."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from attrs import asdict
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.ledger import MemoryLedger, started
from imgproc_adapters.testing.models import AGENT, ScriptedAgent
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.processes import Process
from imgproc_adapters.testing.seed import MINUTE, A
from imgproc_adapters.testing.world import World
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.errors import ConfigurationUnreadable
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import Stage, TaskType

CONFIG = ProcessingConfig(VectorSpace("visual", 8), "agent", VectorSpace("text", 16))
WITHOUT_A_PART = {name: value for name, value in asdict(CONFIG).items() if name != "agent_fingerprint"}
OF_ANOTHER_FINGERPRINT = {**asdict(CONFIG), "context_schema": "context-0"}


@pytest.fixture
def world(database: str, pooled: bool, engine: AsyncEngine, uow: PostgresUnitOfWork) -> Iterator[World]:
    heartbeat = PostgresHeartbeat(database, pooler=pooled)
    yield World(uow, PostgresDispatch(engine), heartbeat, lambda: PostgresListener(database))
    heartbeat.close()


async def _store(database: str, configuration: str) -> None:
    """Let another version announce its configuration."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("UPDATE processing_configuration SET configuration = %s", [configuration])


@pytest.mark.parametrize("stored", [json.dumps(WITHOUT_A_PART), json.dumps(OF_ANOTHER_FINGERPRINT), "null", ""])
async def test_one_that_another_version_announced_is_not_guessed_at(
    database: str, uow: PostgresUnitOfWork, stored: str
) -> None:
    async with uow.begin(A) as tx:
        await tx.configuration.take_over(CONFIG, MINUTE)
    await _store(database, stored)
    with pytest.raises(ConfigurationUnreadable):
        async with uow.begin(A) as tx:
            await tx.configuration.current()
    async with uow.begin(A) as tx:
        assert await tx.configuration.keep(CONFIG, MINUTE)
    async with uow.begin(A) as tx:
        assert await tx.configuration.current() == CONFIG


async def test_a_call_that_was_paid_for_is_settled_also_when_another_version_took_over(
    database: str, world: World
) -> None:
    ledger = MemoryLedger()
    process = Process(world, agent=ScriptedAgent(ledger=ledger), text="text", ledger=ledger, policy=RememberingPolicy())
    await process.slots(1)
    await process.take_over()
    await process.upload()
    await process.bring_to(TaskType.CONTEXT)
    ended = await process.called(await process.claim(TaskType.CONTEXT))
    await _store(database, json.dumps(WITHOUT_A_PART))
    await process.settle(ended)
    (job,) = await process.revisions()
    assert job.stage(Stage.AGENT).status is JobStatus.SUCCEEDED
    assert job.due_at is not None
    await process.take_over()
    await process.turn()
    await process.turn()
    (job,) = await process.revisions()
    assert job.status is JobStatus.SUCCEEDED
    assert len(started(ledger, AGENT)) == 1
