"""Searches while something changes: each answers as before it, or as behind it, and never with both.

A search stands still at a chosen point of its transaction while a step of the migration, or a person's change, comes to
its end. What it then answers is, in every detail, what `search_oracle` says of the moment before, if the answering
transaction had begun to read by then, and otherwise what it says of the moment behind.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import psycopg
import pytest
import pytest_asyncio
from attrs import evolve
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.stage import (
    CAT,
    Act,
    S,
    Stage,
    back,
    copied,
    deleted,
    edited,
    filling,
    renamed,
    replaced,
    staged,
    started,
    switched,
    to_legacy,
)
from tests.integration.postgres.stops import Point
from tests.integration.postgres.test_races import soon

from imgproc_domain.search import Answer, Query, Ranking
from imgproc_domain.usecases.search import search

QUERY: Final = Query(CAT.title)

# what was asked together has been answered: both lists, and then the words of those that are told
LISTS: Final = Point("together", after=True, nth=1)
WORDS: Final = Point("together", after=True, nth=2)
# a query asks first for which space to embed, and then once more, in the transaction that answers
DECIDED: Final = Point("search.begin_reading", after=True, nth=2)
READING: Final = [
    Point("search.begin_reading", after=True, nth=1),
    Point("search.begin_reading", nth=2),
    DECIDED,
    LISTS,
    WORDS,
]
# the files of its first page are looked for between that transaction and the one that answers
LEGACY_DECIDED: Final = Point("search.begin_reading", after=True, nth=3)
READING_LEGACY: Final = [
    Point("search.begin_reading", after=True, nth=1),
    Point("generations.readable", after=True, nth=2),
    Point("generations.nearest", after=True, nth=1),
    LEGACY_DECIDED,
    Point("generations.readable", after=True, nth=3),
    Point("generations.nearest", after=True, nth=2),
    Point("generations.coverage", after=True, nth=1),
]
TOO_LATE: Final = [*READING[READING.index(DECIDED) :], *READING_LEGACY[READING_LEGACY.index(LEGACY_DECIDED) :]]


async def asked_meanwhile(
    stage: Stage, point: Point, act: Act, query: Query = QUERY
) -> tuple[Answer | None, Answer, Answer | None]:
    """Return what a query that stands at a point answers, between what it would have answered before and behind."""
    deployment, stop = stage.stopping(point)
    before = stage.library.answer(query)
    asked = asyncio.create_task(search(deployment, S, query))
    await soon(stop.reached.wait())
    await soon(act(stage))
    stop.go_on.set()
    return before, await soon(asked), stage.library.answer(query)


@pytest_asyncio.fixture
async def stage(engine: AsyncEngine, database: str, direct: str, pooled: bool) -> AsyncIterator[Stage]:
    async with staged(engine, database, direct, pooled=pooled) as stage:
        yield stage


async def expect_one_state(stage: Stage, point: Point, act: Act, query: Query = QUERY) -> None:
    before, found, behind = await asked_meanwhile(stage, point, act, query)
    assert before != behind
    assert found == (before if point in TOO_LATE else behind), point


async def test_a_query_reads_one_space_whichever_is_switched_to_meanwhile(stage: Stage) -> None:
    for point in READING:
        await filling(stage)
        await expect_one_state(stage, point, switched)
        await expect_one_state(stage, point, back)
    await stage.holds()


async def test_a_query_reads_one_source_when_searches_go_back_to_the_legacy_index(stage: Stage) -> None:
    await copied(stage)
    for point in READING:
        await expect_one_state(stage, point, to_legacy)
        await started(stage)
        await switched(stage)
    await stage.holds()


async def test_a_query_of_the_legacy_index_reads_it_alone_when_it_is_left(stage: Stage) -> None:
    await copied(stage)
    for point in READING_LEGACY:
        await to_legacy(stage)
        await started(stage)
        await expect_one_state(stage, point, switched)
    await stage.holds()


@pytest.mark.parametrize("change", [edited, replaced])
async def test_no_legacy_entry_is_found_that_is_not_current_any_more(stage: Stage, change: Act) -> None:
    await copied(stage)
    await to_legacy(stage)
    for point in READING_LEGACY:
        await expect_one_state(stage, point, change)
        await stage.holds()


async def test_a_legacy_entry_of_a_deleted_picture_is_not_found(stage: Stage) -> None:
    await copied(stage)
    await to_legacy(stage)
    points = [READING_LEGACY[2], READING_LEGACY[-1]]
    for point, target in zip(points, stage.memes[:2], strict=True):
        stage.target = target
        await expect_one_state(stage, point, deleted)
        await stage.holds()


async def test_a_legacy_entry_of_another_dimension_than_its_generation_is_not_usable(stage: Stage) -> None:
    await stage.process.build_generation()
    async with await psycopg.AsyncConnection.connect(stage.direct) as operator:
        await operator.execute("UPDATE cache_generations SET dimension = dimension + 1")
    async with stage.uow.begin(S) as tx:
        generation = await tx.generations.newest()
        assert generation is not None
        usable = (await tx.generations.coverage(generation.generation_id)).searchable
        assert (generation.entries, usable) == (len(stage.memes), 0)


@pytest.mark.parametrize(("change", "query"), [(edited, QUERY), (replaced, QUERY), (renamed, Query("meeting"))])
async def test_a_query_finds_what_was_there_before_a_change_or_behind_it(
    stage: Stage, change: Act, query: Query
) -> None:
    for point in READING:
        await expect_one_state(stage, point, change, query)
    await stage.holds()


@pytest.mark.parametrize("change", [edited, replaced])
async def test_by_meaning_alone_it_finds_the_same(stage: Stage, change: Act) -> None:
    for point in READING[: READING.index(WORDS)]:
        await expect_one_state(stage, point, change, evolve(QUERY, ranking=Ranking.SEMANTIC))
    await stage.holds()


async def test_a_query_finds_a_picture_that_is_deleted_meanwhile_or_not(stage: Stage) -> None:
    for point, target in zip([DECIDED, LISTS, WORDS], stage.memes, strict=True):
        stage.target = target
        await expect_one_state(stage, point, deleted)
    await stage.holds()
