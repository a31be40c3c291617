"""Executions of tasks against something outside the database."""

import asyncio

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_attempt
from imgproc_adapters.testing.seed import MINUTE, A, B, rolled_back, store, store_tasks
from imgproc_adapters.testing.world import World
from imgproc_domain import attempt as attempts
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict

WENT_WRONG = Diagnosis(ErrorCode.AGENT_FAILED, "it went wrong")


async def _last(world: World, attempt: Attempt) -> Attempt | None:
    async with world.uow.begin(attempt.scope) as tx:
        return (await tx.attempts.last([attempt.task_id])).get(attempt.task_id)


async def _stored(world: World) -> Attempt:
    (task,) = await store_tasks(world, 1)
    attempt = make_attempt(task)
    await store(world, attempt)
    return attempt


class AttemptStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_the_last_attempt_is_that_of_the_highest_number(self, world: World) -> None:
        first, second, without = await store_tasks(world, 3)
        earlier, later, only = make_attempt(first, 9), make_attempt(first, 10), make_attempt(second)
        await store(world, later, earlier, only)
        async with world.uow.begin(A) as tx:
            last = await tx.attempts.last([first.task_id, second.task_id, without.task_id])
        assert last == {first.task_id: later, second.task_id: only}

    async def test_a_task_has_each_attempt_number_once(self, world: World) -> None:
        (task,) = await store_tasks(world, 1)
        await store(world, make_attempt(task, 1))
        with pytest.raises(Conflict):
            await store(world, make_attempt(task, 1))

    async def test_an_attempt_id_is_never_used_twice_in_a_scope(self, world: World) -> None:
        first, second = await store_tasks(world, 2)
        await store(world, make_attempt(first, attempt_id="a" * 32))
        with pytest.raises(Conflict):
            await store(world, make_attempt(second, attempt_id="a" * 32))

    async def test_attempts_of_another_scope_are_missing(self, world: World) -> None:
        (task,) = await store_tasks(world, 1, scope=B)
        await store(world, make_attempt(task))
        async with world.uow.begin(A) as tx:
            assert not await tx.attempts.last([task.task_id])

    async def test_every_step_is_read_back_as_it_was_saved(self, world: World) -> None:
        prepared = await _stored(world)
        committed = attempts.commit_grant(evolve(prepared, generation=2))
        started = attempts.start_external(committed, LONG_AGO, LONG_AGO + MINUTE)
        lost = attempts.lose(started, WENT_WRONG, LONG_AGO + MINUTE)
        for before, after in ((prepared, committed), (committed, started), (started, lost)):
            async with world.uow.begin(A) as tx:
                assert list(await tx.attempts.save([(before.status, after)])) == [prepared.attempt_id]
            assert await _last(world, prepared) == after

    async def test_a_step_from_another_status_than_the_stored_one_writes_nothing(self, world: World) -> None:
        prepared = await _stored(world)
        started = attempts.start_external(prepared, LONG_AGO, LONG_AGO + MINUTE)
        async with world.uow.begin(A) as tx:
            await tx.attempts.save([(AttemptStatus.PREPARED, started)])
        async with world.uow.begin(A) as tx:
            assert not await tx.attempts.save([(AttemptStatus.PREPARED, attempts.commit_grant(prepared))])
        assert await _last(world, prepared) == started

    async def test_only_the_ids_that_were_written_are_returned(self, world: World) -> None:
        first, second = await store_tasks(world, 2)
        prepared, unknown = make_attempt(first), make_attempt(second)
        await store(world, prepared)
        changes = [(a.status, attempts.fail(a, WENT_WRONG, LONG_AGO)) for a in (prepared, unknown)]
        async with world.uow.begin(A) as tx:
            assert list(await tx.attempts.save(changes)) == [prepared.attempt_id]

    async def test_of_two_concurrent_steps_exactly_one_is_written(self, world: World) -> None:
        prepared = await _stored(world)

        async def start() -> int:
            async with world.uow.begin(A) as tx:
                started = attempts.start_external(prepared, LONG_AGO, LONG_AGO + MINUTE)
                return len(await tx.attempts.save([(AttemptStatus.PREPARED, started)]))

        assert sorted(await asyncio.gather(start(), start())) == [0, 1]

    async def test_a_step_that_is_rolled_back_was_never_taken(self, world: World) -> None:
        prepared = await _stored(world)
        async with rolled_back(world) as tx:
            assert await tx.attempts.save([(AttemptStatus.PREPARED, attempts.commit_grant(prepared))])
        assert await _last(world, prepared) == prepared
