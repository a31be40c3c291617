"""What is stored of the configuration in force, where the port cannot show it."""

import json

import psycopg
import pytest
from attrs import asdict

from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.seed import MINUTE, A
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.errors import DatabaseUnavailable

CONFIG = ProcessingConfig(VectorSpace("visual", 8), "agent", VectorSpace("text", 16))
WITHOUT_A_PART = {name: value for name, value in asdict(CONFIG).items() if name != "agent_fingerprint"}
OF_ANOTHER_FINGERPRINT = {**asdict(CONFIG), "context_schema": "context-0"}


@pytest.mark.parametrize("stored", [json.dumps(WITHOUT_A_PART), json.dumps(OF_ANOTHER_FINGERPRINT), "null", ""])
async def test_one_that_another_version_announced_is_not_guessed_at(
    database: str, uow: PostgresUnitOfWork, stored: str
) -> None:
    async with uow.begin(A) as tx:
        await tx.configuration.take_over(CONFIG, MINUTE)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("UPDATE processing_configuration SET configuration = %s", [stored])
    with pytest.raises(DatabaseUnavailable):
        async with uow.begin(A) as tx:
            await tx.configuration.current()
    async with uow.begin(A) as tx:
        assert await tx.configuration.keep(CONFIG, MINUTE)
    async with uow.begin(A) as tx:
        assert await tx.configuration.current() == CONFIG
