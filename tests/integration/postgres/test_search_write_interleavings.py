"""Write-backs, backfills, switches and pruning beside each other: whoever is second waits, sees the first, and yields.

One of two stands still in a real transaction while the other one waits for its lock. Behind both, searches find exactly
what `search_oracle` says, and the rows keep every promise.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from attrs import evolve
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.stage import (
    CAT,
    CHANGES,
    Act,
    S,
    Stage,
    add,
    filled_and_switched,
    filling,
    staged,
    switched,
)
from tests.integration.postgres.stops import Point
from tests.integration.postgres.test_races import soon, waiting

from imgproc_adapters.testing.models import Embedded as Reply
from imgproc_adapters.testing.pipeline import OWNER, settling
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.search_oracle import INCREMENTAL, exact_vector
from imgproc_adapters.testing.search_world import ONE, SPACES, TWO
from imgproc_domain.context import Description
from imgproc_domain.errors import MigrationConflict, SearchIncomplete
from imgproc_domain.search import Query
from imgproc_domain.settlement import Settled
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases import migrate_search
from imgproc_domain.usecases.backfill import Embedded, Embedding, embed
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.settle import settle


@pytest_asyncio.fixture
async def stage(engine: AsyncEngine, database: str, direct: str, pooled: bool) -> AsyncIterator[Stage]:
    async with staged(engine, database, direct, pooled=pooled) as stage:
        yield stage


async def text_in_flight(stage: Stage, words: Description = CAT, *, knows_both: bool = True) -> list[Any]:
    """Add a picture and embed its text; return what is to be written back."""
    await add(stage, "fox", words, embedded=False)
    stage.target = stage.memes[-1]
    process = stage.process
    worker = process.both if knows_both else process.alone
    claimed = await claim_tasks(worker, S, TaskType.TEXT, 1, OWNER)
    return [settling(execution, outcome) for execution, outcome in await process.performed(S, claimed, worker)]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_waits_for_a_write_back_and_takes_its_vector_away(stage: Stage, change: Act) -> None:
    items = await text_in_flight(stage)
    deployment, stop = stage.stopping(Point("search.publish"), commit=True)
    written = asyncio.create_task(settle(deployment, S, items))
    await soon(stop.reached.wait())
    assert await stage.ask(Query(CAT.title)) == stage.library.answer(Query(CAT.title))
    changed = asyncio.ensure_future(change(stage))
    await waiting(stage.direct)
    stop.go_on.set()
    (answer,) = await soon(written)
    assert isinstance(answer, Settled)
    assert answer.product is not None
    await soon(changed)
    await stage.holds()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_write_back_that_waits_for_a_change_writes_nothing(stage: Stage, change: Act) -> None:
    items = await text_in_flight(stage)
    _, stop = stage.stopping(Point("search.refresh"), commit=True)
    changing = evolve(stage, process=evolve(stage.process, both=evolve(stage.process.both, uow=stop)))
    changed = asyncio.ensure_future(change(changing))
    await soon(stop.reached.wait())
    written = asyncio.create_task(settle(stage.process.both, S, items))
    await waiting(stage.direct)
    stop.go_on.set()
    await soon(changed)
    (answer,) = await soon(written)
    assert isinstance(answer, Settled)
    assert answer.product is None
    await stage.holds()


async def test_a_switch_waits_for_a_write_back_to_the_old_space_alone_and_is_refused(stage: Stage) -> None:
    await filling(stage)
    items = await text_in_flight(stage, knows_both=False)
    deployment, stop = stage.stopping(Point("search.publish"), commit=True)
    written = asyncio.create_task(settle(deployment, S, items))
    await soon(stop.reached.wait())
    switching = asyncio.create_task(migrate_search.switch(stage.process.both, S, allow_missing=1))
    # the picture is missing in the new space with or without this vector: one is allowed to be
    await waiting(stage.direct)
    stop.go_on.set()
    await soon(written)
    await soon(switching)
    library, fox = stage.library, stage.target
    library.write(fox, library.shown[fox].version, ONE)
    library.step(INCREMENTAL)
    library.serving, library.filling = TWO, None
    await stage.holds()


async def test_a_switch_sees_the_vector_that_it_waited_for(stage: Stage) -> None:
    await filling(stage)
    items = await text_in_flight(stage)
    deployment, stop = stage.stopping(Point("search.publish"), commit=True)
    written = asyncio.create_task(settle(deployment, S, items))
    await soon(stop.reached.wait())
    with pytest.raises(SearchIncomplete):
        await migrate_search.switch(stage.process.both, S)
    stop.go_on.set()
    await soon(written)
    for space in SPACES:
        stage.library.write(stage.target, stage.library.shown[stage.target].version, space)
    await switched(stage)
    await stage.holds()


async def test_a_write_back_waits_for_a_switch_and_is_found_in_whichever_space_serves(stage: Stage) -> None:
    await filling(stage)
    items = await text_in_flight(stage)
    deployment, stop = stage.stopping(Point("migration.save"), commit=True)
    switching = asyncio.create_task(migrate_search.switch(deployment, S, allow_missing=1))
    await soon(stop.reached.wait())
    written = asyncio.create_task(settle(stage.process.both, S, items))
    await waiting(stage.direct)
    assert await stage.ask(Query(CAT.title)) == stage.library.answer(Query(CAT.title))
    stop.go_on.set()
    await soon(switching)
    await soon(written)
    library, fox = stage.library, stage.target
    library.step(INCREMENTAL)
    library.serving, library.filling = TWO, None
    for space in SPACES:
        library.write(fox, library.shown[fox].version, space)
    await stage.holds()


async def embedded(deployment: Deployment) -> list[Embedded]:
    return [page async for page in embed(deployment, S, Embedding(TWO, batch=10))]


async def lacking(stage: Stage) -> None:
    """The new space lacks one picture, as one that was embedded by a process which does not know it."""
    items = await text_in_flight(stage, knows_both=False)
    await settle(stage.process.both, S, items)
    stage.library.write(stage.target, stage.library.shown[stage.target].version, ONE)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_backfill_drops_the_vector_of_what_changed_while_it_was_embedded(stage: Stage, change: Act) -> None:
    await lacking(stage)
    held: Held[Reply] = Held(exact_vector(CAT.title, TWO.dimension))
    stage.process.two.script.then(held)
    running = asyncio.create_task(embedded(stage.process.both))
    await soon(held.started.wait())
    await soon(change(stage))
    held.release()
    (page,) = await soon(running)
    assert (page.embedded, page.changed, page.failed) == (0, 1, ())
    stage.library.begin_filling(TWO)
    await stage.holds()
    assert stage.target not in stage.library.findable(TWO)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_waits_for_a_backfill_and_takes_its_vector_away(stage: Stage, change: Act) -> None:
    await lacking(stage)
    deployment, stop = stage.stopping(Point("search.publish"), commit=True)
    running = asyncio.create_task(embedded(deployment))
    await soon(stop.reached.wait())
    changed = asyncio.ensure_future(change(stage))
    await waiting(stage.direct)
    stop.go_on.set()
    (page,) = await soon(running)
    assert (page.embedded, page.changed) == (1, 0)
    await soon(changed)
    stage.library.begin_filling(TWO)
    await stage.holds()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_backfill_waits_for_a_change_and_drops_what_it_embedded(stage: Stage, change: Act) -> None:
    await lacking(stage)
    held: Held[Reply] = Held(exact_vector(CAT.title, TWO.dimension))
    stage.process.two.script.then(held)
    running = asyncio.create_task(embedded(stage.process.both))
    await soon(held.started.wait())
    _, stop = stage.stopping(Point("search.refresh"), commit=True)
    changing = evolve(stage, process=evolve(stage.process, both=evolve(stage.process.both, uow=stop)))
    changed = asyncio.ensure_future(change(changing))
    await soon(stop.reached.wait())
    held.release()
    await waiting(stage.direct)
    stop.go_on.set()
    await soon(changed)
    (page,) = await soon(running)
    assert (page.embedded, page.changed) == (0, 1)
    stage.library.begin_filling(TWO)
    await stage.holds()


async def test_words_that_are_not_known_yet_are_missing_until_a_backfill_has_passed(stage: Stage) -> None:
    async with await psycopg.AsyncConnection.connect(stage.direct) as operator:
        await operator.execute("UPDATE search_vectors SET words = NULL")
    stage.library.wordless = {(space.id, meme_id) for space in SPACES for meme_id in stage.memes}
    await filling(stage)
    await stage.holds()
    with pytest.raises(SearchIncomplete):
        await migrate_search.switch(stage.process.both, S)
    (page,) = await embedded(stage.process.both)
    assert (page.adopted, page.embedded) == (len(stage.memes), 0)
    stage.library.wordless.clear()
    await switched(stage)
    await stage.holds()


async def test_of_two_switches_one_is_taken(stage: Stage) -> None:
    await filling(stage)
    deployment, stop = stage.stopping(Point("migration.save"), commit=True)
    first = asyncio.create_task(migrate_search.switch(deployment, S))
    await soon(stop.reached.wait())
    second = asyncio.create_task(migrate_search.switch(stage.process.both, S))
    await waiting(stage.direct)
    stop.go_on.set()
    await soon(first)
    with pytest.raises(MigrationConflict):
        await soon(second)
    stage.library.step(INCREMENTAL)
    stage.library.serving, stage.library.filling = TWO, None
    await stage.holds()


async def aged(stage: Stage) -> None:
    """Nothing was changed lately: what nobody needs may go."""
    async with await psycopg.AsyncConnection.connect(stage.direct) as operator:
        for table in ("memes", "meme_contexts"):
            await operator.execute(f"UPDATE {table} SET updated_at = updated_at - interval '90 days'".encode())


async def test_vectors_of_a_space_that_serves_again_meanwhile_are_not_pruned(stage: Stage) -> None:
    await aged(stage)
    _, stop = stage.stopping(Point("migration.lock"))
    ignorant = evolve(stage.process.alone, uow=stop)
    pruning = asyncio.create_task(stage.process.prune(ignorant, stage.library))
    await soon(stop.reached.wait())
    await soon(filled_and_switched(stage))
    stop.go_on.set()
    await soon(pruning)
    assert stage.library.answer(Query(CAT.title)) is not None
    await stage.holds()


async def test_a_space_is_not_gone_back_to_while_its_vectors_are_pruned(stage: Stage) -> None:
    await aged(stage)
    _, stop = stage.stopping(Point("retention.delete_vectors"), commit=True)
    ignorant = evolve(stage.process.alone, uow=stop)
    pruning = asyncio.create_task(stage.process.prune(ignorant, stage.library))
    await soon(stop.reached.wait())
    going_back = asyncio.create_task(migrate_search.rollback(stage.process.both, S, TWO))
    await waiting(stage.direct)
    stop.go_on.set()
    await soon(pruning)
    with pytest.raises(SearchIncomplete):
        await soon(going_back)
    stage.library.forget_old([ONE.id])
    stage.library.begin_filling(TWO)
    await stage.holds()
