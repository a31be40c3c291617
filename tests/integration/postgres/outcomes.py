"""A database in which every way a picture can go has been gone, by the use cases themselves.

Each picture is a meme whose file name says what became of it. Leases and hard deadlines are an hour long, so that what
is under way stays under way for as long as a test looks at it.
"""

from datetime import timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.spaces import register_spaces
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import NOTHING_KNOWN, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.pipeline import content_of, settling
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import Job
from imgproc_domain.lane import LaneLimits
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Succeeded
from imgproc_domain.policy import Operation
from imgproc_domain.ports.evidence import Resolution
from imgproc_domain.ports.models import Declined
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, MAINTENANCE_TASK_TYPES, Lane, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.recover import expire_leases, flush_releases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.usecases.unknown import resolve_unknown

S: Final = Scope("outcomes")
BYSTANDER: Final = Scope("outcomes-next-door")
HOUR: Final = timedelta(hours=1)
NOW: Final = timedelta(0)
SLOTS: Final = 8

REFUSED: Final = Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False)
BUSY: Final = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "busy"), transient=True)


class Studio:
    """One process over PostgreSQL under the quota policy, driven step by step; one picture moves at a time."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.uow = PostgresUnitOfWork(engine)
        self.dispatch = PostgresDispatch(engine)
        self.policy = QuotaPolicy(engine)
        self.visual = ScriptedVisualModel(hard_deadline=HOUR)
        self.agent = ScriptedAgent(hard_deadline=HOUR)
        self.text = ScriptedTextModel(hard_deadline=HOUR)
        lanes = LaneLimits({Lane.VISUAL: 4, Lane.AGENT: SLOTS, Lane.TEXT: 4, Lane.MAINTENANCE: 1})
        self.deployment = Deployment(
            uow=self.uow,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=self.visual,
            agent=self.agent,
            text=self.text,
            policy=self.policy,
            ids=SystemIds(),
            observer=RecordingObserver(),
            limits=Limits(HOUR, HOUR, look_again=NOW, lanes=lanes, retry=RetryPolicy(3, 4, NOW, NOW)),
        )

    async def open(self) -> None:
        await register_spaces(self.engine, [self.visual.space, self.text.space])
        async with self.uow.begin(S) as tx:
            await tx.slots.resize(Lane.AGENT, SLOTS)

    async def upload(self, name: str, policy: ReverseImagePolicy = ReverseImagePolicy.FORBID, scope: Scope = S) -> Meme:
        return (await upload(self.deployment, scope, f"{name}.png", content_of(name), policy)).meme

    async def reconcile(self, scope: Scope = S) -> None:
        while await reconcile_due(self.deployment, self.dispatch, scope, OWNER, 10):
            pass

    async def claim(self, kind: TaskType, scope: Scope = S) -> Execution:
        (claimed,) = await claim_tasks(self.deployment, scope, kind, 1, OWNER)
        return claimed

    async def finish(self, execution: Execution, scope: Scope = S) -> None:
        ready = await start(self.deployment, scope, [execution])
        items = [settling(e, await perform(self.deployment, e)) for e in ready.running]
        items += [settling(e, e.outcome) for e in ready.decided if e.outcome is not None]
        await settle(self.deployment, scope, items)

    async def run(self, *kinds: TaskType, scope: Scope = S) -> None:
        for kind in kinds:
            await self.reconcile(scope)
            await self.finish(await self.claim(kind, scope), scope)
            await self.reconcile(scope)


VISUAL, CONTEXT, TEXT = TaskType.VISUAL, TaskType.CONTEXT, TaskType.TEXT


async def populate(dsn: str, *, under_way: bool) -> None:
    """Bring a migrated, empty database to where the pictures named below have gone all their ways.

    Without those that are ``under_way`` nothing is left to do, and no call can be running any more.
    """
    engine = open_engine(dsn, pool_size=3)
    try:
        studio = Studio(engine)
        await studio.open()
        for way in (_neighbour, _won, _refused, _unknown, _changed, _given_back, _lost, _maintained):
            await way(studio)
        await (_under_way(studio) if under_way else _an_hour_later(studio))
    finally:
        await engine.dispose()


async def _neighbour(studio: Studio) -> None:
    """Another scope, of which nothing may ever be named."""
    await studio.upload("neighbour", scope=BYSTANDER)
    await studio.run(VISUAL, CONTEXT, TEXT, scope=BYSTANDER)


async def _won(studio: Studio) -> None:
    for name in ("won", "won-too"):
        await studio.upload(name)
        await studio.run(VISUAL, CONTEXT, TEXT)
    await studio.upload("won-auto", ReverseImagePolicy.AUTO)
    await studio.run(VISUAL, CONTEXT, TEXT)


async def _job(studio: Studio, meme: Meme) -> Job:
    async with studio.uow.begin(S) as tx:
        return (await tx.jobs.newest([meme.meme_id]))[meme.meme_id]


async def _refused(studio: Studio) -> None:
    """blocked: by the quota; failed: by the agent; retried: failed, then a person asked again."""
    await studio.policy.set_quota(S, Operation.ANALYSIS_AGENT, Quota(0, Period.HOUR))
    await studio.upload("blocked")
    await studio.run(VISUAL)
    await studio.policy.drop_quota(S, Operation.ANALYSIS_AGENT, Period.HOUR)
    for name in ("failed", "retried"):
        meme = await studio.upload(name)
        studio.agent.script.then(REFUSED)
        await studio.run(VISUAL, CONTEXT)
    await retry_job(studio.deployment, S, (await _job(studio, meme)).job_id)
    await studio.run(CONTEXT, TEXT)


async def _unknown(studio: Studio) -> None:
    """unknown: its call may still be running; resolved: a person vouched for its end; asked: and then asked again."""
    found = Resolution("seen in the provider's log", "request 7", owner_dead=True, call_over=True, resolved_by="test")
    for name in ("unknown", "resolved", "asked"):
        meme = await studio.upload(name)
        studio.agent.script.then(NOTHING_KNOWN)
        await studio.run(VISUAL, CONTEXT)
        job = await _job(studio, meme)
        task_id = job.stage(Stage.AGENT).task_id
        assert task_id is not None
        if name != "unknown":
            await resolve_unknown(studio.deployment, S, task_id, found)
    await retry_job(studio.deployment, S, job.job_id)
    await studio.run(CONTEXT, TEXT)


async def _changed(studio: Studio) -> None:
    edited = await studio.upload("edited")
    await studio.run(VISUAL, CONTEXT, TEXT)
    await edit_context(studio.deployment, S, edited.meme_id, 1, Description(title="a person's words"))
    await studio.run(TEXT)
    deleted = await studio.upload("deleted")
    await studio.run(VISUAL, CONTEXT, TEXT)
    await delete_meme(studio.deployment, S, deleted.meme_id)
    replaced = await studio.upload("replaced")
    await studio.run(VISUAL, CONTEXT, TEXT)
    await replace_picture(studio.deployment, S, replaced.meme_id, "replaced.png", content_of("other bytes"))
    await studio.run(VISUAL, CONTEXT, TEXT)


async def _given_back(studio: Studio) -> None:
    """released: deleted before its agent task began; described: a person was faster than the agent."""
    meme = await studio.upload("released")
    await studio.run(VISUAL)
    await delete_meme(studio.deployment, S, meme.meme_id)
    await studio.run(CONTEXT)
    meme = await studio.upload("described")
    await studio.run(VISUAL)
    await edit_context(studio.deployment, S, meme.meme_id, 0, Description(title="faster than the agent"))
    await studio.run(CONTEXT, TEXT)
    while await flush_releases(studio.deployment, S, 10):
        pass


async def _lost(studio: Studio) -> None:
    """lost: a worker was lost in a local call, which another one repeated; its late result is evidence."""
    await studio.upload("lost")
    await studio.reconcile()
    lost = await studio.claim(VISUAL)
    (begun,) = (await start(studio.deployment, S, [lost])).running
    async with studio.engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE tasks SET lease_expires_at = now() WHERE status = 'running'")
    assert await expire_leases(studio.deployment, S, IMAGE_TASK_TYPES, 10) == 1
    await settle(studio.deployment, S, [settling(begun, Succeeded(None))])
    studio.visual.script.then(BUSY)
    await studio.run(VISUAL, VISUAL, CONTEXT, TEXT)


async def _maintained(studio: Studio) -> None:
    await request_generation(studio.deployment, S)
    (kind,) = MAINTENANCE_TASK_TYPES
    execution = await studio.claim(kind)
    outcome = await build_generation(studio.deployment, execution)
    await settle(studio.deployment, S, [Settling(execution.claim, None, outcome)])


async def _under_way(studio: Studio) -> None:
    """calling, prepared: running agent tasks; waiting: a queued one; dropped: queued for a job that is over.

    rewritten: a person wrote other words, which are not embedded yet.
    """
    rewritten = await studio.upload("rewritten")
    await studio.run(VISUAL, CONTEXT, TEXT)
    await edit_context(studio.deployment, S, rewritten.meme_id, 1, Description(title="not embedded yet"))
    await studio.upload("calling")
    await studio.run(VISUAL)
    assert len((await start(studio.deployment, S, [await studio.claim(CONTEXT)])).running) == 1
    await studio.upload("prepared")
    await studio.run(VISUAL)
    await studio.claim(CONTEXT)
    await studio.upload("waiting")
    await studio.run(VISUAL)
    dropped = await studio.upload("dropped")
    await studio.reconcile()
    await replace_picture(studio.deployment, S, dropped.meme_id, "dropped.png", content_of("newer bytes"))
    await studio.reconcile()
    await studio.upload("fresh")
    await studio.reconcile()


async def _an_hour_later(studio: Studio) -> None:
    async with studio.engine.begin() as connection:
        for statement in (
            "UPDATE task_attempts SET hard_deadline_at = hard_deadline_at - interval '1 hour'",
            "UPDATE lane_slots SET free_at = free_at - interval '1 hour'",
        ):
            await connection.exec_driver_sql(statement)
