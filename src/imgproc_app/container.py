"""How the parts are put together: the only place that imports dependency_injector.

Resources that must be opened and closed (engine, models) are handed in by `lifecycle`; providers only wire them.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from dependency_injector import containers, providers
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_app.observability import LogObserver
from imgproc_app.settings import Settings
from imgproc_app.worker import ImageProcessingWorker, Pace, TaskWorker
from imgproc_app.worker.lane import Perform
from imgproc_domain.lane import LaneLimits
from imgproc_domain.ports.models import Agent, Decoder, TextModel, VisualModel
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.stage import Lane, TaskType
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.maintenance import build_generation


def limits_of(settings: Settings) -> Limits:
    lanes = {
        Lane.VISUAL: settings.visual_lane,
        Lane.AGENT: settings.agent_lane,
        Lane.TEXT: settings.text_lane,
        Lane.MAINTENANCE: 1,
    }
    return Limits(
        lease=settings.lease,
        job_lease=settings.lease,
        upload_bytes=settings.upload_mb * 1024 * 1024,
        lanes=LaneLimits(lanes, settings.agent_backpressure),
        retry=RetryPolicy(settings.max_attempts, settings.max_lease_losses),
        answer_within=timedelta(seconds=settings.answer_seconds),
        near_score=settings.near_duplicate_score,
        near_within=timedelta(seconds=settings.near_duplicate_seconds),
    )


def pace_of(settings: Settings) -> Pace:
    return Pace(poll=settings.poll_seconds, sweep=2 * settings.poll_seconds, grace=settings.shutdown_seconds)


def listener_of(settings: Settings, dsn: str) -> PostgresListener:
    # a pooler in transaction mode cannot LISTEN: polling alone finds the work then
    return PostgresListener(None if settings.pooler else dsn)


MAINTENANCE: Final[Mapping[TaskType, Perform]] = {TaskType.CACHE: build_generation}
"""What the general task worker can do."""


class Container(containers.DeclarativeContainer):
    """One process's parts."""

    settings = providers.Dependency(instance_of=Settings)
    dsn = providers.Dependency(instance_of=str)
    engine: providers.Dependency[AsyncEngine] = providers.Dependency()
    decoder: providers.Dependency[Decoder] = providers.Dependency()
    visual: providers.Dependency[VisualModel] = providers.Dependency()
    agent: providers.Dependency[Agent] = providers.Dependency()
    text: providers.Dependency[TextModel] = providers.Dependency()
    more_text: providers.Dependency[Sequence[TextModel]] = providers.Dependency()
    policy: providers.Dependency[OperationPolicy] = providers.Dependency()

    uow = providers.Singleton(PostgresUnitOfWork, engine)
    dispatch = providers.Singleton(PostgresDispatch, engine)
    blobs = providers.Singleton(LocalBlobStore, settings.provided.blob_dir)
    deployment = providers.Singleton(
        Deployment,
        uow=uow,
        blobs=blobs,
        decoder=decoder,
        visual=visual,
        agent=agent,
        text=text,
        policy=policy,
        ids=providers.Singleton(SystemIds),
        observer=providers.Singleton(LogObserver),
        limits=providers.Singleton(limits_of, settings),
        more_text=more_text,
    )
    image_worker = providers.Factory(
        ImageProcessingWorker,
        deployment,
        dispatch,
        heartbeat=providers.Factory(PostgresHeartbeat, dsn, pooler=settings.provided.pooler),
        listener=providers.Factory(listener_of, settings, dsn),
        pace=providers.Singleton(pace_of, settings),
    )
    task_worker = providers.Factory(
        TaskWorker,
        deployment,
        dispatch,
        heartbeat=providers.Factory(PostgresHeartbeat, dsn, pooler=settings.provided.pooler),
        listener=providers.Factory(listener_of, settings, dsn),
        performers=providers.Object(MAINTENANCE),
        pace=providers.Singleton(pace_of, settings),
    )
