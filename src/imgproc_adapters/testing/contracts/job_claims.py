"""The same primitive over jobs."""

from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, make_job, make_meme
from imgproc_adapters.testing.seed import (
    ANOTHER,
    MINUTE,
    NO_TIME,
    OWNER,
    A,
    B,
    read_job,
    store,
    store_jobs,
)
from imgproc_adapters.testing.world import World
from imgproc_domain import job as jobs
from imgproc_domain.diagnosis import Diagnosis, ErrorCode

WENT_WRONG = Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was deleted or replaced")


class JobClaimStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_a_due_job_is_claimed_under_the_next_generation(self, world: World) -> None:
        (due,) = await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            (claimed,) = await tx.job_claims.claim_due(10, OWNER, MINUTE)
        assert claimed.job_id == due.job_id
        assert (claimed.lease.owner, claimed.lease.generation) == (OWNER, 1)
        assert await read_job(world, due) == claimed

    async def test_jobs_are_claimed_oldest_first_and_no_more_than_asked_for(self, world: World) -> None:
        memes = [make_meme(A) for _ in range(3)]
        due = [make_job(meme, due_at=LONG_AGO + i * MINUTE) for i, meme in zip((2, 0, 1), memes, strict=True)]
        await store(world, *memes, *due)
        async with world.uow.begin(A) as tx:
            first = await tx.job_claims.claim_due(2, OWNER, MINUTE)
            rest = await tx.job_claims.claim_due(2, OWNER, MINUTE)
        assert {j.job_id for j in first} == {due[1].job_id, due[2].job_id}
        assert [j.job_id for j in rest] == [due[0].job_id]

    async def test_a_job_that_waits_or_is_not_due_yet_is_not_claimed(self, world: World) -> None:
        memes = [make_meme(A), make_meme(A)]
        await store(world, *memes, make_job(memes[0], due_at=None))
        async with world.uow.begin(A) as tx:
            await tx.jobs.add([make_job(memes[1], due_at=await tx.now() + timedelta(hours=1))])
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.claim_due(10, OWNER, MINUTE)

    async def test_a_job_that_somebody_holds_is_not_claimed(self, world: World) -> None:
        await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            await tx.job_claims.claim_due(10, OWNER, MINUTE)
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.claim_due(10, ANOTHER, MINUTE)

    async def test_a_job_whose_lease_has_expired_is_claimed_again_and_its_old_claim_is_void(self, world: World) -> None:
        await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            (first,) = await tx.job_claims.claim_due(10, OWNER, NO_TIME)
        async with world.uow.begin(A) as tx:
            (second,) = await tx.job_claims.claim_due(10, ANOTHER, MINUTE)
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.lock([first.claim])
            assert list(await tx.job_claims.lock([second.claim])) == [second.job_id]
        assert second.lease.generation == first.lease.generation + 1

    async def test_an_expired_claim_of_a_job_is_not_current(self, world: World) -> None:
        await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            (claimed,) = await tx.job_claims.claim_due(10, OWNER, NO_TIME)
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.lock([claimed.claim])

    async def test_a_job_that_is_over_is_never_claimed_again(self, world: World) -> None:
        (job,) = await store_jobs(world, 1)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([job.meme_id])
            locked = await tx.jobs.lock([job.job_id])
            await tx.jobs.save([jobs.close(locked[job.job_id], WENT_WRONG, await tx.now())])
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.claim_due(10, OWNER, MINUTE)

    async def test_jobs_that_another_transaction_holds_are_skipped(self, world: World) -> None:
        await store_jobs(world, 3)
        async with world.uow.begin(A) as holder, world.uow.begin(A) as tx:
            held = await holder.job_claims.claim_due(2, OWNER, MINUTE)
            others = await tx.job_claims.claim_due(3, ANOTHER, MINUTE)
        assert len(others) == 1
        assert not {j.job_id for j in held} & {j.job_id for j in others}

    async def test_claims_on_jobs_of_another_scope_are_void(self, world: World) -> None:
        await store_jobs(world, 1, scope=B)
        async with world.uow.begin(B) as tx:
            (foreign,) = await tx.job_claims.claim_due(10, OWNER, MINUTE)
        async with world.uow.begin(A) as tx:
            assert not await tx.job_claims.claim_due(10, OWNER, MINUTE)
            assert not await tx.job_claims.lock([foreign.claim, evolve(foreign.claim, scope=A)])
