"""The search machine over the in-memory adapter."""

from datetime import timedelta

from attrs import evolve
from hypothesis import HealthCheck, settings

from imgproc_adapters.memory import (
    ManualClock,
    MemoryDispatch,
    MemoryHeartbeat,
    MemoryListener,
    MemoryStore,
    MemoryUnitOfWork,
    schema,
)
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.search_machine import SearchMachine
from imgproc_adapters.testing.search_world import SearchSite
from imgproc_adapters.testing.view import memory_view
from imgproc_adapters.testing.world import World
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope

SCOPE, BESIDE = Scope("machine"), Scope("machine-beside")


class MemorySearchMachine(SearchMachine):
    async def open_site(self) -> SearchSite:
        store, clock = MemoryStore(), ManualClock()

        async def age(time: timedelta) -> None:
            clock.advance(time)

        async def forget_words(meme_id: MemeId) -> None:
            found = {key: row for key, row in store.rows(schema.FINDABLE, SCOPE).items() if row.meme_id == meme_id}
            store.apply(SCOPE, {schema.FINDABLE: {key: evolve(row, words=None) for key, row in found.items()}})

        async def check() -> None:
            for scope in (SCOPE, BESIDE):
                check_invariants(memory_view(store, scope, clock.now()))

        async def close() -> None:
            return None

        world = World(
            uow=MemoryUnitOfWork(store, clock),
            dispatch=MemoryDispatch(store, clock),
            heartbeat=MemoryHeartbeat(store, clock),
            listener=lambda: MemoryListener(store),
        )
        return SearchSite(world, SCOPE, BESIDE, age, forget_words, check, close)


TestMemorySearch = MemorySearchMachine.TestCase
TestMemorySearch.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
