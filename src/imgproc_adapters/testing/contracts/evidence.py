"""Late results, unknown executions, and their resolutions."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_attempt
from imgproc_adapters.testing.seed import MINUTE, A, B, claim, rolled_back, store, store_tasks
from imgproc_adapters.testing.world import World
from imgproc_domain import attempt as attempts
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import TaskId
from imgproc_domain.lane import Slot
from imgproc_domain.outcome import Kind
from imgproc_domain.ports.evidence import LateResult, Resolution, Resolved
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, Stage

LOST = Diagnosis(ErrorCode.AGENT_TIMEOUT, "no answer within 30 s")
UNKNOWN = Diagnosis(ErrorCode.UNKNOWN_EXECUTION, "nobody knows whether it was made")
FOUND_OUT = Resolution("it was not billed", "request r-1, 猫 in the console", True, False, "an operator")
LATER = LONG_AGO + MINUTE
SOME_DAY = LONG_AGO + timedelta(days=36_500)


def late_result(attempt: Attempt, generation: int = 1) -> LateResult:
    return LateResult(
        scope=attempt.scope,
        task_id=attempt.task_id,
        attempt_id=attempt.attempt_id,
        generation=generation,
        fence=Fence.GENERATION,
        outcome=Kind.SUCCEEDED,
        error=None,
        noted_at=LONG_AGO,
    )


def resolved_at_last(attempt: Attempt, resolution: Resolution = FOUND_OUT) -> Resolved:
    return Resolved(attempt.scope, attempt.task_id, attempt.attempt_id, resolution, LATER)


async def store_unknown(world: World, count: int, scope: Scope = A) -> list[Attempt]:
    """Store tasks whose one attempt ended as unknown, oldest task first."""
    await store_tasks(world, count, Stage.AGENT, scope)
    made = []
    for task in await claim(world, count, stage=Stage.AGENT, scope=scope):
        started = attempts.start_external(attempts.commit_grant(make_attempt(task)), LONG_AGO, LATER)
        made.append(attempts.lose(started, LOST, LATER))
        async with world.uow.begin(scope) as tx:
            (locked,) = (await tx.claims.lock([task.claim])).values()
            await tx.claims.save([tasks.fail(locked, UNKNOWN, await tx.now())])
    await store(world, *made)
    return sorted(made, key=lambda attempt: attempt.task_id)


async def _hold(world: World, holders: Sequence[Slot]) -> None:
    async with world.uow.begin(A) as tx:
        await tx.slots.resize(Lane.AGENT, 9)
    for holder in holders:
        assert holder.scope is not None
        async with world.uow.begin(holder.scope) as tx:
            (free,) = await tx.slots.take(Lane.AGENT, 1)
            await tx.slots.hold([evolve(holder, number=free.number)])


class EvidenceStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_late_result_is_read_back_as_it_was_noted(self, world: World) -> None:
        first, second = await store_unknown(world, 2)
        later = evolve(late_result(first), fence=Fence.NOT_RUNNING, outcome=Kind.UNKNOWN, error=LOST, noted_at=LATER)
        earlier, other = late_result(first, 2), late_result(second)
        async with world.uow.begin(A) as tx:
            await tx.evidence.note([later, other])
            await tx.evidence.note([earlier])
        async with world.uow.begin(A) as tx:
            assert list(await tx.evidence.late_results([first.task_id])) == [earlier, later]
            assert set(await tx.evidence.late_results([first.task_id, second.task_id])) == {earlier, later, other}
            assert not await tx.evidence.late_results([])

    async def test_a_claim_has_one_late_result_which_stays_as_it_is(self, world: World) -> None:
        (attempt,) = await store_unknown(world, 1)
        once = late_result(attempt)
        again = evolve(once, outcome=Kind.FAILED, error=LOST, noted_at=LATER)
        async with world.uow.begin(A) as tx:
            await tx.evidence.note([once, again])
        async with world.uow.begin(A) as tx:
            await tx.evidence.note([again])
            await tx.evidence.note([])
        async with world.uow.begin(A) as tx:
            assert list(await tx.evidence.late_results([attempt.task_id])) == [once]

    async def test_a_late_result_that_is_rolled_back_was_never_noted(self, world: World) -> None:
        (attempt,) = await store_unknown(world, 1)
        async with rolled_back(world) as tx:
            await tx.evidence.note([late_result(attempt)])
        async with world.uow.begin(A) as tx:
            assert not await tx.evidence.late_results([attempt.task_id])

    async def test_the_attempts_of_a_task_come_by_their_number(self, world: World) -> None:
        first, second = await store_tasks(world, 2)
        made = [make_attempt(first, number) for number in (10, 2, 9)]
        await store(world, *made, make_attempt(second))
        async with world.uow.begin(A) as tx:
            assert [a.attempt_no for a in await tx.evidence.attempts(first.task_id)] == [2, 9, 10]
            assert set(await tx.evidence.attempts(first.task_id)) == set(made)

    async def test_unknown_attempts_come_newest_first_page_by_page(self, world: World) -> None:
        lost = await store_unknown(world, 3)
        (other,) = await store_tasks(world, 1)
        await store(world, make_attempt(other))
        seen: list[Attempt] = []
        after: TaskId | None = None
        for expected in (2, 1):
            async with world.uow.begin(A) as tx:
                page = await tx.evidence.unknown(after, 2)
            assert len(page.attempts) == expected
            seen += page.attempts
            after = page.after
        assert (seen, after) == (lost[::-1], None)

    async def test_a_full_last_page_has_no_next(self, world: World) -> None:
        await store_unknown(world, 2)
        async with world.uow.begin(A) as tx:
            assert (await tx.evidence.unknown(None, 2)).after is None

    async def test_unknown_attempts_are_told_apart_by_their_resolution(self, world: World) -> None:
        closed, still_open = await store_unknown(world, 2)
        async with world.uow.begin(A) as tx:
            assert await tx.evidence.resolve(resolved_at_last(closed))
        async with world.uow.begin(A) as tx:
            assert (await tx.evidence.unknown(None, 9, resolved=True)).attempts == (closed,)
            assert (await tx.evidence.unknown(None, 9, resolved=False)).attempts == (still_open,)
            assert (await tx.evidence.unknown(None, 9)).attempts == (still_open, closed)

    async def test_a_resolution_is_read_back_and_never_changed(self, world: World) -> None:
        first, second = await store_unknown(world, 2)
        once = resolved_at_last(first)
        another = resolved_at_last(first, evolve(FOUND_OUT, reason="something else", call_over=True))
        async with world.uow.begin(A) as tx:
            assert await tx.evidence.resolve(once)
        async with world.uow.begin(A) as tx:
            assert not await tx.evidence.resolve(another)
        async with world.uow.begin(A) as tx:
            assert list(await tx.evidence.resolutions([first.task_id, second.task_id])) == [once]
            assert not await tx.evidence.resolutions([second.task_id])
            assert not await tx.evidence.resolutions([])

    async def test_of_two_concurrent_resolutions_exactly_one_is_written(self, world: World) -> None:
        (attempt,) = await store_unknown(world, 1)

        async def resolve(reason: str) -> bool:
            async with world.uow.begin(A) as tx:
                return await tx.evidence.resolve(resolved_at_last(attempt, evolve(FOUND_OUT, reason=reason)))

        answers = await asyncio.gather(resolve("the first"), resolve("the second"))
        assert sorted(answers) == [False, True]
        async with world.uow.begin(A) as tx:
            (row,) = await tx.evidence.resolutions([attempt.task_id])
        assert row.resolution.reason == ("the first" if answers[0] else "the second")

    async def test_a_resolution_that_is_rolled_back_was_never_made(self, world: World) -> None:
        (attempt,) = await store_unknown(world, 1)
        async with rolled_back(world) as tx:
            assert await tx.evidence.resolve(resolved_at_last(attempt))
        async with world.uow.begin(A) as tx:
            assert not await tx.evidence.resolutions([attempt.task_id])

    async def test_the_slots_of_a_task_are_found_under_every_generation(self, world: World) -> None:
        mine, other = (attempt.task_id for attempt in await store_unknown(world, 2))
        (foreign,) = await store_unknown(world, 1, B)
        held = [
            Slot(Lane.AGENT, 0, A, mine, 1, SOME_DAY),
            Slot(Lane.AGENT, 0, A, other, 1),
            Slot(Lane.AGENT, 0, A, mine, 3),
            Slot(Lane.AGENT, 0, B, foreign.task_id, 1),
        ]
        await _hold(world, held)
        async with world.uow.begin(A) as tx:
            slots = await tx.evidence.slots([mine, foreign.task_id])
            assert [evolve(slot, number=0) for slot in slots] == [held[0], held[2]]
            assert not await tx.evidence.slots([])

    async def test_nothing_of_another_scope_is_seen(self, world: World) -> None:
        (foreign,) = await store_unknown(world, 1, B)
        async with world.uow.begin(B) as tx:
            await tx.evidence.note([late_result(foreign)])
            assert await tx.evidence.resolve(resolved_at_last(foreign))
        async with world.uow.begin(A) as tx:
            assert not await tx.evidence.late_results([foreign.task_id])
            assert not await tx.evidence.attempts(foreign.task_id)
            assert not (await tx.evidence.unknown(None, 9)).attempts
            assert not (await tx.evidence.unknown(None, 9, resolved=True)).attempts
            assert not await tx.evidence.resolutions([foreign.task_id])
