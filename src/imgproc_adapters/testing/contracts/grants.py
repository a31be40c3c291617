"""Grants, and the outbox of releases."""

import asyncio

import pytest

from imgproc_adapters.testing.factories import LONG_AGO, make_grant, make_release
from imgproc_adapters.testing.seed import MINUTE, A, B, new_tasks, store
from imgproc_adapters.testing.world import World
from imgproc_domain import grant as grants
from imgproc_domain.errors import Conflict
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.policy import Operation
from imgproc_domain.stage import Stage

AGENT = Operation.ANALYSIS_AGENT


class GrantStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_grant_is_found_by_its_logical_request_key(self, world: World) -> None:
        (task,) = await new_tasks(world, 1, Stage.AGENT)
        grant = make_grant(task, key="key-1")
        await store(world, task, grant)
        async with world.uow.begin(A) as tx:
            assert await tx.grants.by_key(AGENT, ["key-1", "key-2"]) == {"key-1": grant}
            assert not await tx.grants.by_key(Operation.IMAGE_UPLOAD, ["key-1"])

    async def test_grants_are_read_while_another_transaction_holds_them(self, world: World) -> None:
        (task,) = await new_tasks(world, 1, Stage.AGENT)
        (foreign,) = await new_tasks(world, 1, Stage.AGENT, scope=B)
        grant, other = make_grant(task), make_grant(foreign)
        await store(world, task, grant)
        await store(world, foreign, other)
        async with world.uow.begin(A) as holder, world.uow.begin(A) as tx:
            await holder.grants.lock([grant.grant_id])
            assert await tx.grants.get([grant.grant_id, grant.grant_id, other.grant_id]) == {grant.grant_id: grant}
            assert await tx.grants.get([]) == {}

    async def test_a_logical_request_has_one_grant_of_an_operation(self, world: World) -> None:
        first, second, third = await new_tasks(world, 3, Stage.AGENT)
        await store(world, first, make_grant(first, key="key-1"))
        await store(world, second, make_grant(second, key="key-1", operation=Operation.REVERSE_IMAGE_SEARCH))
        with pytest.raises(Conflict):
            await store(world, third, make_grant(third, key="key-1"))

    async def test_the_same_key_in_another_scope_is_another_request(self, world: World) -> None:
        (own,) = await new_tasks(world, 1, Stage.AGENT, scope=A)
        (foreign,) = await new_tasks(world, 1, Stage.AGENT, scope=B)
        await store(world, own, make_grant(own, key="key-1"))
        await store(world, foreign, make_grant(foreign, key="key-1"))
        async with world.uow.begin(A) as tx:
            assert (await tx.grants.by_key(AGENT, ["key-1"]))["key-1"].task_id == own.task_id

    async def test_of_two_concurrent_grants_of_one_key_one_is_refused(self, world: World) -> None:
        pairs = [(task, make_grant(task, key="key-1")) for task in await new_tasks(world, 2, Stage.AGENT)]
        answers = await asyncio.gather(*(store(world, *pair) for pair in pairs), return_exceptions=True)
        assert sorted(isinstance(answer, Conflict) for answer in answers) == [False, True]

    async def test_every_step_is_read_back_as_it_was_saved(self, world: World) -> None:
        (task,) = await new_tasks(world, 1, Stage.AGENT)
        grant = make_grant(task)
        await store(world, task, grant)
        committed = grants.commit(grant, LONG_AGO + MINUTE)
        for after in (committed, grants.lose(committed, LONG_AGO + 2 * MINUTE)):
            async with world.uow.begin(A) as tx:
                await tx.grants.lock([grant.grant_id])
                await tx.grants.save([after])
            async with world.uow.begin(A) as tx:
                assert await tx.grants.lock([grant.grant_id]) == {grant.grant_id: after}

    async def test_a_grant_is_locked_until_its_transaction_ends(self, world: World) -> None:
        (task,) = await new_tasks(world, 1, Stage.AGENT)
        grant, asking = make_grant(task), asyncio.Event()
        await store(world, task, grant)

        async def late() -> Grant:
            async with world.uow.begin(A) as tx:
                asking.set()
                return (await tx.grants.lock([grant.grant_id]))[grant.grant_id]

        async with world.uow.begin(A) as tx:
            locked = (await tx.grants.lock([grant.grant_id]))[grant.grant_id]
            waiting = asyncio.create_task(late())
            await asking.wait()
            await tx.grants.save([grants.release(locked, LONG_AGO)])
        assert (await waiting).status is GrantStatus.RELEASED

    async def test_foreign_grants_cannot_be_locked(self, world: World) -> None:
        (task,) = await new_tasks(world, 1, Stage.AGENT, scope=B)
        grant = make_grant(task)
        await store(world, task, grant)
        async with world.uow.begin(A) as tx:
            assert not await tx.grants.lock([grant.grant_id])


class ReleaseOutboxContract:
    pytestmark = pytest.mark.asyncio

    async def test_releases_are_pending_oldest_first_until_they_are_done(self, world: World) -> None:
        releases = [make_release(f"key-{i}", at=LONG_AGO + i * MINUTE) for i in (2, 1, 3)]
        async with world.uow.begin(A) as tx:
            await tx.releases.add(releases)
        async with world.uow.begin(A) as tx:
            assert [r.logical_request_key for r in await tx.releases.pending(2)] == ["key-1", "key-2"]
            await tx.releases.finish([(AGENT, "key-1"), (AGENT, "key-3"), (AGENT, "unknown")])
        async with world.uow.begin(A) as tx:
            assert list(await tx.releases.pending(10)) == [releases[0]]

    async def test_a_release_added_again_changes_nothing_even_when_it_is_done(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release("key-1")])
            await tx.releases.finish([(AGENT, "key-1")])
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release("key-1", at=LONG_AGO + MINUTE), make_release("key-2")])
        async with world.uow.begin(A) as tx:
            assert [r.logical_request_key for r in await tx.releases.pending(10)] == ["key-2"]

    async def test_a_release_is_a_tombstone_of_its_key_whether_done_or_not(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release("pending"), make_release("done")])
            await tx.releases.finish([(AGENT, "done")])
        asked = ["pending", "done", "unknown"]
        async with world.uow.begin(A) as tx:
            assert set(await tx.releases.tombstones(AGENT, asked)) == {"pending", "done"}
            assert not await tx.releases.tombstones(Operation.IMAGE_UPLOAD, asked)
        async with world.uow.begin(B) as tx:
            assert not await tx.releases.tombstones(AGENT, asked)
            assert not await tx.releases.pending(10)

    async def test_releases_that_another_transaction_holds_are_skipped(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release("key-1"), make_release("key-2", at=LONG_AGO + MINUTE)])
        async with world.uow.begin(A) as holder, world.uow.begin(A) as tx:
            assert [r.logical_request_key for r in await holder.releases.pending(1)] == ["key-1"]
            assert [r.logical_request_key for r in await tx.releases.pending(10)] == ["key-2"]
