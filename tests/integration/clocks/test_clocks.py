"""The results are the same whatever the workers' clocks show: only the database's counts."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from attrs import define, field, frozen
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.clocks import shift
from tests.integration.clocks.worker import DESCRIBED_FIRST, HARD_DEADLINE, RETRY_AFTER, SEEN_FIRST
from tests.integration.pipeline.test_postgres_pipeline import read_view

from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.pipeline import content_of
from imgproc_adapters.testing.view import View
from imgproc_adapters.testing.waiting import until
from imgproc_domain.job import Job
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy, TaskType
from imgproc_domain.task import Task
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.views import get_job

HOUR: Final = 3600
NEAR: Final = timedelta(minutes=10)
PATIENCE: Final = 120.0
LOST: Final = ("lost in sight", "lost in thought")
OTHERS: Final = ("plain", "simple", *sorted({*SEEN_FIRST, *DESCRIBED_FIRST} - {*LOST}))
QUOTA: Final = 2
LIMITED: Final = ("first", "second", "one too many")
SHORT_LEASE: Final = 8
LONG_LEASE: Final = 30
"""Seconds: of the worker that is killed, and of those that nothing but a machine that stands still could expire."""


@frozen
class Clocks:
    """How many seconds the workers' clocks are ahead: of the one that is lost, and of the two that do the rest."""

    lost: int
    others: tuple[int, int]


@define
class Site:
    """Two scopes of their own, and a process with a right clock that takes pictures in and looks on."""

    database: str
    direct: str
    pooled: bool
    folder: Path
    engine: AsyncEngine
    scope: Scope
    limited: Scope
    deployment: Deployment = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.deployment = Deployment(
            uow=PostgresUnitOfWork(self.engine),
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(),
            agent=ScriptedAgent(hard_deadline=HARD_DEADLINE),
            text=ScriptedTextModel(),
            policy=QuotaPolicy(self.engine),
            ids=SystemIds(),
            observer=RecordingObserver(),
        )

    async def open(self) -> None:
        async with self.deployment.uow.begin(self.scope) as tx:
            await tx.slots.resize(Lane.AGENT, 3)
        await QuotaPolicy(self.engine).set_quota(self.limited, Operation.ANALYSIS_AGENT, Quota(QUOTA, Period.HOUR))

    async def upload(self, content: str, scope: Scope | None = None) -> Job:
        name, scope = f"{content}.png", scope or self.scope
        job = (await upload(self.deployment, scope, name, content_of(content), ReverseImagePolicy.FORBID)).job
        assert job is not None
        return job

    async def ended(self, job: Job) -> Job:
        async def look() -> Job | None:
            found = (await get_job(self.deployment, job.scope, job.job_id)).job
            return None if found.live else found

        return await until(look, PATIENCE)

    @asynccontextmanager
    async def worker(self, ahead: int, lease: int) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a worker process whose clock is so many seconds ahead; killed at the end if it still runs."""
        variables = shift.environment(ahead)
        given = {"dsn": self.database, "direct": self.direct, "pooled": self.pooled, "home": self.scope}
        given |= {"folder": str(self.folder), "shift": ahead, "lease": lease, "replace": not variables}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__).with_name("worker.py")), json.dumps(given)),
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            shown = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
            assert all(abs(clock - time.time() - ahead) < HOUR / 4 for clock in shown), "its clock is not as it should"
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def _finish(process: asyncio.subprocess.Process) -> None:
    """Let a worker stop by itself."""
    await asyncio.wait_for(process.communicate(b""), PATIENCE)
    assert process.returncode == 0


async def _process(site: Site, clocks: Clocks) -> None:
    """Lose a worker in the middle of two calls; two others do what it left and everything else."""
    await site.open()
    lost = [await site.upload(content) for content in LOST]
    async with site.worker(clocks.lost, SHORT_LEASE) as doomed:

        async def inside_both_calls() -> bool | None:
            return all((site.folder / content).exists() for content in LOST) or None

        await until(inside_both_calls, PATIENCE)
        view = await _view(site.direct, site.scope)
        leases = [task.lease.expires_at - view.now for task in view.tasks if task.lease.expires_at]
        assert [timedelta(0) < left <= timedelta(seconds=SHORT_LEASE) for left in leases] == [True] * len(LOST)
        doomed.kill()
        await doomed.wait()
    first, second = clocks.others
    async with site.worker(first, LONG_LEASE) as one, site.worker(second, LONG_LEASE) as two:
        jobs = [*lost, *[await site.upload(content) for content in OTHERS]]
        for content in LIMITED:
            await site.ended(await site.upload(content, site.limited))
        for job in jobs:
            await site.ended(job)
        await _finish(one)
        await _finish(two)


@frozen
class Outcome:
    """Everything about a picture that does not differ from run to run by itself. Times are told by their distances."""

    picture: str
    job: tuple[object, ...]
    stages: Sequence[tuple[object, ...]]
    tasks: Sequence[tuple[object, ...]]
    attempts: Sequence[tuple[object, ...]]
    grants: Sequence[str]
    context: tuple[object, ...] | None
    vectors: tuple[int, int, int]


def _outcomes(view: View) -> list[Outcome]:
    return sorted((_outcome(view, job) for job in view.jobs), key=lambda outcome: outcome.picture)


def _outcome(view: View, job: Job) -> Outcome:
    (meme,) = [meme for meme in view.memes if meme.meme_id == job.meme_id]
    tasks = sorted((t for t in view.tasks if t.target and t.target.job_id == job.job_id), key=lambda t: t.task_id)
    context = next((context for context in view.contexts if context.meme_id == job.meme_id), None)
    return Outcome(
        picture=meme.filename,
        job=(job.status, job.revision, job.error, _until_next_hour(job.retry_at, job)),
        stages=[(s.stage, s.status, s.reused, s.error, _until_next_hour(s.retry_at, job)) for s in job.stages],
        tasks=[_task(view, task) for task in tasks],
        attempts=[_attempt(view, task) for task in tasks],
        grants=[grant.status for task in tasks for grant in view.grants if grant.task_id == task.task_id],
        context=(context.status, context.revision, context.description) if context else None,
        vectors=(
            sum(product.meme_id == job.meme_id for product in view.visual),
            sum(product.meme_id == job.meme_id for product in view.text),
            sum(product.meme_id == job.meme_id for product in view.findable),
        ),
    )


def _until_next_hour(retry_at: datetime | None, job: Job) -> bool | None:
    """Whether a blocked job may come back when the database's hour is over."""
    assert job.completed_at is not None
    hour = job.completed_at.replace(minute=0, second=0, microsecond=0)
    return None if retry_at is None else retry_at == hour + timedelta(hours=1)


def _task(view: View, task: Task) -> tuple[object, ...]:
    counts = (task.lease.generation, task.failures, task.lease_losses)
    return (task.task_type, task.status, *counts, task.error, _postponed(view, task))


def _postponed(view: View, task: Task) -> timedelta | None:
    """How long after its first attempt had failed a task was available again."""
    ended = [a.completed_at for a in view.attempts if a.task_id == task.task_id and a.attempt_no == 1]
    return task.available_at - ended[0] if task.failures and ended[0] else None


def _attempt(view: View, task: Task) -> tuple[object, ...]:
    own = sorted((a for a in view.attempts if a.task_id == task.task_id), key=lambda a: a.attempt_no)
    told = [(a.attempt_no, a.generation, a.status, a.error) for a in own]
    called = [a.hard_deadline_at - a.external_started_at for a in own if a.hard_deadline_at and a.external_started_at]
    return (told, called)


def _check_order(view: View) -> None:
    """Every id and every time is the database's, and they follow each other as what they stand for did."""
    for job in view.jobs:
        tasks = [task for task in view.tasks if task.target and task.target.job_id == job.job_id]
        assert abs(_made(job.job_id) - job.created_at) < NEAR
        in_order = sorted(tasks, key=lambda task: task.task_id)
        assert [task.task_type for task in in_order] == list(TaskType)[: len(tasks)]
        times = [job.created_at]
        for task in in_order:
            assert abs(_made(task.task_id) - task.created_at) < NEAR
            assert task.started_at is not None
            assert task.completed_at is not None
            times += [task.created_at, task.started_at, task.completed_at]
        assert times == sorted(times)
        assert job.completed_at is not None
        assert times[-1] <= job.completed_at <= view.now


def _made(ident: UUID) -> datetime:
    return datetime.fromtimestamp((ident.int >> 80) / 1000, UTC)


def _summary(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.picture.removesuffix(".png"): str(outcome.job[0]) for outcome in outcomes}


async def test_workers_whose_clocks_are_an_hour_off_do_as_those_with_right_ones(
    database: str, direct: str, pooled: bool, engine: AsyncEngine, tmp_path: Path
) -> None:
    numbers = count(1)

    async def run(clocks: Clocks) -> tuple[list[Outcome], list[Outcome]]:
        while True:
            number = next(numbers)
            folder = tmp_path / str(number)
            folder.mkdir()
            scopes = Scope(f"clocks-{number}"), Scope(f"limited-{number}")
            await _process(Site(database, direct, pooled, folder, engine, *scopes), clocks)
            view, limited = [await _seen(direct, scope) for scope in scopes]
            hours = {job.created_at.replace(minute=0, second=0, microsecond=0) for job in limited.jobs}
            if len(hours) == 1:
                return _outcomes(view), _outcomes(limited)
            # the quota's period turned in the middle of it: that happens once an hour

    right = await run(Clocks(0, (0, 0)))
    assert _summary(right[0]) == {
        **dict.fromkeys((*LOST, *OTHERS), "succeeded"),
        "lost in thought": "unknown_execution",
        "refused": "failed",
    }
    assert _summary(right[1]) == {"first": "succeeded", "one too many": "blocked", "second": "succeeded"}
    by_name = {outcome.picture: outcome for outcome in (*right[0], *right[1])}
    assert by_name["one too many.png"].job[3] is True
    assert [task[-1] for task in by_name["busy.png"].tasks] == [None, RETRY_AFTER, None]
    assert by_name["lost in thought.png"].attempts[1][1] == [HARD_DEADLINE]
    assert await run(Clocks(HOUR, (HOUR, -HOUR))) == right


async def _view(direct: str, scope: Scope) -> View:
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as reader:
        return await read_view(reader, scope)


async def _seen(direct: str, scope: Scope) -> View:
    view = await _view(direct, scope)
    check_invariants(view)
    _check_order(view)
    return view
