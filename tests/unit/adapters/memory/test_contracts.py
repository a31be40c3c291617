"""The memory adapter keeps every promise of the ports."""

import pytest

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
from imgproc_adapters.testing.world import World, memory_world


@pytest.fixture
def world() -> World:
    return memory_world()


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
