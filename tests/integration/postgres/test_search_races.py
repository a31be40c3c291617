"""Steps of a scope's search, interleaved by hand with edits, settlings, queries and pruning."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from attrs import evolve
from tests.integration.postgres.hall import NEW, OLD, A, Hall, NoBlobs, Picture
from tests.integration.postgres.stops import Point, StoppingUnitOfWork
from tests.integration.postgres.test_races import soon, waiting

from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import LONG_AGO, make_picture
from imgproc_adapters.testing.models import Embedded as Answered
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import OWNER
from imgproc_adapters.testing.words import gram_vector
from imgproc_domain.context import ContextStatus
from imgproc_domain.errors import MigrationConflict, SearchIncomplete
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.retention import LEAST_AGE, Kind
from imgproc_domain.search import Answer
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.backfill import Embedding, embed
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.migrate_search import begin_filling, rollback, start, switch
from imgproc_domain.usecases.prune import Pruning, prune


@pytest.fixture
def hall(uow: PostgresUnitOfWork) -> Hall:
    return Hall(uow)


async def put(hall: Hall, state: SearchState) -> None:
    async with hall.uow.begin(A) as tx:
        await tx.migration.lock()
        await tx.migration.save(state)


async def test_a_switch_waits_for_a_settling_and_sees_what_it_made(hall: Hall, direct: str) -> None:
    """A process with one model makes a picture findable in the old space, while everything else is filled."""
    (kept,) = await hall.hang("cat")
    await hall.fill()
    later = await hall.describe("cat on a mat")
    async with hall.uow.begin(A) as settling:
        await settling.memes.lock([later.meme_id])
        await hall.publish(settling, later)
        step = asyncio.create_task(switch(hall.deployment, A, allow_missing=1))
        await waiting(direct)
    # one was allowed to be missing when it looked ahead, and is; none is lost that could be found
    after = await soon(step)
    assert after.serving == NEW
    assert await hall.found() == {kept.meme_id}


async def test_a_switch_that_waited_is_refused_by_what_it_finds(hall: Hall, direct: str) -> None:
    (kept,) = await hall.hang("cat")
    await hall.fill()
    # nobody could find it when the switch looked ahead: its context could not be used
    later = await hall.describe("cat on a mat")
    async with hall.uow.begin(A) as tx:
        await tx.contexts.put([evolve(later.context, status=ContextStatus.REPAIR_REQUIRED)])
    async with hall.uow.begin(A) as settling:
        await settling.memes.lock([later.meme_id])
        await settling.contexts.put([later.context])
        await hall.publish(settling, later)
        step = asyncio.create_task(switch(hall.deployment, A))
        await waiting(direct)
    with pytest.raises(SearchIncomplete):
        await soon(step)
    assert await hall.found() == {kept.meme_id, later.meme_id}, "what could be found still can"


async def test_a_switch_waits_for_an_undo_that_brings_an_old_vector_back(hall: Hall, direct: str) -> None:
    (picture,) = await hall.hang("cat")
    async with hall.uow.begin(A) as tx:
        edited = await hall.write(tx, picture, "dog")
        await hall.publish(tx, edited)
    await hall.fill()
    async with hall.uow.begin(A) as undo:
        await undo.memes.lock([picture.meme_id])
        await undo.contexts.put([evolve(picture.context, revision=3)])
        await undo.search.refresh([picture.meme_id])
        step = asyncio.create_task(switch(hall.deployment, A))
        await waiting(direct)
    with pytest.raises(SearchIncomplete):
        await soon(step)
    answer = await hall.ask()
    assert (answer.space_id, [hit.meme_id for hit in answer.hits]) == (OLD.id, [picture.meme_id])


async def test_a_settling_waits_for_a_switch_and_comes_behind_it(hall: Hall, direct: str) -> None:
    (kept,) = await hall.hang("cat")
    await hall.fill()
    later = await hall.describe("cat on a mat")
    state = await hall.state()

    async def settle() -> None:
        async with hall.uow.begin(A) as tx:
            await tx.memes.lock([later.meme_id])
            await hall.publish(tx, later)

    async with hall.uow.begin(A) as step:
        await step.migration.lock()
        settling = asyncio.create_task(settle())
        await waiting(direct)
        await step.migration.save(evolve(state, serving=NEW, filling=None, epoch=state.epoch + 1))
    await soon(settling)
    assert await hall.found() == {kept.meme_id}, "it could never be found before"
    await hall.fill()
    assert await hall.found() == {kept.meme_id, later.meme_id}


async def test_in_ordinary_times_a_step_makes_nobody_wait(hall: Hall) -> None:
    picture = await hall.describe("cat")
    await hall.hang("dog")
    async with hall.uow.begin(A) as step:
        await step.migration.lock()
        async with hall.uow.begin(A) as settling:
            await settling.memes.lock([picture.meme_id])
            await soon(hall.publish(settling, picture))


async def test_those_who_settle_do_not_wait_for_each_other(hall: Hall) -> None:
    await hall.hang("cat")
    await begin_filling(hall.deployment, A, NEW)
    one, two = await hall.describe("one"), await hall.describe("two")
    async with hall.uow.begin(A) as first, hall.uow.begin(A) as second:
        for tx, picture in ((first, one), (second, two)):
            await tx.memes.lock([picture.meme_id])
            await soon(hall.publish(tx, picture))


async def _edit(tx: Transaction, hall: Hall, picture: Picture) -> None:
    await hall.write(tx, picture, "dog")


async def _replace(tx: Transaction, hall: Hall, picture: Picture) -> None:
    await tx.memes.lock([picture.meme_id])
    await tx.memes.save(evolve(picture.meme, picture=make_picture()))
    await tx.search.refresh([picture.meme_id])


async def _delete(tx: Transaction, hall: Hall, picture: Picture) -> None:
    await tx.memes.lock([picture.meme_id])
    await tx.memes.save(evolve(picture.meme, deleted_at=LONG_AGO))
    await tx.search.refresh([picture.meme_id])


Change = Callable[[Transaction, Hall, Picture], Awaitable[None]]
CHANGES = pytest.mark.parametrize("change", [_edit, _replace, _delete])


@CHANGES
async def test_what_changes_between_the_look_and_the_switch_is_found_in_no_space(hall: Hall, change: Change) -> None:
    changed, kept = await hall.hang("cat", "another cat")
    await hall.fill()

    async def meanwhile() -> None:
        async with hall.uow.begin(A) as tx:
            await soon(change(tx, hall, changed))

    await switch(hall.interposed("migration", "save", meanwhile), A)
    answer = await hall.ask()
    assert (answer.space_id, [hit.meme_id for hit in answer.hits]) == (NEW.id, [kept.meme_id])


@CHANGES
async def test_what_is_being_changed_while_a_switch_goes_by_is_found_in_no_space(hall: Hall, change: Change) -> None:
    changed, kept = await hall.hang("cat", "another cat")
    await hall.fill()
    async with hall.uow.begin(A) as tx:
        await change(tx, hall, changed)
        await soon(switch(hall.deployment, A))
        assert await hall.found() == {changed.meme_id, kept.meme_id}, "until the change is committed"
    assert await hall.found() == {kept.meme_id}


async def test_of_two_switches_at_once_one_is_made(hall: Hall) -> None:
    await hall.hang("cat")
    await hall.fill()
    before = await hall.state()
    answers = await asyncio.gather(*(switch(hall.deployment, A) for _ in range(2)), return_exceptions=True)
    assert [type(answer) for answer in answers if isinstance(answer, BaseException)] == [MigrationConflict]
    assert (await hall.state()).epoch == before.epoch + 1


async def test_of_two_spaces_at_once_one_is_filled(hall: Hall) -> None:
    await hall.hang("cat")
    third = evolve(NEW, id="third-text")
    steps = (begin_filling(hall.deployment, A, space) for space in (NEW, third))
    answers = await asyncio.gather(*steps, return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, MigrationConflict)]) == 1
    assert (await hall.state()).filling in (NEW, third)


async def _asked_meanwhile(hall: Hall, point: Point, *steps: Callable[[], Awaitable[object]]) -> Answer:
    uow = StoppingUnitOfWork(hall.uow, point)
    asked = asyncio.create_task(hall.ask(deployment=evolve(hall.deployment, uow=uow)))
    await soon(uow.reached.wait())
    for step in steps:
        await soon(step())
    uow.go_on.set()
    return await soon(asked)


async def test_a_query_that_has_not_begun_to_read_when_its_space_is_left_and_pruned_is_decided_again(
    hall: Hall,
) -> None:
    (picture,) = await hall.hang("cat")
    await hall.fill()
    answer = await _asked_meanwhile(
        hall, Point("search.begin_reading", nth=2), lambda: switch(hall.deployment, A), lambda: _prune(hall)
    )
    assert (answer.space_id, answer.epoch) == (NEW.id, (await hall.state()).epoch)
    assert [hit.meme_id for hit in answer.hits] == [picture.meme_id]


async def test_a_query_that_has_begun_to_read_is_answered_from_a_space_that_is_left_and_pruned(hall: Hall) -> None:
    (picture,) = await hall.hang("cat")
    await hall.fill()
    before = await hall.state()
    answer = await _asked_meanwhile(
        hall, Point("search.begin_reading", after=True, nth=2), lambda: switch(hall.deployment, A), lambda: _prune(hall)
    )
    assert (answer.space_id, answer.epoch) == (OLD.id, before.epoch)
    assert [hit.meme_id for hit in answer.hits] == [picture.meme_id]
    async with hall.uow.begin(A) as tx:
        assert (await tx.search.coverage(OLD.id)).searchable == 0, "the vectors it told of are gone"


async def test_a_query_that_leaves_a_legacy_index_behind_is_decided_again(hall: Hall) -> None:
    (picture,) = await hall.hang("cat")
    state = await hall.state()
    await _build(hall)
    await put(hall, evolve(state, mode=SearchMode.LEGACY_ONLY, epoch=state.epoch + 1))

    async def meanwhile() -> None:
        await start(hall.deployment, A)
        await switch(hall.deployment, A)

    answer = await hall.ask(deployment=hall.interposed("generations", "nearest", meanwhile))
    assert (answer.source.value, answer.epoch) == ("incremental", state.epoch + 3)
    assert [hit.meme_id for hit in answer.hits] == [picture.meme_id]


async def test_a_vector_is_not_published_over_an_edit_that_came_first(hall: Hall, direct: str) -> None:
    picture, kept = await hall.hang("cat", "another cat")
    held = Held[Answered](gram_vector("cat", NEW.dimension))
    hall.new_model.script.then(held)
    running = asyncio.create_task(hall.fill())
    await soon(held.started.wait())
    async with hall.uow.begin(A) as edit:
        await hall.write(edit, picture, "dog")
        held.release()
        await waiting(direct)
    (page,) = await soon(running)
    assert (page.embedded, page.changed) == (1, 1)
    async with hall.uow.begin(A) as tx:
        assert list(await tx.migration.first_missing(NEW, 10)) == [picture.meme_id]
    assert await hall.found() == {kept.meme_id}


async def test_an_edit_waits_for_a_vector_that_is_being_published_and_withdraws_it(hall: Hall, direct: str) -> None:
    picture, kept = await hall.hang("cat", "another cat")

    async def edit() -> None:
        async with hall.uow.begin(A) as tx:
            await hall.write(tx, picture, "dog")

    editing: list[asyncio.Task[None]] = []

    async def meanwhile() -> None:
        editing.append(asyncio.create_task(edit()))
        await waiting(direct)

    (page,) = [page async for page in embed(hall.interposed("search", "publish", meanwhile), A, Embedding(NEW))]
    await soon(asyncio.gather(*editing))
    assert page.embedded == 2
    await switch(hall.deployment, A, allow_missing=1)
    assert await hall.found() == {kept.meme_id}


async def test_pruning_leaves_a_space_that_was_gone_back_to_meanwhile(hall: Hall) -> None:
    (picture,) = await hall.hang("cat")
    await hall.fill()
    await switch(hall.deployment, A)

    async def meanwhile() -> None:
        await soon(rollback(hall.deployment, A, OLD))

    assert Kind.TEXT_VECTORS not in await _prune(hall, hall.interposed("migration", "lock", meanwhile))
    answer = await hall.ask()
    assert (answer.space_id, [hit.meme_id for hit in answer.hits]) == (OLD.id, [picture.meme_id])


async def test_going_back_waits_for_pruning_and_sees_what_it_left(hall: Hall, direct: str) -> None:
    (picture,) = await hall.hang("cat")
    await hall.fill()
    await switch(hall.deployment, A)
    going: list[asyncio.Task[SearchState]] = []

    async def meanwhile() -> None:
        going.append(asyncio.create_task(rollback(hall.deployment, A, OLD)))
        await waiting(direct)

    assert (await _prune(hall, hall.interposed("retention", "delete_vectors", meanwhile)))[Kind.TEXT_VECTORS] == 1
    with pytest.raises(SearchIncomplete):
        await soon(going[0])
    answer = await hall.ask()
    assert (answer.space_id, [hit.meme_id for hit in answer.hits]) == (NEW.id, [picture.meme_id])


async def _prune(hall: Hall, deployment: Deployment | None = None) -> Counter[Kind]:
    """Prune as a process does that has the new model alone."""
    process = evolve(deployment or hall.deployment, text=hall.new_model, more_text=())
    total: Counter[Kind] = Counter()
    async for counts in prune(process, NoBlobs(), A, Pruning(LEAST_AGE, vectors=True)):
        total.update(counts)
    return +total


async def _build(hall: Hall) -> None:
    """Build a legacy generation of what can be found."""
    await request_generation(hall.deployment, A)
    (execution,) = await claim_tasks(hall.deployment, A, TaskType.CACHE, 1, OWNER)
    await build_generation(hall.deployment, execution)
