"""Complete what was there before: jobs for pictures that never had one, and findable vectors that are missing.

Both go through a scope page by page, hold one page at a time, and yield what became of it. Between two pages no
transaction is open: the caller may wait, count, or end it there. Nothing is remembered between two runs, because what
is done is seen in the library itself: a run that was ended goes on when it is begun again, and two at once do the same
work in turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import assert_never

from attrs import define, field, frozen, validators

from imgproc_domain.config import VectorSpace
from imgproc_domain.context import USABLE, Context
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.errors import GenerationPolicyConflict, MemeNotFound, MigrationConflict, ModelNotConfigured
from imgproc_domain.events import VectorsFilled
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.meme import Meme
from imgproc_domain.ports.migration import Missing
from imgproc_domain.ports.models import TextModel
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.product import TextProduct
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.embedding import embed_documents
from imgproc_domain.usecases.migrate_search import begin_filling
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.vector import Vector
from imgproc_domain.words import Words, words_of

MOST_SUBMITTED = 1_000
MOST_EMBEDDED = 1_000
MOST_LOOKED_AT = 5_000
"""Rows of a page: more would make a transaction that others wait for."""


@define
class Pace:
    """At most so many items a second, over everything that shares it; without a rate there is nothing to wait for.

    What was not used while nothing was asked for is not made up for later.
    """

    rate: float | None = field(default=None, validator=validators.optional(validators.gt(0)))
    clock: Callable[[], float] | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _free_at: float = field(init=False, default=0.0)

    async def take(self, items: int) -> None:
        """Wait until ``items`` more may be begun."""
        if self.rate is None or not items:
            return
        now = (self.clock or asyncio.get_running_loop().time)()
        begin = max(now, self._free_at)
        self._free_at = begin + items / self.rate
        if begin > now:
            await self.sleep(begin - now)


@frozen
class Seeding:
    """What is asked for: jobs under ``policy`` for pictures without one, from behind ``after`` on, newest first.

    ``everything`` submits the others too, each under its newest job's own policy, as an upload of the same bytes does:
    what failed stays as it is.
    """

    policy: ReverseImagePolicy = ReverseImagePolicy.FORBID
    everything: bool = False
    batch: int = field(default=200, validator=[validators.ge(1), validators.le(MOST_SUBMITTED)])
    after: MemeId | None = None


@frozen
class Seeded:
    """A page of pictures: how many were looked at, got a new job, had one that stands, and could not be submitted."""

    seen: int
    opened: int
    reused: int
    refused: int
    after: MemeId | None


@frozen
class Embedding:
    """What is asked for: the missing vectors of ``space``, from behind ``after`` on, oldest picture first.

    Without a space that is the one that is being filled, or else the one that serves. ``window`` pictures are looked
    at in a transaction, ``batch`` texts are embedded in a call.
    """

    space: VectorSpace | None = None
    window: int = field(default=500, validator=[validators.ge(1), validators.le(MOST_LOOKED_AT)])
    batch: int = field(default=32, validator=[validators.ge(1), validators.le(MOST_EMBEDDED)])
    after: MemeId | None = None


@frozen
class Failure:
    meme_id: MemeId
    diagnosis: Diagnosis


@frozen
class Embedded:
    """A window of pictures, ``seen`` in all: what was missing, and what became of it.

    ``adopted`` had a vector in the history, ``embedded`` got a new one, ``changed`` meanwhile and are left to the next
    run or to their own job, ``failed`` and were passed over.
    """

    seen: int
    adopted: int
    embedded: int
    changed: int
    failed: tuple[Failure, ...]
    after: MemeId | None


async def count(deployment: Deployment, scope: Scope) -> int:
    """Count the pictures that a whole run looks at."""
    async with deployment.uow.begin(scope) as tx:
        return await tx.memes.count()


async def seed(
    deployment: Deployment, scope: Scope, wanted: Seeding | None = None, pace: Pace | None = None
) -> AsyncGenerator[Seeded, None]:
    """Submit pictures and yield after every page what became of it.

    Raises:
        DatabaseUnavailable, CommitOutcomeUnknown, Conflict: as `UnitOfWork.begin`; running again goes on from there.
    """
    wanted, pace = wanted or Seeding(), pace or Pace()
    after = wanted.after
    while True:
        async with deployment.uow.begin(scope) as tx:
            page = await tx.memes.page(after, wanted.batch)
            newest = await tx.jobs.newest([meme.meme_id for meme in page.memes]) if page.memes else {}
        chosen = [meme.meme_id for meme in page.memes if wanted.everything or meme.meme_id not in newest]
        policies = {meme_id: job.reverse_image_policy for meme_id, job in newest.items()}
        submissions = [Submission(key, policies.get(key, wanted.policy), Mode.AUTOMATIC) for key in chosen]
        await pace.take(len(submissions))
        yield await _submit(deployment, scope, submissions, len(page.memes), page.after)
        if (after := page.after) is None:
            return


async def _submit(
    deployment: Deployment, scope: Scope, submissions: Sequence[Submission], seen: int, after: MemeId | None
) -> Seeded:
    opened = reused = refused = 0
    for answer in await submit(deployment, scope, submissions) if submissions else ():
        match answer:
            case Submitted(created=True):
                opened += 1
            case Submitted():
                reused += 1
            case GenerationPolicyConflict() | MemeNotFound():
                refused += 1
            case _:
                assert_never(answer)
    return Seeded(seen, opened, reused, refused, after)


async def embed(
    deployment: Deployment, scope: Scope, wanted: Embedding | None = None, pace: Pace | None = None
) -> AsyncGenerator[Embedded, None]:
    """Make what is missing in a space findable there, and yield after every window what became of it.

    A space beside the serving one begins to be filled with the first window. No agent is asked, and no job is opened.

    Raises:
        ModelNotConfigured: this process does not have the space's model.
        MigrationConflict: another space is being filled.
        DatabaseUnavailable, CommitOutcomeUnknown, Conflict: as `UnitOfWork.begin`; running again goes on from there.
    """
    wanted, pace = wanted or Embedding(), pace or Pace()
    model = await _model(deployment, scope, wanted.space)
    await begin_filling(deployment, scope, model.space)
    run = _Filling(deployment, scope, model, wanted, pace)
    after = wanted.after
    while True:
        yield (page := await run.window(after))
        if (after := page.after) is None:
            return


async def _model(deployment: Deployment, scope: Scope, space: VectorSpace | None) -> TextModel:
    if space is None:
        async with deployment.uow.begin(scope) as tx:
            state = await tx.search.state()
            space = state.filling or state.serving
    model = deployment.text_model(space)
    if model is None:
        assert space is not None, "a process has the model that it embeds with"
        message = f"the text model of {space.id} is not among the ones of this process"
        raise ModelNotConfigured(message, space_id=space.id)
    return model


@frozen
class _Source:
    """What is to be embedded, and the version of the picture and its words that it was read from."""

    meme: Meme
    context: Context
    metadata_hash: Sha256

    @property
    def version(self) -> tuple[Sha256, Sha256]:
        return self.meme.picture.sha256, self.metadata_hash

    @property
    def words(self) -> Words:
        return words_of(self.context.description, self.meme.filename)

    def product(self, space: VectorSpace, vector: Vector) -> TextProduct:
        return TextProduct(self.meme.meme_id, *self.version, space.id, vector)


@frozen
class _Filling:
    """One run over a scope into one space."""

    deployment: Deployment
    scope: Scope
    model: TextModel
    wanted: Embedding
    pace: Pace

    async def window(self, after: MemeId | None) -> Embedded:
        """Adopt what the history has for the missing memes of a window, and embed the words of the others."""
        seen, adopted, rest = await decided_again(lambda: self._adopt(after))
        embedded, changed, failed = 0, 0, list[Failure]()
        for begin in range(0, len(rest), self.wanted.batch):
            part = rest[begin : begin + self.wanted.batch]
            await self.pace.take(len(part))
            made, failures = await self._embed(part)
            embedded += made
            failed += failures
            changed += len(part) - made - len(failures)
        self.deployment.observer.note(VectorsFilled(self.scope, adopted, embedded, len(failed)))
        return Embedded(seen.seen, adopted, embedded, changed, tuple(failed), seen.after)

    async def _adopt(self, after: MemeId | None) -> tuple[Missing, int, Sequence[MemeId]]:
        space = self.model.space
        async with self.deployment.uow.begin(self.scope) as tx:
            await self._expect_wanted(tx)
            found = await tx.migration.missing(space, after, self.wanted.window)
            if not found.meme_ids:
                return found, 0, ()
            await tx.memes.lock(found.meme_ids)
            await tx.search.refresh(found.meme_ids)
            rest = sorted(await tx.migration.lacking(space, found.meme_ids))
            return found, len(found.meme_ids) - len(rest), rest

    async def _expect_wanted(self, tx: Transaction) -> None:
        state, space = await tx.search.state(), self.model.space
        if space not in (state.filling, self.deployment.serving(state)):
            message = f"{space.id} is neither served nor filled any more"
            raise MigrationConflict(message, mode=state.mode.value, epoch=state.epoch)

    async def _embed(self, meme_ids: Sequence[MemeId]) -> tuple[int, list[Failure]]:
        """Embed memes and return how many became findable, and what failed; the others have changed meanwhile."""
        async with self.deployment.uow.begin(self.scope) as tx:
            sources = await _sources(tx, await tx.memes.get(meme_ids))
        texts = [source.context.description.embeddable_text() for source in sources.values()]
        answers = await embed_documents(self.model, texts) if texts else ()
        vectors: dict[MemeId, Vector] = {}
        failed: list[Failure] = []
        for meme_id, answer in zip(sources, answers, strict=True):
            if isinstance(answer, Vector):
                vectors[meme_id] = answer
            else:
                failed.append(Failure(meme_id, answer))
        return (await decided_again(lambda: self._publish(sources, vectors)) if vectors else 0), failed

    async def _publish(self, sources: Mapping[MemeId, _Source], vectors: Mapping[MemeId, Vector]) -> int:
        """Make vectors findable whose picture and words are still those that were embedded (I5)."""
        async with self.deployment.uow.begin(self.scope) as tx:
            now = await _sources(tx, await tx.memes.lock(vectors))
            current = {key: now[key] for key in vectors if key in now and now[key].version == sources[key].version}
            products = [source.product(self.model.space, vectors[key]) for key, source in current.items()]
            if products:
                await tx.products.put_text(products)
                await tx.search.publish(products, {key: source.words for key, source in current.items()})
            return len(products)


async def _sources(tx: Transaction, memes: Mapping[MemeId, Meme]) -> dict[MemeId, _Source]:
    """Return what can be embedded of these memes; those that are not indexable are missing."""
    found: dict[MemeId, _Source] = {}
    for meme_id, context in (await tx.contexts.get(memes)).items() if memes else ():
        meme, metadata_hash = memes[meme_id], context.metadata_hash
        if meme.exists and context.status in USABLE and metadata_hash is not None:
            found[meme_id] = _Source(meme, context, metadata_hash)
    return found
