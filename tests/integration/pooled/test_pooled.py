"""The tests that a pooler could break first, through one; `make test-pooler` does all of them."""

import asyncio

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.integration.app.test_hosting import test_a_host_mounts_the_router_and_each_tenant_finds_its_own
from tests.integration.contracts.test_postgres import TestHeartbeat, TestUnitOfWork, world
from tests.integration.postgres.test_engine import test_a_connection_lost_at_commit_leaves_the_outcome_unknown
from tests.integration.postgres.test_migrations import (
    test_processes_that_start_at_once_do_not_collide,
    test_up_down_and_up_again,
)
from tests.integration.postgres.test_races import (
    job,
    queued,
    test_a_settling_that_waited_for_the_expiry_is_fenced,
    test_of_two_that_start_one_attempt_one_may_call,
)

from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.session import statement
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.scope import Scope

__all__ = [
    "TestHeartbeat",
    "TestUnitOfWork",
    "job",
    "queued",
    "test_a_connection_lost_at_commit_leaves_the_outcome_unknown",
    "test_a_host_mounts_the_router_and_each_tenant_finds_its_own",
    "test_a_settling_that_waited_for_the_expiry_is_fenced",
    "test_of_two_that_start_one_attempt_one_may_call",
    "test_processes_that_start_at_once_do_not_collide",
    "test_up_down_and_up_again",
    "world",
]

A = Scope("pooled-a")
CLIENTS = 30


async def test_many_clients_share_a_few_connections_of_the_server(database: str, direct: str) -> None:
    """What the other tests rely on: that they do go through a pooler in transaction mode."""
    engine = open_engine(database, pool_size=CLIENTS, pooler=True)
    uow = PostgresUnitOfWork(engine)

    async def look() -> None:
        async with uow.begin(A) as tx:
            await tx.now()

    await asyncio.gather(*(look() for _ in range(CLIENTS)))
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(direct) as connection:
        (backends,) = connection.execute(query).fetchone() or (0,)
    assert engine.pool.status().startswith(f"Pool size: {CLIENTS}")
    assert 0 < backends < CLIENTS / 2
    await engine.dispose()


async def test_the_time_outs_of_the_role_or_the_database_hold(database: str, direct: str) -> None:
    name = conninfo_to_dict(direct)["dbname"]
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET statement_timeout = '100ms'".encode())
    engine = open_engine(database, pooler=True)
    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        async with PostgresUnitOfWork(engine).begin(A) as tx:
            await tx._session.rows(statement("SELECT pg_sleep(60)"))  # type: ignore[attr-defined] # a test may look inside
    await engine.dispose()
