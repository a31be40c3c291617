"""The memory adapter keeps every promise of the ports."""

import pytest

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
from imgproc_adapters.testing.world import World, memory_world


@pytest.fixture
def world() -> World:
    return memory_world()


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
