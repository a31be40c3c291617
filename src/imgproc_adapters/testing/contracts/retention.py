"""History: what is known of it, and its end."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.contracts.evidence import FOUND_OUT, LATER, LOST, late_result, resolved_at_last
from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_attempt,
    make_context,
    make_grant,
    make_job,
    make_maintenance_task,
    make_meme,
    make_release,
    make_task,
    make_text_product,
    make_visual_product,
    make_words,
    new_id,
    vector,
)
from imgproc_adapters.testing.seed import MINUTE, OWNER, A, B, read_job, rolled_back, store
from imgproc_adapters.testing.world import World
from imgproc_domain import attempt as attempts
from imgproc_domain import task as tasks
from imgproc_domain.attempt import Attempt
from imgproc_domain.claim import Claim
from imgproc_domain.context import Origin, Provenance
from imgproc_domain.ids import GenerationId, JobId, TaskId, WorkerId
from imgproc_domain.job import Job, JobStatus, StageState
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.migration import Generation
from imgproc_domain.policy import Operation
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.product import Products
from imgproc_domain.retention import JobFacts, KeyFacts, Kind, TaskFacts
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy, Stage
from imgproc_domain.task import Task

AGENT = Operation.ANALYSIS_AGENT
DEADLINE = LONG_AGO + timedelta(hours=1)


def ended_job(
    meme: Meme, revision: int = 1, *, policy: ReverseImagePolicy = ReverseImagePolicy.FORBID, agent: Task | None = None
) -> Job:
    """Return a job that succeeded long ago; its agent stage has ``agent`` as its task."""
    job = make_job(meme, revision=revision, policy=policy, due_at=None)
    return evolve(_with_agent(job, agent), status=JobStatus.SUCCEEDED, completed_at=LONG_AGO)


def _with_agent(job: Job, agent: Task | None) -> Job:
    stages = tuple(
        StageState(s.stage, JobStatus.SUCCEEDED, task_id=agent.task_id if agent and s.stage is Stage.AGENT else None)
        for s in job.stages
    )
    return evolve(job, stages=stages)


async def store_asked(world: World, meme: Meme, revision: int) -> tuple[Job, Task]:
    """Store a job that asked an agent and succeeded, with its task and grant, and return both as they are then."""
    job = ended_job(meme, revision)
    task = make_task(job, Stage.AGENT)
    job = _with_agent(job, task)
    await store(world, job, task, make_grant(task))
    return job, await end_task(world, task)


async def end_task(world: World, task: Task) -> Task:
    """Claim and finish the one queued task of its type."""
    async with world.uow.begin(task.scope) as tx:
        (claimed,) = await tx.claims.claim(task.task_type, 1, OWNER, MINUTE)
        done = tasks.succeed(claimed, LATER)
        await tx.claims.save([done])
    return done


async def store_meme(world: World, scope: Scope = A) -> Meme:
    meme = make_meme(scope)
    await store(world, meme)
    return meme


async def facts_of(world: World, job: Job) -> JobFacts:
    async with world.uow.begin(job.scope) as tx:
        history = await tx.retention.jobs(None, 100)
    (facts,) = (facts for facts in history.jobs if facts.job_id == job.job_id)
    return facts


async def task_facts(world: World, job: Job) -> TaskFacts:
    (facts,) = (await facts_of(world, job)).tasks
    return facts


def unknown(task: Task) -> Attempt:
    started = attempts.start_external(attempts.commit_grant(make_attempt(task)), LONG_AGO, DEADLINE)
    return attempts.lose(started, LOST, LATER)


async def begin_generation(world: World, *, complete: bool, entries: Sequence[Meme] = ()) -> tuple[TaskId, Generation]:
    task = make_maintenance_task(A)
    await store(world, task)
    ended = await end_task(world, task)
    generation = Generation(A, GenerationId(new_id()), task.task_id, world.text_space, LONG_AGO)
    async with world.uow.begin(A) as tx:
        described = [(meme, make_context(meme)) for meme in entries]
        products = [make_text_product(*pair, vector(1), world.text_space) for pair in described]
        await tx.search.publish(products, make_words(*described))
        await tx.generations.add(generation)
        await tx.generations.copy_page(generation.generation_id, None, 100)
        if complete:
            await tx.generations.complete(generation.generation_id)
    return ended.task_id, generation


class RetentionStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_jobs_come_oldest_first_page_by_page_within_their_scope(self, world: World) -> None:
        memes = [await store_meme(world) for _ in range(3)]
        jobs = [ended_job(meme) for meme in memes]
        other = ended_job(await store_meme(world, B))
        await store(world, *jobs)
        await store(world, other)
        seen: list[JobId] = []
        async with world.uow.begin(A) as tx:
            first = await tx.retention.jobs(None, 2)
            second = await tx.retention.jobs(first.after, 2)
            seen = [facts.job_id for facts in [*first.jobs, *second.jobs]]
            assert await tx.retention.lock_jobs([other.job_id]) == []
        assert (len(first.jobs), len(second.jobs), second.after) == (2, 1, None)
        assert seen == sorted(job.job_id for job in jobs)

    async def test_the_newest_job_of_each_target_is_known_and_who_asked_last(self, world: World) -> None:
        meme = await store_meme(world)
        first, _ = await store_asked(world, meme, 1)
        second, _ = await store_asked(world, meme, 2)
        third, other = ended_job(meme, 3), ended_job(meme, 4, policy=ReverseImagePolicy.AUTO)
        live = make_job(await store_meme(world))
        await store(world, third, other, live)
        found = [await facts_of(world, job) for job in (first, second, third, other, live)]
        assert [(facts.newest, facts.last_agent) for facts in found] == [
            (False, False),
            (False, True),
            (True, False),
            (True, False),
            (True, False),
        ]
        assert [facts.completed_at for facts in found] == [*[LONG_AGO] * 4, None]

    async def test_a_release_on_its_way_is_known_until_it_is_done(self, world: World) -> None:
        meme = await store_meme(world)
        bare = ended_job(meme)
        job, task = await store_asked(world, meme, 2)
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release(f"{bare.job_id}:agent"), make_release(f"agent:{task.task_id}")])
        await store(world, bare)
        assert (await facts_of(world, bare)).releasing
        assert (await task_facts(world, job)).releasing
        async with world.uow.begin(A) as tx:
            await tx.releases.finish([(AGENT, f"{bare.job_id}:agent"), (AGENT, f"agent:{task.task_id}")])
        assert not (await facts_of(world, bare)).releasing
        assert not (await task_facts(world, job)).releasing

    async def test_an_unknown_execution_is_undecided_until_it_is_resolved(self, world: World) -> None:
        job, task = await store_asked(world, await store_meme(world), 1)
        assert await task_facts(world, job) == TaskFacts(task.task_id, LATER)
        attempt = unknown(task)
        await store(world, attempt)
        found = await task_facts(world, job)
        assert (found.undecided, found.running_until) == (True, DEADLINE)
        async with world.uow.begin(A) as tx:
            await tx.evidence.resolve(resolved_at_last(attempt, FOUND_OUT))
        assert not (await task_facts(world, job)).undecided

    async def test_what_a_slot_names_is_known(self, world: World) -> None:
        job, task = await store_asked(world, await store_meme(world), 1)
        async with world.uow.begin(A) as tx:
            await tx.slots.resize(Lane.AGENT, 1)
            (slot,) = await tx.slots.take(Lane.AGENT, 1)
            await tx.slots.hold([Slot(Lane.AGENT, slot.number, A, task.task_id, 1, LONG_AGO)])
        assert (await task_facts(world, job)).in_slot

    async def test_what_made_the_present_context_is_known(self, world: World) -> None:
        meme = await store_meme(world)
        job, task = await store_asked(world, meme, 1)
        attempt = make_attempt(task)
        made = Provenance(Origin.AGENT, meme.picture.sha256, attempt_id=attempt.attempt_id)
        await store(world, attempt, evolve(make_context(meme), provenance=made))
        assert (await task_facts(world, job)).describes
        await store(world, make_context(meme, "a dog", revision=2, origin=Origin.PERSON))
        assert not (await task_facts(world, job)).describes

    @pytest.mark.parametrize("held", ["task", "job"])
    async def test_jobs_of_which_others_hold_a_row_are_left_out(self, world: World, held: str) -> None:
        meme = await store_meme(world)
        first, task = await store_asked(world, meme, 1)
        second, _ = await store_asked(world, meme, 2)
        async with world.uow.begin(A) as other:
            if held == "task":
                await other.claims.lock([Claim(A, task.task_id, WorkerId(""), 1)])
            else:
                await other.jobs.lock([first.job_id])
            async with world.uow.begin(A) as tx:
                locked = await tx.retention.lock_jobs([first.job_id, second.job_id])
        assert [facts.job_id for facts in locked] == [second.job_id]
        async with world.uow.begin(A) as tx:
            again = await tx.retention.lock_jobs([first.job_id, second.job_id])
        assert [facts.job_id for facts in again] == [first.job_id, second.job_id]

    async def test_a_job_goes_with_all_that_was_done_for_it_and_with_nothing_else(self, world: World) -> None:
        meme = await store_meme(world)
        doomed, task = await store_asked(world, meme, 1)
        kept, other = await store_asked(world, meme, 2)
        attempt = unknown(task)
        await store(world, attempt, make_attempt(other))
        async with world.uow.begin(A) as tx:
            await tx.evidence.resolve(resolved_at_last(attempt))
            await tx.evidence.note([late_result(attempt)])
        kinds = (Kind.JOBS, Kind.TASKS, Kind.ATTEMPTS, Kind.GRANTS, Kind.LATE_RESULTS, Kind.RESOLUTIONS)
        async with world.uow.begin(A) as tx:
            assert await tx.retention.weigh_jobs([doomed.job_id]) == dict.fromkeys(kinds, 1)
        async with world.uow.begin(A) as tx:
            await tx.retention.lock_jobs([doomed.job_id])
            assert await tx.retention.delete_jobs([doomed.job_id]) == dict.fromkeys(kinds, 1)
        async with world.uow.begin(A) as tx:
            assert set(await tx.jobs.get([doomed.job_id, kept.job_id])) == {kept.job_id}
            assert set(await tx.tasks.get([task.task_id, other.task_id])) == {other.task_id}
            assert set(await tx.attempts.last([task.task_id, other.task_id])) == {other.task_id}
            assert set(await tx.grants.get([t.grant_id for t in (task, other) if t.grant_id])) == {other.grant_id}
            assert not await tx.evidence.late_results([task.task_id])
            assert not await tx.evidence.resolutions([task.task_id])
        assert await read_job(world, kept) == kept

    async def test_what_is_rolled_back_is_still_there(self, world: World) -> None:
        meme = await store_meme(world)
        job, _ = await store_asked(world, meme, 1)
        async with rolled_back(world) as tx:
            await tx.retention.lock_jobs([job.job_id])
            await tx.retention.delete_jobs([job.job_id])
        assert await read_job(world, job) == job

    async def test_deleted_memes_go_in_two_steps(self, world: World) -> None:
        there, gone = make_meme(A), make_meme(A, deleted_at=LATER)
        await store(world, there, gone, make_context(gone))
        job, task = await store_asked(world, gone, 1)
        async with world.uow.begin(A) as tx:
            await tx.products.put_visual([make_visual_product(gone, vector(1), world.visual_space)])
            await tx.products.put_text([make_text_product(gone, make_context(gone), vector(1), world.text_space)])
        async with world.uow.begin(A) as tx:
            history = await tx.retention.deleted_memes(None, 10)
            (facts,) = history.memes
            weighed = await tx.retention.weigh_memes([gone.meme_id])
        assert (facts.meme, [j.job_id for j in facts.jobs], history.after) == (gone, [job.job_id], None)
        async with world.uow.begin(A) as tx:
            assert list(await tx.retention.lock_memes([gone.meme_id, there.meme_id])) == [facts]
            counts = await tx.retention.strip_memes([gone.meme_id])
            assert counts == weighed
            wanted = (Kind.JOBS, Kind.TASKS, Kind.GRANTS, Kind.VISUAL_VECTORS, Kind.TEXT_VECTORS)
            assert [counts[kind] for kind in wanted] == [1] * 5
        async with world.uow.begin(A) as tx:
            assert await tx.products.stamps([gone.meme_id]) == {gone.meme_id: Products()}
            assert not await tx.tasks.get([task.task_id])
            (bare,) = await tx.retention.lock_memes([gone.meme_id])
            assert (bare.meme, bare.jobs) == (gone, ())
            await tx.retention.delete_memes([gone.meme_id])
        async with world.uow.begin(A) as tx:
            assert set(await tx.memes.get([gone.meme_id, there.meme_id])) == {there.meme_id}

    @pytest.mark.parametrize("held", ["task", "meme", "job"])
    async def test_memes_of_which_others_hold_a_row_are_left_out(self, world: World, held: str) -> None:
        gone = make_meme(A, deleted_at=LATER)
        await store(world, gone)
        job, task = await store_asked(world, gone, 1)

        async def hold(tx: Transaction) -> None:
            match held:
                case "task":
                    await tx.claims.lock([Claim(A, task.task_id, WorkerId(""), 1)])
                case "meme":
                    await tx.memes.lock([gone.meme_id])
                case _:
                    await tx.jobs.lock([job.job_id])

        async with world.uow.begin(A) as other:
            await hold(other)
            async with world.uow.begin(A) as tx:
                assert not await tx.retention.lock_memes([gone.meme_id])
        async with world.uow.begin(A) as tx:
            assert len(await tx.retention.lock_memes([gone.meme_id])) == 1

    async def test_a_generation_is_superseded_once_a_later_one_is_complete(self, world: World) -> None:
        first, generation = await begin_generation(world, complete=True)
        second, _ = await begin_generation(world, complete=False)
        async with world.uow.begin(A) as tx:
            history = await tx.retention.maintenance(None, 10)
        assert [(f.task.task_id, f.complete, f.superseded_at) for f in history.tasks] == [
            (first, True, None),
            (second, False, None),
        ]
        third, _ = await begin_generation(world, complete=True)
        async with world.uow.begin(A) as tx:
            former, _, last = await tx.retention.lock_maintenance([first, second, third])
        assert former.generation_id == generation.generation_id
        assert former.superseded_at is not None
        assert (last.task.task_id, last.superseded_at) == (third, None)

    async def test_a_generation_goes_entry_by_entry(self, world: World) -> None:
        memes = [make_meme(A) for _ in range(3)]
        await store(world, *memes)
        task_id, generation = await begin_generation(world, complete=True, entries=memes)
        async with world.uow.begin(A) as tx:
            assert await tx.retention.entries(generation.generation_id) == len(memes)
            assert [await tx.retention.delete_entries(generation.generation_id, 2) for _ in range(3)] == [2, 1, 0]
            await tx.retention.lock_maintenance([task_id])
            counts = await tx.retention.delete_maintenance([task_id])
        assert (counts[Kind.TASKS], counts[Kind.GENERATIONS]) == (1, 1)
        async with world.uow.begin(A) as tx:
            assert await tx.generations.newest() is None
            assert (await tx.retention.maintenance(None, 10)).tasks == ()

    async def test_tombstones_are_in_use_as_long_as_their_job_or_grant_is_there(self, world: World) -> None:
        meme = await store_meme(world)
        bare = ended_job(meme)
        _, task = await store_asked(world, meme, 2)
        await store(world, bare)
        used = {f"{bare.job_id}:agent", f"agent:{task.task_id}"}
        keys = [*sorted(used), "done", "pending"]
        async with world.uow.begin(A) as tx:
            await tx.releases.add([make_release(key) for key in keys])
            await tx.releases.finish([(AGENT, key) for key in keys if key != "pending"])
        async with world.uow.begin(A) as tx:
            first = await tx.retention.tombstones(None, 3)
            second = await tx.retention.tombstones(first.after, 3)
        found = {key.logical_request_key: key for key in [*first.keys, *second.keys]}
        assert list(found) == sorted(keys)
        assert {key for key, facts in found.items() if facts.in_use} == used
        assert found["pending"] == KeyFacts(AGENT, "pending", None)
        async with world.uow.begin(A) as tx:
            assert await tx.retention.delete_tombstones([(AGENT, "done"), (AGENT, "pending")]) == {Kind.TOMBSTONES: 1}
            assert set(await tx.releases.tombstones(AGENT, keys)) == {*used, "pending"}

    async def test_exactly_the_vectors_that_are_named_go(self, world: World) -> None:
        meme = make_meme(A)
        first, second = make_context(meme), make_context(meme, "a dog", revision=2)
        await store(world, meme, second)
        visual = make_visual_product(meme, vector(1), world.visual_space)
        texts = [make_text_product(meme, context, vector(1), world.text_space) for context in (first, second)]
        async with world.uow.begin(A) as tx:
            await tx.products.put_visual([visual, evolve(visual, image_sha256=make_meme().picture.sha256)])
            await tx.products.put_text(texts)
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([meme.meme_id])
            counts = await tx.retention.delete_vectors(
                [(meme.meme_id, visual.image_sha256, visual.space_id)],
                [(meme.meme_id, texts[0].image_sha256, texts[0].metadata_hash, texts[0].space_id)],
            )
            assert counts == {Kind.VISUAL_VECTORS: 1, Kind.TEXT_VECTORS: 1}
            left = (await tx.products.stamps([meme.meme_id]))[meme.meme_id]
        assert {stamp.image_sha256 for stamp in left.visual}.isdisjoint({visual.image_sha256})
        assert [stamp.metadata_hash for stamp in left.text] == [second.metadata_hash]

    async def test_what_was_found_by_a_deleted_vector_is_not_found_any_more(self, world: World) -> None:
        memes = [make_meme(A) for _ in range(2)]
        described = [(meme, make_context(meme)) for meme in memes]
        former = evolve(world.text_space, id="former-space")
        await store(world, *memes, *(context for _, context in described))
        products = [
            make_text_product(*pair, vector(1), space) for pair in described for space in (world.text_space, former)
        ]
        async with world.uow.begin(A) as tx:
            await tx.memes.lock([meme.meme_id for meme in memes])
            await tx.products.put_text(products)
            await tx.search.publish(products, make_words(*described))
            doomed = [p for p in products if p.space_id == former.id and p.meme_id == memes[0].meme_id]
            stale = evolve(doomed[0], space_id=world.text_space.id, metadata_hash=make_meme().picture.sha256)
            await tx.products.put_text([stale])
            keys = [(p.meme_id, p.image_sha256, p.metadata_hash, p.space_id) for p in [*doomed, stale]]
            assert await tx.retention.delete_vectors([], keys) == {Kind.VISUAL_VECTORS: 0, Kind.TEXT_VECTORS: 2}
        async with world.uow.begin(A) as tx:
            left = [n.meme_id for n in await tx.search.nearest(former.id, vector(1), 10)]
            kept = [n.meme_id for n in await tx.search.nearest(world.text_space.id, vector(1), 10)]
        assert left == [memes[1].meme_id]
        assert kept == [meme.meme_id for meme in memes]
