"""Searches while something changes: each answers as before it, or as behind it, and never with both.

A search stands still at a chosen point of its transaction while a step of the migration, or a person's change, comes to
its end. What it then answers is compared with what `search_oracle` says of the moments before and behind.
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

from imgproc_domain.ids import MemeId
from imgproc_domain.search import Answer, Hit, Query, Ranking
from imgproc_domain.usecases.search import search

QUERY: Final = Query(CAT.title)

# the last statement of a query's transaction: what is done behind it comes too late
INCREMENTAL_END: Final = Point("search.state", after=True, nth=3)
LEGACY_END: Final = Point("search.state", after=True, nth=5)
NEAREST: Final = Point("search.nearest", after=True)
WORDS: Final = [Point("search.worded", after=True), Point("contexts.get", after=True)]
READING: Final = [
    Point("search.state", after=True, nth=1),
    Point("search.state", after=True, nth=2),
    Point("search.coverage", after=True),
    NEAREST,
    *WORDS,
    INCREMENTAL_END,
]
READING_LEGACY: Final = [
    Point("search.state", after=True, nth=1),
    Point("generations.newest", after=True, nth=2),
    Point("generations.nearest", after=True, nth=1),
    Point("generations.usable", after=True, nth=2),
    Point("generations.nearest", after=True, nth=2),
    LEGACY_END,
]


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


async def expect_one_state(stage: Stage, point: Point, step: Act) -> None:
    before, found, behind = await asked_meanwhile(stage, point, step)
    assert before != behind
    assert found == (before if point in (INCREMENTAL_END, LEGACY_END) else behind), point


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
        before, found, behind = await asked_meanwhile(stage, point, change)
        assert found.hits in hits_of(before, behind), point
        await stage.holds()


async def test_a_legacy_entry_of_a_deleted_picture_is_not_found(stage: Stage) -> None:
    await copied(stage)
    await to_legacy(stage)
    for point, target in zip(READING_LEGACY[2:], stage.memes[:3], strict=False):
        stage.target = target
        before, found, behind = await asked_meanwhile(stage, point, deleted)
        assert found.hits in hits_of(before, behind), point
        await stage.holds()


async def test_a_legacy_entry_of_another_dimension_than_its_generation_is_not_usable(stage: Stage) -> None:
    await stage.process.build_generation()
    async with await psycopg.AsyncConnection.connect(stage.direct) as operator:
        await operator.execute("UPDATE cache_generations SET dimension = dimension + 1")
    async with stage.uow.begin(S) as tx:
        generation = await tx.generations.newest()
        assert generation is not None
        assert (generation.entries, await tx.generations.usable(generation.generation_id)) == (len(stage.memes), 0)


@pytest.mark.parametrize("change", [edited, replaced, renamed])
async def test_a_query_finds_what_was_there_before_a_change_or_behind_it(stage: Stage, change: Act) -> None:
    for point in READING:
        before, found, behind = await asked_meanwhile(stage, point, change)
        assert found_in(found) in [found_in(before), found_in(behind)], point
        if point not in WORDS:
            query = evolve(QUERY, ranking=Ranking.SEMANTIC)
            before, found, behind = await asked_meanwhile(stage, point, change, query)
            assert found.hits in hits_of(before, behind), point
    await stage.holds()


async def test_a_query_finds_a_picture_that_is_deleted_meanwhile_or_not(stage: Stage) -> None:
    for point, target in zip([NEAREST, *WORDS], stage.memes, strict=True):
        stage.target = target
        before, found, behind = await asked_meanwhile(stage, point, deleted)
        assert found_in(found) in [found_in(before), found_in(behind)], point
    await stage.holds()


def hits_of(*answers: Answer | None) -> list[tuple[Hit, ...]]:
    return [answer.hits for answer in answers if answer is not None]


def found_in(answer: Answer | None) -> set[tuple[MemeId, float]]:
    """Return who is found with which score.

    Every statement sees what is committed when it begins: the places by words, and the fields that are named, may be
    of a moment later than the distances.
    """
    return {(hit.meme_id, hit.score) for hit in answer.hits} if answer else set()
