"""Let old history go, a page a transaction, beside whoever works.

Whoever looks at a row that goes finds it gone, as if it had never been: nothing decides on it any more. Nothing is
remembered between two runs: each begins anew, and what one left half done the next one finishes.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from datetime import timedelta

from attrs import field, frozen, validators

from imgproc_domain.config import ProcessingConfig
from imgproc_domain.ids import JobId, MemeId, TaskId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.library import MemePage
from imgproc_domain.ports.retention import OldBlobs, RequestKey, TextKey, VisualKey
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.retention import (
    LEAST_AGE,
    USUAL_AGE,
    Cutoff,
    JobFacts,
    Kind,
    MaintenanceFacts,
    MemeFacts,
    job_may_go,
    maintenance_may_go,
    meme_may_go,
    reservation_may_go,
    stale_vectors,
    tombstone_may_go,
)
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.permission import PATIENCE

BATCH = 500
MOST = 5_000
"""Rows of a page: more would make a transaction that others wait for."""

Counts = Mapping[Kind, int]


@frozen
class Pruning:
    """What is asked for.

    With ``dry_run`` nothing is locked or written, and counted is what would go; of remembered requests only those
    whose jobs are gone already.
    """

    older_than: timedelta = field(default=USUAL_AGE, validator=validators.ge(LEAST_AGE))
    batch: int = field(default=BATCH, validator=[validators.ge(1), validators.le(MOST)])
    vectors: bool = False
    dry_run: bool = False


async def prune(deployment: Deployment, blobs: OldBlobs, scope: Scope, wanted: Pruning) -> AsyncGenerator[Counts, None]:
    """Let go what may, and yield after every page what went with it: often nothing.

    Between two pages no transaction is open, and the caller may wait for as long as it likes. May be ended there.

    Raises:
        DatabaseUnavailable, CommitOutcomeUnknown, Conflict: as `UnitOfWork.begin`; running again goes on from there.
    """
    run = _Run(deployment, blobs, scope, wanted, await _cutoff(deployment, scope, wanted))
    parts = [run.jobs, run.memes, run.maintenance, run.tombstones, run.reservations]
    for part in [*parts, run.vectors] if wanted.vectors else parts:
        async for counts in part():
            yield counts


async def _cutoff(deployment: Deployment, scope: Scope, wanted: Pruning) -> Cutoff:
    limits = deployment.limits
    call = max(deployment.hard_deadline(task_type) for task_type in TaskType)
    longest_claim = limits.job_lease + limits.lease + call + timedelta(seconds=PATIENCE)
    async with deployment.uow.begin(scope) as tx:
        return Cutoff.at(await tx.now(), wanted.older_than, longest_claim)


@frozen
class _Run:
    """One scope's pruning. Each part is a generator of what its pages let go."""

    deployment: Deployment
    blobs: OldBlobs
    scope: Scope
    wanted: Pruning
    cutoff: Cutoff

    async def jobs(self) -> AsyncIterator[Counts]:
        after: JobId | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.retention.jobs(after, self.wanted.batch)
                counts = await self._jobs(tx, self._old_jobs(page.jobs))
            yield counts
            if (after := page.after) is None:
                return

    async def _jobs(self, tx: Transaction, ids: Sequence[JobId]) -> Counts:
        if not ids:
            return {}
        if self.wanted.dry_run:
            return await tx.retention.weigh_jobs(ids)
        sure = self._old_jobs(await tx.retention.lock_jobs(ids))
        return await tx.retention.delete_jobs(sure) if sure else {}

    def _old_jobs(self, found: Sequence[JobFacts]) -> list[JobId]:
        return [job.job_id for job in found if job_may_go(job, self.cutoff)]

    async def memes(self) -> AsyncIterator[Counts]:
        after: MemeId | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.retention.deleted_memes(after, self.wanted.batch)
                gone, counts = await self._strip(tx, self._old_memes(page.memes))
                unused = await self._unused(tx, gone)
            yield counts
            if self.wanted.dry_run:
                yield {Kind.MEMES: len(gone), Kind.BLOBS: len(unused)}
            elif gone:
                yield await self._finish(gone, unused)
            if (after := page.after) is None:
                return

    async def _strip(self, tx: Transaction, memes: Sequence[Meme]) -> tuple[list[Meme], Counts]:
        if not memes:
            return [], {}
        ids = [meme.meme_id for meme in memes]
        if self.wanted.dry_run:
            return list(memes), await tx.retention.weigh_memes(ids)
        sure = self._old_memes(await tx.retention.lock_memes(ids))
        return sure, await tx.retention.strip_memes([meme.meme_id for meme in sure]) if sure else {}

    async def _unused(self, tx: Transaction, memes: Sequence[Meme]) -> list[Meme]:
        """Return one deleted meme of each content that no meme has now."""
        by_content = {meme.picture.sha256: meme for meme in memes}
        used = await tx.memes.by_content(by_content) if by_content else {}
        return [meme for sha256, meme in by_content.items() if sha256 not in used]

    async def _finish(self, memes: Sequence[Meme], unused: Sequence[Meme]) -> Counts:
        """Remove the bytes, then the memes: as long as a meme is there, a later run knows of its bytes."""
        waiting = set()
        for meme in unused:
            key = meme.picture.storage_key
            if not await self.blobs.remove_unless_kept_since(self.scope, key, self.cutoff.before):
                waiting.add(meme.picture.sha256)
        done = [meme.meme_id for meme in memes if meme.picture.sha256 not in waiting]
        async with self.deployment.uow.begin(self.scope) as tx:
            sure = self._old_memes(await tx.retention.lock_memes(done) if done else ())
            await tx.retention.delete_memes([meme.meme_id for meme in sure])
        return {Kind.MEMES: len(sure), Kind.BLOBS: len(unused) - len(waiting)}

    def _old_memes(self, found: Sequence[MemeFacts]) -> list[Meme]:
        return [facts.meme for facts in found if meme_may_go(facts, self.cutoff)]

    async def maintenance(self) -> AsyncIterator[Counts]:
        after: TaskId | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.retention.maintenance(after, self.wanted.batch)
            for facts in self._old_maintenance(page.tasks):
                async for counts in self._generation(facts):
                    yield counts
            if (after := page.after) is None:
                return

    async def _generation(self, facts: MaintenanceFacts) -> AsyncIterator[Counts]:
        """Let a task go, after the entries of its generation, which may be as many as the scope has pictures."""
        task_id, generation_id = facts.task.task_id, facts.generation_id
        more = True
        while more:
            more = False
            async with self.deployment.uow.begin(self.scope) as tx:
                if self.wanted.dry_run:
                    counts = Counter({Kind.TASKS: 1, Kind.GENERATIONS: int(generation_id is not None)})
                    counts[Kind.GENERATION_ENTRIES] = await tx.retention.entries(generation_id) if generation_id else 0
                elif self._old_maintenance(await tx.retention.lock_maintenance([task_id])):
                    entries = (
                        await tx.retention.delete_entries(generation_id, self.wanted.batch) if generation_id else 0
                    )
                    more = entries == self.wanted.batch
                    counts = Counter({Kind.GENERATION_ENTRIES: entries})
                    counts.update({} if more else await tx.retention.delete_maintenance([task_id]))
                else:
                    return
            yield counts

    def _old_maintenance(self, found: Sequence[MaintenanceFacts]) -> list[MaintenanceFacts]:
        return [facts for facts in found if maintenance_may_go(facts, self.cutoff)]

    async def tombstones(self) -> AsyncIterator[Counts]:
        """After the jobs, so that keys whose job has just gone go as well."""
        after: RequestKey | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.retention.tombstones(after, self.wanted.batch)
                keys = [(k.operation, k.logical_request_key) for k in page.keys if tombstone_may_go(k, self.cutoff)]
                if self.wanted.dry_run:
                    counts: Counts = {Kind.TOMBSTONES: len(keys)}
                else:
                    counts = await tx.retention.delete_tombstones(keys) if keys else {}
            yield counts
            if (after := page.after) is None:
                return

    async def reservations(self) -> AsyncIterator[Counts]:
        after: RequestKey | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.retention.reservations(after, self.wanted.batch)
                keys = [(k.operation, k.logical_request_key) for k in page.keys if reservation_may_go(k, self.cutoff)]
                if self.wanted.dry_run:
                    counts: Counts = {Kind.RESERVATIONS: len(keys)}
                else:
                    before = self.cutoff.reservations_before
                    counts = await tx.retention.delete_reservations(keys, before) if keys else {}
            yield counts
            if (after := page.after) is None:
                return

    async def vectors(self) -> AsyncIterator[Counts]:
        after: MemeId | None = None
        while True:
            async with self.deployment.uow.begin(self.scope) as tx:
                page = await tx.memes.page(after, self.wanted.batch)
                counts = await self._vectors(tx, page)
            yield counts
            if (after := page.after) is None:
                return

    async def _vectors(self, tx: Transaction, page: MemePage) -> Counts:
        memes = {meme.meme_id: meme for meme in page.memes}
        visual, text = await self._stale(tx, memes, await tx.search.state())
        if self.wanted.dry_run or not (visual or text):
            return {Kind.VISUAL_VECTORS: len(visual), Kind.TEXT_VECTORS: len(text)}
        # seldom more than a few, and then nobody changes them, or goes back to their space, while it is looked at again
        locked = await tx.memes.lock({key[0] for key in visual} | {key[0] for key in text})
        state = await tx.migration.lock()
        return await tx.retention.delete_vectors(*await self._stale(tx, locked, state))

    async def _stale(
        self, tx: Transaction, memes: Mapping[MemeId, Meme], state: SearchState
    ) -> tuple[list[VisualKey], list[TextKey]]:
        config = await self.deployment.decides_with(tx)
        spaces = _text_spaces(self.deployment, config, state)
        products = await tx.products.stamps(memes.keys()) if memes else {}
        visual: list[VisualKey] = []
        text: list[TextKey] = []
        for meme_id, meme in memes.items():
            seen, read = stale_vectors(meme, products[meme_id], config, spaces, self.cutoff)
            visual += [(meme_id, stamp.image_sha256, stamp.space_id) for stamp in seen]
            text += [(meme_id, stamp.image_sha256, stamp.metadata_hash, stamp.space_id) for stamp in read]
        return visual, text


def _text_spaces(deployment: Deployment, config: ProcessingConfig, state: SearchState) -> Collection[str]:
    """Return the spaces that texts are embedded in by anybody, and those that searches read or will."""
    models = (model.space for model in (deployment.text, *deployment.more_text))
    return {space.id for space in (config.text, state.serving, state.filling, *models) if space is not None}
