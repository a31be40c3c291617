"""The search machine over PostgreSQL: the same rules and the same oracle as over memory."""

from datetime import timedelta
from itertools import count

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from psycopg import AsyncConnection

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.invariants import check
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.spaces import register_spaces
from imgproc_adapters.postgres.tables import METADATA
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.search_machine import SearchMachine
from imgproc_adapters.testing.search_world import SPACES, SearchSite
from imgproc_adapters.testing.world import World
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope

NUMBERS = count(1)


class PostgresSearchMachine(SearchMachine):
    dsn: str
    direct: str
    pooled: bool

    async def open_site(self) -> SearchSite:
        number = next(NUMBERS)
        scope, beside = Scope(f"machine-{number}"), Scope(f"machine-{number}-beside")
        engine = open_engine(self.dsn, pool_size=3, pooler=self.pooled)
        await register_spaces(engine, SPACES)
        heartbeat = PostgresHeartbeat(self.dsn, pooler=self.pooled)
        operator = await AsyncConnection.connect(self.direct, autocommit=True)
        await operator.execute("DELETE FROM lane_slots")

        async def age(time: timedelta) -> None:
            for table in METADATA.sorted_tables:
                names = [c.name for c in table.c if getattr(c.type, "timezone", False)]
                if names and "scope_id" in table.c:
                    moved = ", ".join(f"{name} = {name} - %(time)s" for name in names)
                    statement = f"UPDATE {table.name} SET {moved} WHERE scope_id = ANY (%(scopes)s)"
                    await operator.execute(statement.encode(), {"time": time, "scopes": [scope, beside]})

        async def forget_words(meme_id: MemeId) -> None:
            statement = "UPDATE search_vectors SET words = NULL WHERE scope_id = %s AND meme_id = %s"
            await operator.execute(statement, [scope, meme_id])

        async def checked() -> None:
            report = await check(self.direct, [scope, beside])
            assert not report.broken, report.lines()

        async def close() -> None:
            await operator.close()
            heartbeat.close()
            await engine.dispose()

        world = World(
            uow=PostgresUnitOfWork(engine),
            dispatch=PostgresDispatch(engine),
            heartbeat=heartbeat,
            listener=lambda: PostgresListener(self.direct),
        )
        return SearchSite(world, scope, beside, age, forget_words, checked, close)


def test_exactly_what_should_be_found_is_found_whatever_happens(database: str, direct: str, pooled: bool) -> None:
    run_state_machine_as_test(
        type("Machine", (PostgresSearchMachine,), {"dsn": database, "direct": direct, "pooled": pooled}),
        settings=settings(
            max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
