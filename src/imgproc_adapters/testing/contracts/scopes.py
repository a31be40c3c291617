"""Two scopes whose rows have the same ids: no statement touches a row without its scope (I1)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from attrs import evolve, frozen

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_attempt,
    make_context,
    make_grant,
    make_job,
    make_meme,
    make_release,
    make_task,
    make_text_product,
    make_words,
    vector,
)
from imgproc_adapters.testing.seed import MINUTE, NO_TIME, OWNER, A, B, claim, store, store_jobs, store_tasks
from imgproc_adapters.testing.world import World
from imgproc_domain import attempt as attempts
from imgproc_domain import grant as grants
from imgproc_domain import job as jobs
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt
from imgproc_domain.context import Context
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.grant import Grant
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.policy import Operation
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage
from imgproc_domain.stage import IMAGE_TASK_TYPES, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

WENT_WRONG: Final = Diagnosis(ErrorCode.VISUAL_FAILED, "it went wrong")
KEY: Final = "key-1"


@frozen
class Rows:
    """One row of each kind, of one scope."""

    meme: Meme
    context: Context
    job: Job
    visual: Task
    agent: Task
    grant: Grant
    attempt: Attempt

    def twin(self) -> "Rows":
        """Return rows of the other scope that differ in nothing but it, and in one thing each by which to tell them."""
        return Rows(
            meme=evolve(self.meme, scope=B, filename="twin.png"),
            context=evolve(self.context, scope=B, revision=self.context.revision + 1),
            job=evolve(self.job, scope=B, updated_at=LONG_AGO + MINUTE),
            visual=evolve(self.visual, scope=B, failures=1),
            agent=evolve(self.agent, scope=B, failures=2),
            grant=evolve(self.grant, scope=B, reservation="twin"),
            attempt=evolve(self.attempt, scope=B, session_id="f" * 32),
        )


def _rows() -> Rows:
    meme = make_meme(A)
    job = make_job(meme)
    visual, agent = make_task(job), make_task(job, Stage.AGENT)
    return Rows(meme, make_context(meme), job, visual, agent, make_grant(agent, key=KEY), make_attempt(agent))


async def _store(world: World, rows: Rows) -> None:
    await store(world, rows.meme, rows.context, rows.job, rows.visual, rows.agent, rows.grant, rows.attempt)
    async with world.uow.begin(rows.meme.scope) as tx:
        product = make_text_product(rows.meme, rows.context, vector(1), world.text_space)
        await tx.products.put_text([product])
        await tx.search.publish([product], make_words((rows.meme, rows.context)))
        await tx.releases.add([make_release(KEY)])


async def _twins(world: World) -> tuple[Rows, Rows]:
    rows = _rows()
    twin = rows.twin()
    await _store(world, rows)
    await _store(world, twin)
    return rows, twin


async def _seen(world: World, scope: Scope, rows: Rows) -> Mapping[str, object]:
    """Read by the shared ids all that a scope has, in several ways."""
    meme_id, job_id = rows.meme.meme_id, rows.job.job_id
    async with world.uow.begin(scope) as tx:
        return {
            "memes": [await tx.memes.get([meme_id]), await tx.memes.lock([meme_id])],
            "content": await tx.memes.by_content([rows.meme.picture.sha256]),
            "contexts": await tx.contexts.get([meme_id]),
            "jobs": [await tx.jobs.get([job_id]), await tx.jobs.lock([job_id])],
            "newest": await tx.jobs.newest([meme_id]),
            "job page": (await tx.jobs.page(None, 10)).jobs,
            "tasks": await tx.tasks.get([rows.visual.task_id, rows.agent.task_id]),
            "busy": await tx.tasks.busy([meme_id]),
            "task page": (await tx.tasks.page(None, 10)).tasks,
            "attempts": await tx.attempts.last([rows.agent.task_id]),
            "grants": [
                await tx.grants.by_key(Operation.ANALYSIS_AGENT, [KEY]),
                await tx.grants.lock([rows.grant.grant_id]),
            ],
            "releases": await tx.releases.pending(10),
            "found": await tx.search.nearest(world.text_space.id, vector(1), 10),
            "worded": await tx.search.worded(world.text_space.id, vector(1), ["cat"], 10),
            "counted": await tx.memes.count(),
            "coverage": await tx.search.coverage(world.text_space.id),
        }


async def _claim_a_task(tx: Transaction, _rows: Rows) -> None:
    await tx.claims.claim(TaskType.VISUAL, 10, OWNER, MINUTE)


async def _claim_a_job(tx: Transaction, _rows: Rows) -> None:
    await tx.job_claims.claim_due(10, OWNER, MINUTE)


async def _end_a_task(tx: Transaction, rows: Rows) -> None:
    (claimed,) = await tx.claims.claim(TaskType.VISUAL, 10, OWNER, MINUTE)
    assert claimed.task_id == rows.visual.task_id
    await tx.claims.save([tasks.fail(claimed, WENT_WRONG, await tx.now())])


async def _open_a_stage(tx: Transaction, rows: Rows) -> None:
    await tx.memes.lock([rows.meme.meme_id])
    (job,) = (await tx.jobs.lock([rows.job.job_id])).values()
    await tx.jobs.save([jobs.open_stage(job, Stage.VISUAL, rows.visual.task_id, await tx.now())])


async def _fail_an_attempt(tx: Transaction, rows: Rows) -> None:
    await tx.attempts.save([(rows.attempt.status, attempts.fail(rows.attempt, WENT_WRONG, LONG_AGO))])


async def _commit_a_grant(tx: Transaction, rows: Rows) -> None:
    (grant,) = (await tx.grants.lock([rows.grant.grant_id])).values()
    await tx.grants.save([grants.commit(grant, LONG_AGO + MINUTE)])


async def _finish_a_release(tx: Transaction, _rows: Rows) -> None:
    await tx.releases.finish([(Operation.ANALYSIS_AGENT, KEY)])


async def _delete_a_meme(tx: Transaction, rows: Rows) -> None:
    (meme,) = (await tx.memes.lock([rows.meme.meme_id])).values()
    await tx.memes.save(evolve(meme, deleted_at=LONG_AGO + MINUTE))
    await tx.search.refresh([rows.meme.meme_id])


async def _change_words(tx: Transaction, rows: Rows) -> None:
    await tx.memes.lock([rows.meme.meme_id])
    await tx.contexts.put([make_context(rows.meme, "other words", revision=9)])
    await tx.search.refresh([rows.meme.meme_id])


DEEDS: Final[tuple[Callable[[Transaction, Rows], Awaitable[None]], ...]] = (
    _claim_a_task,
    _claim_a_job,
    _end_a_task,
    _open_a_stage,
    _fail_an_attempt,
    _commit_a_grant,
    _finish_a_release,
    _delete_a_meme,
    _change_words,
)


class ScopeContract:
    pytestmark = pytest.mark.asyncio

    async def test_each_scope_reads_its_own_rows(self, world: World) -> None:
        rows, twin = await _twins(world)
        for scope, own in ((A, rows), (B, twin)):
            seen: Mapping[str, Any] = await _seen(world, scope, rows)
            assert seen["memes"] == [{own.meme.meme_id: own.meme}] * 2
            assert seen["content"] == {own.meme.picture.sha256: own.meme}
            assert seen["contexts"] == {own.meme.meme_id: own.context}
            assert seen["jobs"] == [{own.job.job_id: own.job}] * 2
            assert (seen["newest"], seen["job page"]) == ({own.meme.meme_id: own.job}, (own.job,))
            assert seen["tasks"] == {own.visual.task_id: own.visual, own.agent.task_id: own.agent}
            assert (seen["busy"], seen["task page"]) == ([own.visual, own.agent], (own.agent, own.visual))
            assert seen["attempts"] == {own.agent.task_id: own.attempt}
            assert seen["grants"] == [{KEY: own.grant}, {own.grant.grant_id: own.grant}]
            found = (seen["found"], seen["worded"])
            assert [[n.meme_id for n in some] for some in found] == [[own.meme.meme_id]] * 2
            assert (len(seen["releases"]), seen["counted"], seen["coverage"]) == (1, 1, Coverage(1, 1))

    @pytest.mark.parametrize("deed", DEEDS)
    async def test_what_one_scope_does_changes_nothing_of_another(
        self, world: World, deed: Callable[[Transaction, Rows], Awaitable[None]]
    ) -> None:
        rows, _ = await _twins(world)
        before = [await _seen(world, scope, rows) for scope in (A, B)]
        async with world.uow.begin(A) as tx:
            await deed(tx, rows)
        after = [await _seen(world, scope, rows) for scope in (A, B)]
        assert after[0] != before[0]
        assert after[1] == before[1]

    async def test_a_claim_is_locked_as_the_row_of_its_own_scope(self, world: World) -> None:
        await _twins(world)
        (claimed,) = await claim(world, scope=A)
        async with world.uow.begin(A) as tx:
            assert (await tx.claims.lock([claimed.claim]))[claimed.task_id].status is TaskStatus.RUNNING
        async with world.uow.begin(B) as tx:
            foreign = evolve(claimed.claim, scope=B)
            assert (await tx.claims.lock([foreign]))[claimed.task_id].status is TaskStatus.QUEUED
            assert not await tx.claims.lock([claimed.claim])

    async def test_leases_expire_scope_by_scope(self, world: World) -> None:
        await _twins(world)
        for scope in (A, B):
            await claim(world, lease=NO_TIME, scope=scope)
        async with world.uow.begin(A) as tx:
            assert [task.scope for task in await tx.claims.lock_expired(IMAGE_TASK_TYPES, 10)] == [A]

    async def test_a_renewal_lengthens_no_lease_of_another_scope(self, world: World) -> None:
        await _twins(world)
        (mine,), (foreign,) = [await claim(world, scope=scope) for scope in (A, B)]
        await asyncio.to_thread(world.heartbeat.renew, [mine.claim], 60 * MINUTE)
        async with world.uow.begin(B) as tx:
            assert (await tx.tasks.get([foreign.task_id]))[foreign.task_id] == foreign

    async def test_older_work_of_another_scope_takes_no_place(self, world: World) -> None:
        await store_tasks(world, 3, scope=B)
        (job,) = await store_jobs(world, 1)
        late = make_task(job, available_at=LONG_AGO + MINUTE)
        await store(world, late)
        assert [task.task_id for task in await claim(world, limit=1)] == [late.task_id]

    async def test_older_jobs_of_another_scope_take_no_place(self, world: World) -> None:
        await store_jobs(world, 3, scope=B)
        meme = make_meme(A)
        late = make_job(meme, due_at=LONG_AGO + MINUTE)
        await store(world, meme, late)
        async with world.uow.begin(A) as tx:
            assert [job.job_id for job in await tx.job_claims.claim_due(1, OWNER, MINUTE)] == [late.job_id]
