"""The PostgreSQL adapter keeps every promise of the ports."""

from collections.abc import Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.contracts import (
    AttemptStoreContract,
    BellContract,
    ClaimStoreContract,
    ContextStoreContract,
    DispatchContract,
    GenerationStoreContract,
    GrantStoreContract,
    HeartbeatContract,
    JobClaimStoreContract,
    JobStoreContract,
    MemeStoreContract,
    ProductStoreContract,
    ReleaseOutboxContract,
    SearchStoreContract,
    SlotStoreContract,
    TaskStoreContract,
    UnitOfWorkContract,
)
from imgproc_adapters.testing.world import World


@pytest.fixture
def world(database: str, engine: AsyncEngine, uow: PostgresUnitOfWork) -> Iterator[World]:
    heartbeat = PostgresHeartbeat(database)
    yield World(
        uow=uow,
        dispatch=PostgresDispatch(engine),
        heartbeat=heartbeat,
        listener=lambda: PostgresListener(database),
    )
    heartbeat.close()


class TestAttempts(AttemptStoreContract): ...


class TestBell(BellContract): ...


class TestClaims(ClaimStoreContract): ...


class TestContexts(ContextStoreContract): ...


class TestDispatch(DispatchContract): ...


class TestGenerations(GenerationStoreContract): ...


class TestGrants(GrantStoreContract): ...


class TestHeartbeat(HeartbeatContract): ...


class TestJobClaims(JobClaimStoreContract): ...


class TestJobs(JobStoreContract): ...


class TestMemes(MemeStoreContract): ...


class TestProducts(ProductStoreContract): ...


class TestReleases(ReleaseOutboxContract): ...


class TestSearch(SearchStoreContract): ...


class TestSlots(SlotStoreContract): ...


class TestTasks(TaskStoreContract): ...


class TestUnitOfWork(UnitOfWorkContract): ...
