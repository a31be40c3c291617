"""Old history goes; what anybody decides on stays."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from tests.unit.usecases.site import Site, content

from imgproc_adapters.memory import schema
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, NOTHING_KNOWN
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Succeeded
from imgproc_domain.ports.evidence import Resolution
from imgproc_domain.ports.models import Declined
from imgproc_domain.retention import Kind
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.prune import Pruning, prune
from imgproc_domain.usecases.recover import flush_releases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.unknown import resolve_unknown

DAY = timedelta(days=1)
REFUSED = Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False)
SURE = Resolution("not billed", "the console", owner_dead=True, call_over=True, resolved_by="an operator")


class Shelf:
    """Bytes by their key, with the time they were kept last."""

    def __init__(self) -> None:
        self.kept: dict[str, datetime] = {}
        self.removed: list[str] = []
        self.broken = False

    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: datetime) -> bool:
        assert scope == A
        if self.broken:
            raise OSError("the disk is gone")
        if storage_key in self.kept and self.kept[storage_key] >= since:
            return False
        self.removed.append(storage_key)
        return True


class Cellar:
    """A site whose past can be pruned."""

    def __init__(self) -> None:
        self.site, self.shelf = Site(), Shelf()

    async def prune(self, *, days: int = 90, **wanted: int) -> Counter[Kind]:
        total: Counter[Kind] = Counter()
        pruning = Pruning(days * DAY, **wanted)  # type: ignore[arg-type]  # flags are numbers here
        async for counts in prune(self.site.deployment, self.shelf, A, pruning):
            total.update(counts)
        check_invariants(self.site.view())
        return +total

    async def refused(self, times: int) -> Meme:
        """A picture that the agent refused so many times before it described it."""
        meme = await self.site.upload()
        for _ in range(times):
            self.site.agent.script.then(REFUSED)
            await self.site.work_off()
            await retry_job(self.site.deployment, A, self.site.newest().job_id)
        await self.site.work_off()
        return meme

    async def rest(self) -> None:
        """Work until nothing is left to do, and the policy knows."""
        await self.site.work_off()
        await flush_releases(self.site.deployment, A, 100)

    def revisions(self) -> list[int]:
        return sorted(job.revision for job in self.site.view().jobs)


@pytest.fixture
async def cellar() -> Cellar:
    cellar = Cellar()
    await cellar.site.slots(2)
    return cellar


async def test_superseded_jobs_go_when_they_are_old(cellar: Cellar) -> None:
    await cellar.refused(2)
    assert await cellar.prune() == {}
    cellar.site.clock.advance(90 * DAY)
    assert await cellar.prune() == {}, "not yet"
    cellar.site.clock.advance(timedelta(seconds=1))
    gone = await cellar.prune()
    assert gone == {Kind.JOBS: 2, Kind.TASKS: 3, Kind.ATTEMPTS: 3, Kind.GRANTS: 2}
    assert cellar.revisions() == [3]
    assert await cellar.prune() == {}, "nothing is left to do"


async def test_a_dry_run_counts_the_same_and_changes_nothing(cellar: Cellar) -> None:
    await cellar.refused(2)
    gone = await cellar.site.upload("dog")
    await cellar.site.work_off()
    await delete_meme(cellar.site.deployment, A, gone.meme_id)
    cellar.site.clock.advance(91 * DAY)
    before = cellar.site.view()
    expected = await cellar.prune(dry_run=True)
    assert cellar.site.view() == before
    assert not cellar.shelf.removed
    assert await cellar.prune() == expected
    assert expected[Kind.MEMES] == expected[Kind.BLOBS] == 1


async def test_pages_of_one_row_let_the_same_go(cellar: Cellar) -> None:
    await cellar.refused(3)
    for name in ("dog", "bird"):
        await delete_meme(cellar.site.deployment, A, (await cellar.site.upload(name)).meme_id)
    await cellar.rest()
    cellar.site.clock.advance(91 * DAY)
    expected = await cellar.prune(dry_run=True)
    assert await cellar.prune(batch=1) == {**expected, Kind.TOMBSTONES: 2}, "whose jobs are gone only now"
    assert (expected[Kind.JOBS], expected[Kind.MEMES]) == (5, 2)


async def test_only_the_scope_that_is_named_is_pruned(cellar: Cellar) -> None:
    await cellar.site.upload(scope=B)
    await cellar.site.work_off(B)
    before = cellar.site.view(B)
    cellar.site.clock.advance(91 * DAY)
    await cellar.prune()
    assert cellar.site.view(B).jobs == before.jobs


async def test_an_unknown_execution_stays_until_somebody_resolves_it(cellar: Cellar) -> None:
    site = cellar.site
    meme = await site.upload()
    site.agent.script.then(NOTHING_KNOWN)
    await site.work_off()
    unknown = site.newest()
    await retry_job(site.deployment, A, unknown.job_id)
    site.clock.advance(site.agent.hard_deadline)
    await site.work_off()
    site.clock.advance(91 * DAY)
    # the next call takes the slot that names the task
    await site.upload("another")
    await site.upload("yet another")
    await site.work_off()
    assert await cellar.prune() == {}
    task_id = unknown.stage(Stage.AGENT).task_id
    assert task_id is not None
    await resolve_unknown(site.deployment, A, task_id, SURE)
    assert (await cellar.prune())[Kind.RESOLUTIONS] == 1
    assert meme.meme_id in {job.meme_id for job in site.view().jobs}
    assert unknown.job_id not in {job.job_id for job in site.view().jobs}


async def test_a_call_that_was_withheld_is_withheld_after_as_well(cellar: Cellar) -> None:
    """The job that made it is neither the meme's newest nor its target's, and was resolved: it still decides."""
    site = cellar.site
    meme = await site.upload("cat")
    site.agent.script.then(NOTHING_KNOWN)
    await site.work_off()
    task_id = site.newest().stage(Stage.AGENT).task_id
    assert task_id is not None
    await resolve_unknown(site.deployment, A, task_id, SURE)
    for name in ("dog", "cat", "dog", "cat"):
        await replace_picture(site.deployment, A, meme.meme_id, None, content(name))
        await site.work_off()
    calls = len(started(site.ledger, AGENT))
    site.clock.advance(91 * DAY)
    assert (await cellar.prune())[Kind.JOBS] > 0
    for name in ("dog", "cat"):
        await replace_picture(site.deployment, A, meme.meme_id, None, content(name))
        await site.work_off()
    assert site.newest().status is JobStatus.UNKNOWN
    assert len(started(site.ledger, AGENT)) == calls


async def test_a_deleted_picture_goes_with_all_its_rows_and_bytes(cellar: Cellar) -> None:
    meme = await cellar.refused(1)
    await delete_meme(cellar.site.deployment, A, meme.meme_id)
    cellar.site.clock.advance(91 * DAY)
    await cellar.prune()
    view = cellar.site.view()
    assert cellar.shelf.removed == [meme.picture.storage_key]
    assert not any(
        (view.memes, view.contexts, view.jobs, view.tasks, view.attempts, view.grants, view.visual, view.text)
    )


async def test_bytes_that_another_picture_has_stay(cellar: Cellar) -> None:
    meme = await cellar.site.upload("cat")
    await delete_meme(cellar.site.deployment, A, meme.meme_id)
    await cellar.rest()
    again = await cellar.site.upload("cat")
    cellar.site.clock.advance(91 * DAY)
    await cellar.prune()
    assert not cellar.shelf.removed
    assert [left.meme_id for left in cellar.site.view().memes] == [again.meme_id]


async def test_bytes_that_an_upload_has_just_kept_stay_and_are_looked_at_again(cellar: Cellar) -> None:
    meme = await cellar.site.upload("cat")
    await delete_meme(cellar.site.deployment, A, meme.meme_id)
    await cellar.rest()
    cellar.shelf.kept[meme.picture.storage_key] = cellar.site.clock.advance(91 * DAY)
    assert Kind.MEMES not in await cellar.prune()
    cellar.site.clock.advance(91 * DAY)
    assert await cellar.prune() == {Kind.MEMES: 1, Kind.BLOBS: 1}


async def test_a_run_that_died_before_it_removed_the_bytes_is_finished_by_the_next(cellar: Cellar) -> None:
    meme = await cellar.site.upload("cat")
    await delete_meme(cellar.site.deployment, A, meme.meme_id)
    await cellar.rest()
    cellar.site.clock.advance(91 * DAY)
    cellar.shelf.broken = True
    with pytest.raises(OSError, match="disk"):
        await cellar.prune()
    assert not cellar.site.view().jobs
    cellar.shelf.broken = False
    assert await cellar.prune() == {Kind.MEMES: 1, Kind.BLOBS: 1, Kind.TOMBSTONES: 1}
    assert not cellar.site.view().memes


async def test_tombstones_go_after_their_job(cellar: Cellar) -> None:
    meme = await cellar.site.upload()
    await cellar.site.until_agent()
    await delete_meme(cellar.site.deployment, A, meme.meme_id)
    await cellar.site.work_off()
    cellar.site.clock.advance(91 * DAY)
    assert Kind.TOMBSTONES not in await cellar.prune(), "it is still to be told"
    assert await flush_releases(cellar.site.deployment, A, 10) == 1
    cellar.site.clock.advance(DAY)
    assert Kind.TOMBSTONES not in await cellar.prune(days=1), "a stopped worker might still ask"
    cellar.site.clock.advance(2 * DAY)
    assert await cellar.prune(days=1) == {Kind.TOMBSTONES: 1}


async def test_generations_go_once_another_has_replaced_them(cellar: Cellar) -> None:
    site = cellar.site
    await site.upload()
    await site.upload("dog")
    await site.work_off()
    for _ in range(2):
        await request_generation(site.deployment, A)
        (execution,) = await site.claim(TaskType.CACHE)
        outcome = await build_generation(site.deployment, execution)
        assert isinstance(outcome, Succeeded)
        await settle(site.deployment, A, [Settling(execution.claim, None, outcome)])
        site.clock.advance(91 * DAY)
    expected = {Kind.TASKS: 1, Kind.GENERATIONS: 1, Kind.GENERATION_ENTRIES: 2}
    assert await cellar.prune(dry_run=True) == expected
    assert await cellar.prune(batch=1) == expected
    assert len(site.store.rows(schema.GENERATIONS, A)) == 1


async def test_vectors_go_only_when_asked_and_only_what_cannot_be_found(cellar: Cellar) -> None:
    site = cellar.site
    meme = await site.upload()
    await site.work_off()
    await edit_context(site.deployment, A, meme.meme_id, 1, Description(title="other words"))
    await site.work_off()
    await replace_picture(site.deployment, A, meme.meme_id, None, content("dog"))
    await site.work_off()
    site.clock.advance(91 * DAY)
    findable = site.view().findable
    assert Kind.TEXT_VECTORS not in await cellar.prune()
    expected = await cellar.prune(vectors=True, dry_run=True)
    assert await cellar.prune(vectors=True) == expected == {Kind.VISUAL_VECTORS: 1, Kind.TEXT_VECTORS: 2}
    assert site.view().findable == findable != []
    assert len(site.view().visual) == len(site.view().text) == 1


async def test_it_does_not_wait_for_whoever_works(cellar: Cellar) -> None:
    await cellar.refused(1)
    first = min(cellar.site.view().jobs, key=lambda job: job.revision)
    cellar.site.clock.advance(91 * DAY)
    async with cellar.site.uow.begin(A) as tx:
        await tx.jobs.lock([first.job_id])
        assert Kind.JOBS not in await cellar.prune()
    assert (await cellar.prune())[Kind.JOBS] == 1
