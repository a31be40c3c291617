"""Open what a process needs, in order, and close it in reverse - also when a step in between fails."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from attrs import evolve, field, frozen
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.imaging import Limits as PictureLimits
from imgproc_adapters.models.local import LocalModels
from imgproc_adapters.models.wire import Setup
from imgproc_adapters.policy import UnavailablePolicy
from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.spaces import register_spaces
from imgproc_adapters.text.encoders import TEXT_MODELS, TextModelName
from imgproc_app.container import Container
from imgproc_app.keeper import keep_running
from imgproc_app.policies import named_policy
from imgproc_app.settings import Settings, names_in
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import ImgprocError, InvalidValue
from imgproc_domain.ports.claims import Dispatch
from imgproc_domain.ports.models import Agent, Decoder, TextModel, VisualModel
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope, parse_scope
from imgproc_domain.stage import Lane
from imgproc_domain.usecases.deployment import Deployment, decided_again

log = logging.getLogger(__name__)


class SchemaOutdated(ImgprocError):
    """The database's schema is not this version's."""

    code = "schema_outdated"


class DataDirUnusable(ImgprocError):
    """The data directory cannot be made or used."""

    code = "data_dir_unusable"


@frozen
class Parts:
    """What a host brings. Models that are left out are the local ones; a policy that is left out denies everything.

    A ``policy`` of None is the one that the settings name: that is for commands, whose operator is the host.
    """

    policy: OperationPolicy | None = field(factory=UnavailablePolicy)
    decoder: Decoder | None = None
    visual: VisualModel | None = None
    agent: Agent | None = None
    text: TextModel | None = None
    more_text: Sequence[TextModel] = ()
    """Further text models, beside those that the settings name."""


@frozen
class Runtime:
    """An opened process: use cases run against ``deployment``; `working` adds a worker.

    ``server`` is the embedded PostgreSQL, None with a DSN.
    """

    settings: Settings
    dsn: str
    engine: AsyncEngine
    deployment: Deployment
    dispatch: Dispatch
    local_models: LocalModels
    container: Container
    server: EmbeddedPostgres | None

    @property
    def scope(self) -> Scope:
        return parse_scope(self.settings.scope)

    @property
    def alone(self) -> bool:
        """Whether this process opened the database first, so that certainly no other one was at work on it."""
        return self.server is not None and self.server.owns_server

    async def warm(self) -> None:
        """Start the local model processes and load their models, so that the first picture does not wait for them."""
        await self.local_models.warm()


@asynccontextmanager
async def open_runtime(settings: Settings, parts: Parts) -> AsyncIterator[Runtime]:
    """Open database, blob store and models for the length of the block.

    The embedded PostgreSQL is started, or joined if another process runs it, and migrated; a database given by DSN
    must have been migrated by its operator.

    Raises:
        EmbeddedPostgresError: the embedded server cannot run here; the message says why and what to do.
        DatabaseUnavailable: the database given by DSN does not answer.
        SchemaOutdated: its schema is not this version's.
        DataDirUnusable: the data directory cannot be made.
        InvalidValue: the DSN is no connection string, the policy's URL is none, a model's space has another
            dimension than before, or two text models have one space.
    """
    async with AsyncExitStack() as stack:
        make_private(settings.data_dir)
        server = EmbeddedPostgres(settings.cluster_dir) if settings.dsn is None else None
        dsn = await _embedded(server, stack) if server else await _given(settings)
        engine = open_engine(dsn, pool_size=settings.pool_size, pooler=settings.pooler)
        stack.push_async_callback(engine.dispose)
        models = local_models(settings)
        stack.push_async_callback(models.close)
        policy = parts.policy or await stack.enter_async_context(named_policy(settings, engine))
        container = _wire(settings, evolve(parts, policy=policy), dsn, engine, models)
        deployment: Deployment = container.deployment()
        stack.push_async_callback(deployment.questions.close)
        await register_spaces(engine, [deployment.visual.space, *_text_spaces(deployment)])
        yield Runtime(settings, dsn, engine, deployment, container.dispatch(), models, container, server)


@asynccontextmanager
async def working(runtime: Runtime) -> AsyncIterator[None]:
    """Run the workers for the length of the block; they then finish or give back what they hold.

    The image worker owns the three image task types, the task worker every other one. Models and agent of this process
    are those in force from now on, over all processes, until another one starts to work with others.
    """

    async def resize() -> None:
        async with runtime.deployment.uow.begin(runtime.scope) as tx:
            await tx.slots.resize(Lane.AGENT, runtime.settings.agent_lane)

    await decided_again(resize)
    async with AsyncExitStack() as stack:
        for worker in (runtime.container.image_worker(home=runtime.scope), runtime.container.task_worker()):
            await worker.start()
            stack.push_async_callback(worker.stop)
        yield


def local_models(settings: Settings) -> LocalModels:
    """Return the models of this machine that the settings choose; none of their processes is started yet."""
    limits = PictureLimits(max_pixels=settings.max_megapixels * 1_000_000, max_bytes=settings.upload_mb * 1024 * 1024)
    text_model, *more_text = (_text_model(name) for name in (settings.text_model, *names_in(settings.more_text_models)))
    setup = Setup(cache=str(settings.cache_dir.absolute()), limits=limits, text_model=text_model)
    return LocalModels.create(setup, more_text)


def _text_model(wanted: str) -> TextModelName:
    return next(name for name in TEXT_MODELS if name == wanted)


def _text_spaces(deployment: Deployment) -> list[VectorSpace]:
    spaces = [model.space for model in (deployment.text, *deployment.more_text)]
    twice = [name for name, times in Counter(space.id for space in spaces).items() if times > 1]
    if twice:
        raise InvalidValue(f"two text models have the embedding space {twice[0]}: leave one of them out")
    return spaces


def make_private(directory: Path) -> None:
    """Create a directory that only its owner may read; an existing one keeps its permissions.

    Raises:
        DataDirUnusable: it cannot be made, or is no directory.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
    except OSError as error:
        there = existing(directory)
        reason = f"{error.strerror}" if there.is_dir() else f"{there} is a file"
        raise DataDirUnusable(f"cannot make the data directory {directory}: {reason}") from error


def existing(path: Path) -> Path:
    """Return ``path``, or the nearest of the directories it would lie in that exists and may be looked at."""
    # unlike Path.exists, os.path.exists is false for what may not be looked at
    return next(place for place in (path.absolute(), *path.absolute().parents) if os.path.exists(place))  # noqa: PTH110 - see above


def check_dsn(dsn: str) -> None:
    """Raise `InvalidValue` unless ``dsn`` is a libpq URI or string; whether anybody answers there is not asked."""
    try:
        conninfo_to_dict(dsn)
    except ProgrammingError as error:
        # libpq's own message would quote the string, and with it a password
        raise InvalidValue("the DSN is no PostgreSQL connection string: postgresql://USER@HOST:PORT/NAME") from error


async def _embedded(server: EmbeddedPostgres, stack: AsyncExitStack) -> str:
    """Start or join the embedded server, keep it running for as long as the stack is open, and return its DSN."""
    stack.push_async_callback(asyncio.to_thread, server.stop)
    await asyncio.to_thread(server.start)
    dsn = server.dsn()
    await asyncio.to_thread(migrate.upgrade, dsn)
    await stack.enter_async_context(keep_running(server))
    return dsn


async def _given(settings: Settings) -> str:
    """Return the DSN of the settings once its database is known to have this version's schema."""
    assert settings.dsn is not None, "without one there is the embedded server"
    check_dsn(settings.dsn)
    found = await asyncio.to_thread(migrate.current, settings.dsn)
    if found != migrate.head():
        state = f"at revision {found}" if found else "empty"
        raise SchemaOutdated(f"the database is {state}, this version needs {migrate.head()}: run 'imgproc migrate'")
    return settings.dsn


def _wire(settings: Settings, parts: Parts, dsn: str, engine: AsyncEngine, models: LocalModels) -> Container:
    return Container(
        settings=settings,
        dsn=dsn,
        engine=engine,
        decoder=parts.decoder or models.decoder,
        visual=parts.visual or models.visual,
        agent=parts.agent or evolve(models.agent, hard_deadline=timedelta(seconds=settings.agent_seconds)),
        text=parts.text or models.text,
        more_text=[*parts.more_text, *models.more_text],
        policy=parts.policy,
    )
