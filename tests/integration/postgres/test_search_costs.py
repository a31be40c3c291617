"""What a search costs: a few round trips, and nothing that grows with a legacy index but the search in it."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

import psycopg
import pytest
import pytest_asyncio
from attrs import define, evolve, field
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.hall import A, Hall
from tests.integration.postgres.test_plans_search import FILL, SPACE
from tests.integration.postgres.trips import Trips

from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import Sql
from imgproc_adapters.postgres.uow import PostgresTransaction, PostgresUnitOfWork
from imgproc_adapters.testing.models import ScriptedTextModel
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Query, Ranking, Source
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_images

MANY: Final = 3_000
FEW: Final = 60
ENTRIES: Final = "cache_generation_entries"
# of this transaction alone, if every one before it has told what it read
SCANS: Final = Sql(b"SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables")
FLUSH: Final = Sql(b"SELECT pg_stat_force_next_flush()")


@pytest_asyncio.fixture
async def hall(lone: AsyncEngine) -> Hall:
    hall = Hall(PostgresUnitOfWork(lone))
    # as most processes are: what is read need not be asked before a query is embedded
    hall.deployment = evolve(hall.deployment, more_text=())
    return hall


@pytest_asyncio.fixture
async def trips(lone: AsyncEngine, hall: Hall, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Trips]:
    await hall.hang("cat", "cat on a mat")
    async with checked_out(lone) as connection:
        trips = Trips(tmp_path_factory.mktemp("trips") / "trace", connection)
    yield trips
    trips.close()


async def asked(deployment: Deployment, ranking: Ranking = Ranking.HYBRID) -> Answer:
    return await search(deployment, A, Query("cat", ranking=ranking))


async def test_a_query_takes_few_round_trips(hall: Hall, trips: Trips) -> None:
    # that the scope has no index of its own is known from now on
    assert len((await asked(hall.deployment)).hits) == 2
    # the state, both lists, the words of what is told, the end
    with trips.at_most(4):
        await asked(hall.deployment)
    with trips.at_most(3):
        await asked(hall.deployment, Ranking.SEMANTIC)


async def test_a_query_of_a_legacy_index_takes_few_round_trips(hall: Hall, trips: Trips) -> None:
    await build(hall.deployment)
    assert (await asked(hall.deployment)).source is Source.LEGACY
    # the state, the generation, a page and the end; once more when its files were found; and what there is
    with trips.at_most(9):
        await asked(hall.deployment)


async def test_what_people_see_of_pictures_takes_few_round_trips(hall: Hall, trips: Trips) -> None:
    ids = [hit.meme_id for hit in (await asked(hall.deployment)).hits]
    with trips.at_most(3):
        assert set(await get_images(hall.deployment, A, ids)) == set(ids)


@pytest.mark.parametrize(("rows", "again"), [(MANY, 0), (FEW, 1)])
async def test_what_a_query_of_a_legacy_index_finds_is_counted_seldom_where_it_is_much(
    hall: Hall, direct: str, rows: int, again: int
) -> None:
    with psycopg.connect(direct) as connection:
        connection.execute("INSERT INTO scopes VALUES (%s, now())", [A])
        connection.execute(FILL, {"scope": A, "rows": rows})
    watched = Watched(hall.uow)
    deployment = evolve(hall.deployment, uow=watched, text=ScriptedTextModel(space=SPACE))
    await build(deployment)
    first, scans = await watched.reads(deployment)
    assert 0 < first.coverage.searchable < first.coverage.total == rows
    # two pages, the second of which tells its files, and what there is
    assert scans == 3
    second, scans = await watched.reads(deployment)
    assert (second, scans) == (first, 2 + again)


async def test_which_generation_is_read_is_known_without_a_look_into_it(hall: Hall) -> None:
    await hall.hang("cat")
    await build(hall.deployment)
    watched = Watched(hall.uow)
    async with watched.begin(A) as tx:
        assert await tx.generations.readable() is not None
    assert watched.scans[ENTRIES] == 0


async def build(deployment: Deployment) -> None:
    """Copy what can be found into a legacy index, and let searches read it."""
    await request_generation(deployment, A)
    (execution,) = await claim_tasks(deployment, A, TaskType.CACHE, 1, OWNER)
    await build_generation(deployment, execution)
    async with deployment.uow.begin(A) as tx:
        state = await tx.migration.lock()
        await tx.migration.save(SearchState(SearchMode.LEGACY_ONLY, state.epoch + 1, state.serving))
        # what was read until now is told elsewhere
        await flush(tx)


async def flush(tx: Transaction) -> None:
    await cast("PostgresTransaction", tx)._session.rows(FLUSH)


@define(eq=False)
class Watched:
    """Counts, over all transactions, how often each table was read."""

    inner: UnitOfWork
    scans: Counter[str] = field(factory=Counter)

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        async with self.inner.begin(scope) as tx:
            yield tx
            self.scans.update(dict(await cast("PostgresTransaction", tx)._session.rows(SCANS)))
            await flush(tx)

    async def reads(self, deployment: Deployment) -> tuple[Answer, int]:
        """Return what a query finds, and how often it reads the entries of legacy indexes."""
        before = self.scans[ENTRIES]
        answer = await asked(deployment)
        return answer, self.scans[ENTRIES] - before
