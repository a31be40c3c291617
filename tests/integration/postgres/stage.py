"""A library in PostgreSQL that is findable in two spaces, and what people and operators do to it and its oracle."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from attrs import define, evolve
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.stops import Point, StoppingUnitOfWork

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.invariants import check
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.pipeline import content_of
from imgproc_adapters.testing.search_oracle import BACKFILL, INCREMENTAL, LEGACY, Library, Shown
from imgproc_adapters.testing.search_world import DESCRIPTIONS, ONE, SPACES, TWO, Process, SearchSite
from imgproc_adapters.testing.world import World
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.errors import CacheNotReady
from imgproc_domain.ids import MemeId
from imgproc_domain.ports.models import AgentAnswer
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Query, Ranking, Source
from imgproc_domain.usecases import migrate_search
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.search import search

S: Final = Scope("interleaved")
CAT, OTHER = DESCRIPTIONS[0], DESCRIPTIONS[4]
NOBODY: Final = MemeId(UUID(int=0))
PICTURES: Final = ("cat", "dog", "owl", "fox")


@define(eq=False)
class Stage:
    """A library in PostgreSQL that is findable in both spaces, and what is known of it."""

    process: Process
    library: Library
    memes: list[MemeId]
    uow: PostgresUnitOfWork
    direct: str
    target: MemeId = NOBODY

    @property
    def shown(self) -> Shown:
        """What is known of the picture that is changed."""
        return self.library.shown[self.target]

    def stopping(self, point: Point, *, commit: bool = False) -> tuple[Deployment, StoppingUnitOfWork]:
        uow = StoppingUnitOfWork(self.uow, point, commit)
        return evolve(self.process.both, uow=uow), uow

    async def ask(self, query: Query) -> Answer | None:
        """Return what is found; None where nothing can be."""
        try:
            return await search(self.process.both, S, query)
        except CacheNotReady:
            return None

    async def holds(self) -> None:
        """Whatever went before: searches find what they must, and the rows keep every promise."""
        for ranking in Ranking:
            query = Query(CAT.title, ranking=ranking)
            assert await self.ask(query) == self.library.answer(query)
        report = await check(self.direct, [S])
        assert not report.broken, report.lines()
        assert not report.warnings, report.warnings


async def nothing(*_: object) -> None:
    return None


@asynccontextmanager
async def staged(engine: AsyncEngine, database: str, direct: str, *, pooled: bool) -> AsyncIterator[Stage]:
    uow, heartbeat = PostgresUnitOfWork(engine), PostgresHeartbeat(database, pooler=pooled)
    world = World(uow, PostgresDispatch(engine), heartbeat, lambda: PostgresListener(direct))
    site = SearchSite(world, S, S, age=nothing, forget_words=nothing, check=nothing, close=nothing)
    stage = Stage(Process(site), Library(ONE), [], uow, direct)
    await stage.process.make_slots()
    for content, words in zip(PICTURES[:3], DESCRIPTIONS, strict=False):
        await add(stage, content, words)
    stage.target = stage.memes[0]
    yield stage
    heartbeat.close()


async def add(stage: Stage, content: str, words: Description, *, embedded: bool = True) -> None:
    """Add a picture that is described so, and findable in both spaces unless its text is not ``embedded`` yet."""
    process, library = stage.process, stage.library
    process.agent.script.always(lambda _: AgentAnswer(words, ContextStatus.READY))
    meme_id = (await process.upload(S, content, f"{content}.png")).meme.meme_id
    await process.describe(S)
    stage.memes.append(meme_id)
    library.shown[meme_id] = Shown(content, f"{content}.png", words)
    if embedded:
        await process.embed_texts(S)
        for space in SPACES:
            library.write(meme_id, library.shown[meme_id].version, space)
        library.pin(ONE)


Act = Callable[[Stage], Awaitable[object]]


async def edited(stage: Stage) -> None:
    """A person writes other words, or the former ones again, whose vectors are there still."""
    words = OTHER if stage.shown.description == CAT else CAT
    async with stage.uow.begin(S) as tx:
        revision = (await tx.contexts.get([stage.target]))[stage.target].revision
    await edit_context(stage.process.both, S, stage.target, revision, words)
    stage.shown.description = words


async def replaced(stage: Stage) -> None:
    """Other bytes, or the former ones again."""
    former = PICTURES[stage.memes.index(stage.target)]
    content = former if stage.shown.content != former else "other bytes"
    await replace_picture(stage.process.both, S, stage.target, None, content_of(content))
    stage.shown.content = content


async def renamed(stage: Stage) -> None:
    name = "meeting.png" if stage.shown.filename != "meeting.png" else "picture.png"
    await replace_picture(stage.process.both, S, stage.target, name, content_of(stage.shown.content))
    stage.shown.filename = name


async def deleted(stage: Stage) -> None:
    await delete_meme(stage.process.both, S, stage.target)
    stage.shown.alive = False


CHANGES: Final = [edited, replaced, deleted]


async def filling(stage: Stage) -> None:
    await migrate_search.begin_filling(stage.process.both, S, TWO)
    stage.library.begin_filling(TWO)


async def switched(stage: Stage) -> None:
    library = stage.library
    await migrate_search.switch(stage.process.both, S)
    library.step(INCREMENTAL)
    library.serving, library.filling = library.filling or library.serves, None


async def filled_and_switched(stage: Stage) -> None:
    await filling(stage)
    await switched(stage)


async def back(stage: Stage) -> None:
    await migrate_search.rollback(stage.process.both, S, ONE)
    library = stage.library
    library.begin_filling(ONE)
    library.step(library.mode)
    library.serving, library.filling = ONE, None


async def copied(stage: Stage) -> None:
    """A legacy index is built, and another picture is added since, which it does not have."""
    await stage.process.build_generation()
    stage.library.copy()
    await add(stage, "fox", CAT)


async def to_legacy(stage: Stage) -> None:
    await migrate_search.rollback(stage.process.both, S, Source.LEGACY)
    stage.library.step(LEGACY)


async def started(stage: Stage) -> None:
    await migrate_search.start(stage.process.both, S)
    stage.library.step(BACKFILL)
