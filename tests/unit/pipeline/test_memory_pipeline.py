"""The pipeline machine over the in-memory adapter."""

from hypothesis import HealthCheck, settings

from imgproc_adapters.memory import (
    ManualClock,
    MemoryDispatch,
    MemoryHeartbeat,
    MemoryListener,
    MemoryStore,
    MemoryUnitOfWork,
)
from imgproc_adapters.testing.pipeline import PipelineMachine, Site
from imgproc_adapters.testing.view import View, memory_view
from imgproc_adapters.testing.world import World
from imgproc_domain.scope import Scope

SCOPE = Scope("machine")


class MemoryPipeline(PipelineMachine):
    async def open_site(self) -> Site:
        store, clock = MemoryStore(), ManualClock()

        async def view() -> View:
            return memory_view(store, SCOPE, clock.now())

        async def close() -> None:
            return None

        world = World(
            uow=MemoryUnitOfWork(store, clock),
            dispatch=MemoryDispatch(store, clock),
            heartbeat=MemoryHeartbeat(store, clock),
            listener=lambda: MemoryListener(store),
        )
        return Site(world, SCOPE, view, close)


TestMemoryPipeline = MemoryPipeline.TestCase
TestMemoryPipeline.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
