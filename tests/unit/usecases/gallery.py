"""A library whose search is migrated, over a memory store."""

from collections.abc import AsyncGenerator, Sequence

from attrs import evolve
from tests.unit.usecases.site import Site

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.models import ScriptedTextModel
from imgproc_adapters.testing.seed import OWNER, A
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchState, rollback
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Query, Ranking
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.backfill import Embedded, Embedding, Failure, Pace, embed
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import edit_context
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.search import search

NEW = VectorSpace("scripted-text-2", 32)
THIRD = VectorSpace("scripted-text-3", 16)


class Gallery:
    """Pictures that are embedded by one model, and a process that has further ones."""

    def __init__(self) -> None:
        self.site = Site()
        self.old: Deployment = self.site.deployment
        self.new_model = ScriptedTextModel(space=NEW, ledger=self.site.ledger)
        self.third_model = ScriptedTextModel(space=THIRD, ledger=self.site.ledger)
        self.deployment = evolve(self.old, more_text=(self.new_model, self.third_model))

    @property
    def text(self) -> ScriptedTextModel:
        model = self.old.text
        assert isinstance(model, ScriptedTextModel)
        return model

    @property
    def world(self) -> World:
        """What the contracts' helpers put rows into."""
        site = self.site
        return World(site.uow, site.dispatch, site.heartbeat, lambda: MemoryListener(site.store), self.text.space)

    def changed_model(self) -> Deployment:
        """Return a process that embeds with the new model, and may search with the old one."""
        return evolve(self.old, text=self.new_model, more_text=(self.text,))

    async def hang(self, count: int, scope: Scope = A, name: str = "picture") -> list[Meme]:
        """Upload pictures, describe and embed them by the old process."""
        await self.site.slots(count)
        memes = [await self.site.upload(f"{name} {number}", scope) for number in range(count)]
        await self.site.work_off(scope)
        assert len({row.meme_id for row in self.site.view(scope).findable}) >= count
        return memes

    async def embed(self, wanted: Embedding | None = None, pace: Pace | None = None) -> list[Embedded]:
        return [page async for page in embed(self.deployment, A, wanted, pace)]

    async def fill(self, space: VectorSpace = NEW) -> Sequence[Failure]:
        """Embed everything in a space and return what failed."""
        return [failure for page in await self.embed(Embedding(space)) for failure in page.failed]

    async def state(self) -> SearchState:
        async with self.old.uow.begin(A) as tx:
            return await tx.search.state()

    async def found(self, text: str = "picture", deployment: Deployment | None = None) -> list[MemeId]:
        return [hit.meme_id for hit in (await self.ask(text, deployment)).hits]

    async def ask(self, text: str = "picture", deployment: Deployment | None = None) -> Answer:
        query = Query(text, n_results=100, ranking=Ranking.SEMANTIC)
        return await search(deployment or self.deployment, A, query)

    async def describe(self, meme: Meme, title: str) -> None:
        """Describe a picture in a person's words, which nobody embeds until the site works."""
        async with self.old.uow.begin(A) as tx:
            before = (await tx.contexts.get([meme.meme_id])).get(meme.meme_id)
        revision = before.revision if before else 0
        await edit_context(self.old, A, meme.meme_id, revision, Description(title=title))

    async def build(self) -> None:
        """Build a legacy generation of what can be found."""
        await request_generation(self.old, A)
        (execution,) = await claim_tasks(self.old, A, TaskType.CACHE, 1, OWNER)
        await build_generation(self.old, execution)

    async def to_legacy(self) -> None:
        """Bring the scope to where an old installation begins."""
        await self.build()
        async with self.old.uow.begin(A) as tx:
            state = await tx.migration.lock()
            await tx.migration.save(rollback(state))

    def check(self) -> None:
        check_invariants(self.site.view())

    def spaces(self, meme: Meme) -> set[str]:
        """Return the spaces in which a picture can be found."""
        return {row.space_id for row in self.site.view().findable if row.meme_id == meme.meme_id}


async def first(pages: AsyncGenerator[Embedded, None]) -> Embedded:
    """Take one page of a run and end it there."""
    page = await anext(pages)
    await pages.aclose()
    return page
