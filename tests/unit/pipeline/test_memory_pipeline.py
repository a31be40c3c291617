"""The pipeline machine over the in-memory adapter."""

from datetime import timedelta

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
from imgproc_adapters.testing.pipeline_agent import AgentPipelineMachine
from imgproc_adapters.testing.pipeline_handover import HandoverPipelineMachine
from imgproc_adapters.testing.view import View, memory_view
from imgproc_adapters.testing.world import World
from imgproc_domain.attempt import Replay
from imgproc_domain.scope import Scope

SCOPE = Scope("machine")


class MemoryPipeline(PipelineMachine):
    async def open_site(self) -> Site:
        store, clock = MemoryStore(), ManualClock()

        async def view() -> View:
            return memory_view(store, SCOPE, clock.now())

        async def elapse(time: timedelta) -> None:
            clock.advance(time)

        async def close() -> None:
            return None

        world = World(
            uow=MemoryUnitOfWork(store, clock),
            dispatch=MemoryDispatch(store, clock),
            heartbeat=MemoryHeartbeat(store, clock),
            listener=lambda: MemoryListener(store),
        )
        return Site(world, SCOPE, view, elapse, close)


class MemoryAgentPipeline(AgentPipelineMachine, MemoryPipeline):
    pass


class MemoryHandoverPipeline(HandoverPipelineMachine, MemoryPipeline):
    pass


class MemoryLookUpPipeline(MemoryAgentPipeline):
    replay = Replay.LOOKUP


class MemorySafePipeline(MemoryAgentPipeline):
    replay = Replay.SAFE


SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))

TestMemoryPipeline = MemoryPipeline.TestCase
TestMemoryPipeline.settings = SETTINGS
TestMemoryAgentPipeline = MemoryAgentPipeline.TestCase
TestMemoryAgentPipeline.settings = SETTINGS
TestMemoryHandoverPipeline = MemoryHandoverPipeline.TestCase
TestMemoryHandoverPipeline.settings = SETTINGS
TestMemoryLookUpPipeline = MemoryLookUpPipeline.TestCase
TestMemoryLookUpPipeline.settings = SETTINGS
TestMemorySafePipeline = MemorySafePipeline.TestCase
TestMemorySafePipeline.settings = SETTINGS
