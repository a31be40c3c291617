"""A library over PostgreSQL whose search is migrated, with places where somebody else may come in between."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from attrs import define, evolve, field, frozen

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.factories import make_context, make_meme, make_words
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Context
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.product import TextProduct
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Query, Ranking
from imgproc_domain.usecases.backfill import Embedded, Embedding, embed
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.search import search
from imgproc_domain.vector import Vector

A = Scope("search-races")
OLD, NEW = VectorSpace("old-text", 64), VectorSpace("new-text", 32)

Hook = Callable[[], Awaitable[object]]


@frozen
class Picture:
    meme: Meme
    context: Context

    @property
    def meme_id(self) -> MemeId:
        return self.meme.meme_id


@define(eq=False)
class Interposed:
    """A unit of work in which something happens just before a store is asked for something, once."""

    inner: UnitOfWork
    hooks: dict[tuple[str, str], Hook] = field(factory=dict)

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        async with self.inner.begin(scope) as tx:
            for store, method in self.hooks:
                self._interpose(getattr(tx, store), (store, method))
            yield tx

    def _interpose(self, store: Any, place: tuple[str, str]) -> None:
        asked = getattr(store, place[1])

        async def ask(*args: object, **kwargs: object) -> object:
            hook = self.hooks.pop(place, None)
            if hook is not None:
                await hook()
            return await asked(*args, **kwargs)

        setattr(store, place[1], ask)


class NoBlobs:
    """Bytes that are gone already."""

    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: datetime) -> bool:
        return True


class Hall:
    """Pictures of one scope, and processes that embed them by one model and search by two."""

    def __init__(self, uow: PostgresUnitOfWork) -> None:
        self.uow = uow
        self.old_model, self.new_model = ScriptedTextModel(space=OLD), ScriptedTextModel(space=NEW)
        self.deployment = Deployment(
            uow=uow,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(),
            agent=ScriptedAgent(),
            text=self.old_model,
            policy=AllowAllPolicy(),
            ids=SystemIds(),
            observer=RecordingObserver(),
            more_text=(self.new_model,),
        )

    def interposed(self, store: str, method: str, hook: Hook) -> Deployment:
        return evolve(self.deployment, uow=Interposed(self.uow, {(store, method): hook}))

    async def hang(self, *titles: str) -> list[Picture]:
        """Describe pictures, and make them findable in the old space."""
        pictures = [await self.describe(title) for title in titles]
        for picture in pictures:
            async with self.uow.begin(A) as tx:
                await tx.memes.lock([picture.meme_id])
                await self.publish(tx, picture)
        return pictures

    async def describe(self, title: str) -> Picture:
        meme = make_meme(A)
        context = make_context(meme, title)
        async with self.uow.begin(A) as tx:
            await tx.memes.add(meme)
            await tx.contexts.put([context])
        return Picture(meme, context)

    async def publish(self, tx: Transaction, picture: Picture, space: VectorSpace = OLD) -> None:
        """Do what the settling of a text stage does in a process that has one model."""
        product = await self.product(picture, space)
        await tx.products.put_text([product])
        await tx.search.publish([product], make_words((picture.meme, picture.context)))

    async def product(self, picture: Picture, space: VectorSpace) -> TextProduct:
        model = self.old_model if space == OLD else self.new_model
        (vector,) = await model.embed_documents([picture.context.description.embeddable_text()])
        assert isinstance(vector, Vector)
        assert picture.context.metadata_hash is not None
        return TextProduct(
            picture.meme_id, picture.meme.picture.sha256, picture.context.metadata_hash, space.id, vector
        )

    async def write(self, tx: Transaction, picture: Picture, title: str) -> Picture:
        """Do what an edit does, in a transaction that stays open."""
        await tx.memes.lock([picture.meme_id])
        edited = make_context(picture.meme, title, revision=picture.context.revision + 1)
        await tx.contexts.put([edited])
        await tx.search.refresh([picture.meme_id])
        return evolve(picture, context=edited)

    async def fill(self, space: VectorSpace = NEW) -> list[Embedded]:
        return [page async for page in embed(self.deployment, A, Embedding(space))]

    async def state(self) -> SearchState:
        async with self.uow.begin(A) as tx:
            return await tx.search.state()

    async def ask(self, text: str = "cat", deployment: Deployment | None = None) -> Answer:
        query = Query(text, n_results=100, ranking=Ranking.SEMANTIC)
        return await search(deployment or self.deployment, A, query)

    async def found(self) -> set[MemeId]:
        return {hit.meme_id for hit in (await self.ask()).hits}
