"""One transaction, one scope."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import make_grant, make_job, make_meme, make_task
from imgproc_adapters.testing.seed import A, B, rolled_back, store, store_jobs
from imgproc_adapters.testing.world import World
from imgproc_domain.errors import Conflict
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.stage import Stage


async def _exists(world: World, meme: Meme) -> bool:
    async with world.uow.begin(meme.scope) as tx:
        return meme.meme_id in await tx.memes.get([meme.meme_id])


class UnitOfWorkContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_block_that_ends_is_kept(self, world: World) -> None:
        meme = make_meme(A)
        async with world.uow.begin(A) as tx:
            await tx.memes.add(meme)
            assert (await tx.memes.get([meme.meme_id]))[meme.meme_id] == meme
        assert await _exists(world, meme)

    async def test_a_block_that_raises_leaves_nothing(self, world: World) -> None:
        meme = make_meme(A)
        async with rolled_back(world) as tx:
            await tx.memes.add(meme)
            await tx.jobs.add([make_job(meme)])
        async with world.uow.begin(A) as tx:
            assert not await tx.memes.get([meme.meme_id])
            assert not await tx.jobs.newest([meme.meme_id])

    async def test_a_block_that_is_cancelled_leaves_nothing(self, world: World) -> None:
        meme, written = make_meme(A), asyncio.Event()

        async def write_and_hang() -> None:
            async with world.uow.begin(A) as tx:
                await tx.memes.add(meme)
                written.set()
                await asyncio.Event().wait()

        hanging = asyncio.create_task(write_and_hang())
        await written.wait()
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert not await _exists(world, meme)

    async def test_what_is_not_committed_is_not_seen_by_others(self, world: World) -> None:
        meme = make_meme(A)
        async with world.uow.begin(A) as tx:
            await tx.memes.add(meme)
            assert not await _exists(world, meme)

    async def test_what_others_commit_is_seen_by_the_next_statement(self, world: World) -> None:
        meme = make_meme(A)
        async with world.uow.begin(A) as tx:
            assert not await tx.memes.get([meme.meme_id])
            await store(world, meme)
            assert await tx.memes.get([meme.meme_id])

    async def test_rows_of_another_scope_are_like_unknown_ones(self, world: World) -> None:
        (foreign,) = await store_jobs(world, 1, scope=B)
        async with world.uow.begin(A) as tx:
            assert tx.scope == A
            assert not await tx.memes.get([foreign.meme_id])
            assert not await tx.memes.lock([foreign.meme_id])
            assert not await tx.jobs.get([foreign.job_id])
            assert not await tx.jobs.lock([foreign.job_id])
            assert await tx.memes.count() == 0

    async def test_a_conflict_keeps_nothing_even_if_it_is_swallowed(self, world: World) -> None:
        first, double, other = make_meme(A, content="same"), make_meme(A, content="same"), make_meme(A)
        await store(world, first)
        with suppress(Conflict):
            async with world.uow.begin(A) as tx:
                await tx.memes.add(other)
                with suppress(Conflict):
                    await tx.memes.add(double)
        assert not await _exists(world, other)

    async def test_a_write_of_a_row_that_is_gone_keeps_nothing_even_if_its_conflict_is_swallowed(
        self, world: World
    ) -> None:
        (stored,) = await store_jobs(world, 1)
        other = make_meme(A)
        saves: tuple[Callable[[Transaction], Awaitable[None]], ...] = (
            lambda tx: tx.memes.save(make_meme(A)),
            lambda tx: tx.jobs.save([make_job(make_meme(A))]),
            lambda tx: tx.claims.save([make_task(stored)]),
            lambda tx: tx.grants.save([make_grant(make_task(stored, Stage.AGENT))]),
        )

        async def add_and_save(save: Callable[[Transaction], Awaitable[None]]) -> None:
            async with world.uow.begin(A) as tx:
                await tx.memes.add(other)
                with suppress(Conflict):
                    await save(tx)

        for save in saves:
            with pytest.raises(Conflict):
                await add_and_save(save)
            assert not await _exists(world, other)

    async def test_time_is_utc_and_moves_on_within_a_transaction(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            times = [await tx.now() for _ in range(3)]
        assert times == sorted(times)
        assert all(time.utcoffset() == timedelta(0) for time in times)

    async def test_whoever_waits_for_a_lock_sees_what_its_holder_wrote(self, world: World) -> None:
        meme, asking = make_meme(A), asyncio.Event()
        await store(world, meme)

        async def rename() -> Meme:
            async with world.uow.begin(A) as tx:
                asking.set()
                locked = (await tx.memes.lock([meme.meme_id]))[meme.meme_id]
                await tx.memes.save(evolve(locked, filename=f"second-{locked.filename}"))
                return locked

        async with world.uow.begin(A) as tx:
            locked = (await tx.memes.lock([meme.meme_id]))[meme.meme_id]
            second = asyncio.create_task(rename())
            await asking.wait()
            await tx.memes.save(evolve(locked, filename="first.png"))
        assert (await second).filename == "first.png"
        async with world.uow.begin(A) as tx:
            assert (await tx.memes.get([meme.meme_id]))[meme.meme_id].filename == "second-first.png"

    async def test_a_lock_ends_with_its_transaction_also_when_it_is_rolled_back(self, world: World) -> None:
        meme = make_meme(A)
        await store(world, meme)
        async with rolled_back(world) as tx:
            await tx.memes.lock([meme.meme_id])
        async with world.uow.begin(A) as tx:
            assert await tx.memes.lock([meme.meme_id])

    async def test_of_two_transactions_that_wait_for_each_other_one_ends_with_a_conflict(self, world: World) -> None:
        memes = [make_meme(A), make_meme(A)]
        await store(world, *memes)
        both = asyncio.Barrier(2)

        async def lock(first: Meme, second: Meme) -> bool:
            async with world.uow.begin(A) as tx:
                await tx.memes.lock([first.meme_id])
                await both.wait()
                try:
                    return bool(await tx.memes.lock([second.meme_id]))
                except Conflict:
                    return False

        won = await asyncio.gather(lock(*memes), lock(*reversed(memes)), return_exceptions=True)
        assert sum(answer is True for answer in won) == 1

    async def test_many_transactions_at_once_lose_no_write(self, world: World) -> None:
        meme = make_meme(A, filename="x")
        await store(world, meme)

        async def append() -> None:
            async with world.uow.begin(A) as tx:
                locked = (await tx.memes.lock([meme.meme_id]))[meme.meme_id]
                await tx.memes.save(evolve(locked, filename=f"{locked.filename}x"))

        await asyncio.gather(*(append() for _ in range(9)))
        async with world.uow.begin(A) as tx:
            assert (await tx.memes.get([meme.meme_id]))[meme.meme_id].filename == "x" * 10
