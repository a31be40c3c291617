"""The PostgreSQL adapter keeps every promise of the ports."""

from collections.abc import Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres import changes, stages
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.contracts import (
    AttemptStoreContract,
    BellContract,
    ClaimStoreContract,
    ConfigurationStoreContract,
    ContextStoreContract,
    DispatchContract,
    EvidenceStoreContract,
    GenerationStoreContract,
    GrantStoreContract,
    HandoverContract,
    HeartbeatContract,
    JobClaimStoreContract,
    JobStoreContract,
    MemeStoreContract,
    MigrationStoreContract,
    ProductStoreContract,
    ReleaseOutboxContract,
    RetentionStoreContract,
    ScopeContract,
    SearchStoreContract,
    SimilarStoreContract,
    SlotStoreContract,
    SuccessionContract,
    TaskStoreContract,
    UndecidedContract,
    UnitOfWorkContract,
)
from imgproc_adapters.testing.world import World


@pytest.fixture
def world(database: str, direct: str, pooled: bool, engine: AsyncEngine, uow: PostgresUnitOfWork) -> Iterator[World]:
    heartbeat = PostgresHeartbeat(database, pooler=pooled)
    yield World(
        uow=uow,
        dispatch=PostgresDispatch(engine),
        heartbeat=heartbeat,
        listener=lambda: PostgresListener(direct),
    )
    heartbeat.close()


class TestAttempts(AttemptStoreContract): ...


class TestBell(BellContract): ...


class TestClaims(ClaimStoreContract): ...


class TestConfiguration(ConfigurationStoreContract): ...


class TestContexts(ContextStoreContract): ...


class TestDispatch(DispatchContract): ...


class TestEvidence(EvidenceStoreContract): ...


class TestGenerations(GenerationStoreContract): ...


class TestGrants(GrantStoreContract): ...


class TestHandover(HandoverContract): ...


class TestHeartbeat(HeartbeatContract): ...


class TestJobClaims(JobClaimStoreContract): ...


class TestJobs(JobStoreContract): ...


class TestMemes(MemeStoreContract): ...


class TestMigration(MigrationStoreContract): ...


class TestProducts(ProductStoreContract): ...


class TestReleases(ReleaseOutboxContract): ...


class TestRetention(RetentionStoreContract): ...


class TestScopes(ScopeContract): ...


class TestSearch(SearchStoreContract): ...


class TestSimilar(SimilarStoreContract): ...


class TestSlots(SlotStoreContract): ...


class TestSuccession(SuccessionContract): ...


class TestTasks(TaskStoreContract): ...


class TestUndecided(UndecidedContract): ...


class TestUnitOfWork(UnitOfWorkContract): ...


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write rows as where each of them changes in its own way."""
    monkeypatch.setattr(changes, "_MOST", 0)
    monkeypatch.setattr(stages, "_MOST", 0)


@pytest.mark.usefixtures("apart")
class TestAttemptsApart(AttemptStoreContract): ...


@pytest.mark.usefixtures("apart")
class TestClaimsApart(ClaimStoreContract): ...


@pytest.mark.usefixtures("apart")
class TestGrantsApart(GrantStoreContract): ...


@pytest.mark.usefixtures("apart")
class TestJobsApart(JobStoreContract): ...


@pytest.mark.usefixtures("apart")
class TestScopesApart(ScopeContract): ...


@pytest.mark.usefixtures("apart")
class TestUnitOfWorkApart(UnitOfWorkContract): ...
