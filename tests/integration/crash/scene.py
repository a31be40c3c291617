"""One database after a death: what was left in it, time that passes, and those who come after."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Protocol

from attrs import define
from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.crash.program import CONVERTER, Life, Step, Work
from tests.integration.crash.site import DEADLINE, SCOPE, Policy, Site
from tests.integration.crash.table import AT_ONCE, ORDER, Left, Outcome, Reserved, nth
from tests.integration.pipeline.test_postgres_pipeline import ELAPSE, read_view

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.invariants import check
from imgproc_adapters.postgres.session import Row
from imgproc_adapters.postgres.tables import METADATA
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.crash import EXIT_CODE, Death, Fate, FatedUnitOfWork
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, LOOK_UP, TEXT, VISUAL
from imgproc_adapters.testing.view import View
from imgproc_adapters.testing.waiting import until
from imgproc_domain.attempt import Attempt, Replay
from imgproc_domain.grant import GrantStatus
from imgproc_domain.ids import MemeId
from imgproc_domain.job import JobStatus
from imgproc_domain.lane import Slot
from imgproc_domain.policy import Operation
from imgproc_domain.ports.unit_of_work import UnitOfWork
from imgproc_domain.stage import TASK_TYPE_OF, Lane, ReverseImagePolicy, Stage
from imgproc_domain.task import Task
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import Uploaded, upload
from imgproc_domain.usecases.points import Passed, Point, onwards

MODEL_OF: Final = {Stage.VISUAL: VISUAL, Stage.AGENT: AGENT, Stage.TEXT: TEXT}

_BUSY: Final = b"""
    SELECT (SELECT count(*) FROM image_processing_jobs WHERE status IN ('queued', 'running'))
         + (SELECT count(*) FROM tasks WHERE status IN ('queued', 'running'))
         + (SELECT count(*) FROM grant_releases WHERE done_at IS NULL)
"""
_POSTPONED: Final = b"SELECT FROM tasks WHERE status = 'queued' AND available_at > now()"
_RESERVATIONS: Final = b"""
    SELECT committed_at IS NOT NULL, returned_at IS NOT NULL FROM policy_reservations
    WHERE operation = %s ORDER BY acquired_at
"""
_PENDING: Final = b"SELECT count(*) FROM grant_releases WHERE done_at IS NULL"
_LATE: Final = b"SELECT count(*) FROM late_results"


@define
class Nursery:
    """Starts processes that die, one at a time."""

    _program: "subprocess.Popen[str]"

    def run(self, life: Life) -> int:
        """Return the exit code of a process with this life."""
        told, heard = self._program.stdin, self._program.stdout
        assert told is not None, "it is a pipe"
        assert heard is not None, "it is a pipe"
        print(CONVERTER.dumps(life), file=told, flush=True)
        return int(heard.readline())


class Open(Protocol):
    async def __call__(
        self, replay: Replay = ..., policy: Policy = ..., slots: int = ..., lease: timedelta = ...
    ) -> "Scene": ...


class Scene:
    """A case's own database and everything that is done to it."""

    def __init__(self, site: Site, engine: AsyncEngine, reader: AsyncConnection[Row], nursery: Nursery) -> None:
        self.site = site
        self.engine = engine
        self._reader = reader
        self._nursery = nursery
        self.uow = PostgresUnitOfWork(engine)
        self.dispatch = PostgresDispatch(engine)

    @classmethod
    @asynccontextmanager
    async def opened(cls, site: Site, direct: str, nursery: Nursery, slots: int) -> AsyncIterator["Scene"]:
        async with await AsyncConnection.connect(direct, autocommit=True) as reader:
            await _emptied(reader)
            engine = site.engine()
            scene = cls(site, engine, reader, nursery)
            async with scene.uow.begin(SCOPE) as tx:
                await tx.slots.resize(Lane.AGENT, slots)
            try:
                yield scene
            finally:
                await engine.dispose()

    @property
    def order(self) -> Mapping[Stage, Sequence[Point]]:
        """What a job passes here."""
        return AT_ONCE if self.site.policy is Policy.ALLOW_ALL else ORDER

    def deployment(self, passed: Passed = onwards, uow: UnitOfWork | None = None) -> Deployment:
        return self.site.deployment(self.engine, uow or self.uow, passed)

    async def upload(self, content: str = "cat") -> Uploaded:
        async def chunks() -> AsyncIterator[bytes]:
            yield content.encode()

        return await upload(self.deployment(), SCOPE, "a.png", chunks(), ReverseImagePolicy.FORBID)

    async def dies(
        self,
        point: Point | Step,
        death: Death = Death.PASSED,
        *,
        stage: Stage = Stage.AGENT,
        work: Work = Work.PROCESS,
        times: int = 1,
        meme_id: MemeId | None = None,
        content: str = "",
    ) -> None:
        """Let a process work until it dies there; the ``times``-th time it comes by."""
        life = Life(self.site, work, point.value, death, times, stage, meme_id, content)
        code = await asyncio.to_thread(self._nursery.run, life)
        assert code == EXIT_CODE, f"the process never died: {code}"
        assert self.site.told.read_text() == f"{death} {point}\n"
        self.site.told.unlink()

    async def dies_at(self, stage: Stage, point: Point, death: Death = Death.PASSED) -> None:
        """Let a worker begin the one job there is, and die when this stage passes the point."""
        await self.dies(point, death, stage=stage, times=nth(stage, point, self.order))

    @asynccontextmanager
    async def working(self, passed: Passed = onwards, uow: UnitOfWork | None = None) -> AsyncIterator[None]:
        """A worker that nothing happens to, in this process."""
        worker = self.site.worker(self.deployment(passed, uow), self.engine)
        await worker.start()
        try:
            yield
        finally:
            await worker.stop()

    @asynccontextmanager
    async def unlucky(self, point: Point | Step, times: int = 1) -> AsyncIterator[None]:
        """A worker, in this process, that loses the reply to the COMMIT behind a point and has just noticed."""
        fate = Fate(point, Death.REPLY_LOST, self.site.told, times)
        fate(Step.BEGUN)
        async with self.working(fate, FatedUnitOfWork(self.uow, fate)):
            await until(self._told)
            yield

    async def _told(self) -> bool | None:
        return self.site.told.exists() or None

    async def elapse(self, time: timedelta) -> None:
        """Let time pass for everything in the database."""
        for statement in ELAPSE:
            await self._reader.execute(statement.encode(), {"time": time})

    async def rest(self) -> None:
        """Wait until there is nothing left to do."""

        async def look() -> bool | None:
            return await self._one(_BUSY) == 0 or None

        await until(look)

    async def over(self, outcome: Outcome) -> None:
        """Wait until there is nothing left to do, letting the time pass that nobody can do without."""
        if outcome.waits:

            async def postponed() -> bool | None:
                return bool(await self._all(_POSTPONED)) or None

            await until(postponed)
            check_invariants(await self.view())
            await self.elapse(DEADLINE)
        await self.rest()

    async def view(self) -> View:
        return await read_view(self._reader, SCOPE)

    async def reservations(self, operation: Operation = Operation.ANALYSIS_AGENT) -> list[Reserved]:
        """Return what the quota policy knows, oldest request first."""
        return [_reserved(*row) for row in await self._all(_RESERVATIONS, operation)]

    async def pending_releases(self) -> int:
        return await self._one(_PENDING)

    async def late_results(self) -> int:
        return await self._one(_LATE)

    def phases(self, stage: Stage) -> tuple[str, ...]:
        return tuple(call.phase for call in self.site.ledger.calls() if call.model == MODEL_OF[stage])

    async def expect_left(self, stage: Stage, left: Left) -> View:
        """Check what is written of a stage and return everything."""
        view, rows = await self.view(), left.value
        task, attempts = task_of(view, stage), attempts_of(view, stage)
        assert task.status if task else None is rows.task
        assert (attempts[-1].status if attempts else None) is rows.attempt
        assert self.phases(stage) == rows.calls
        if stage is Stage.AGENT:
            assert [grant.status for grant in view.grants] == ([rows.grant] if rows.grant else [])
            await self._expect_reserved(rows.reserved)
        check_invariants(view)
        return view

    async def expect_ended(self, stage: Stage, outcome: Outcome, before: View, late: int = 0) -> None:
        """Check what became of it, and that nothing is left over once the last hard deadline has passed."""
        view = await self.view()
        check_invariants(view, before)
        assert len(taken(view)) == (outcome.busy if stage is Stage.AGENT else 0)
        await self._expect_attempts(view, stage, outcome, before)
        (job,) = view.jobs
        assert job.status is outcome.job
        assert len(view.findable) == (1 if job.status is JobStatus.SUCCEEDED else 0)
        assert await self.late_results() == late
        (grant,) = view.grants
        assert grant.status is (GrantStatus.UNKNOWN if job.status is JobStatus.UNKNOWN else GrantStatus.COMMITTED)
        await self._expect_reserved(Reserved.SPENT)
        await self.expect_rest()

    async def _expect_attempts(self, view: View, stage: Stage, outcome: Outcome, before: View) -> None:
        attempts = attempts_of(view, stage)
        assert tuple(attempt.status for attempt in attempts) == outcome.attempts
        known = [attempt.attempt_id for attempt in attempts_of(before, stage)]
        assert known == [attempt.attempt_id for attempt in attempts][: len(known)]
        called = started(self.site.ledger, MODEL_OF[stage])
        if stage is Stage.AGENT:
            assert called == [attempts[number - 1].attempt_id for number in outcome.calls]
        assert len(called) == len(outcome.calls)
        assert set(started(self.site.ledger, LOOK_UP)) == ({attempts[0].attempt_id} if outcome.asked else set())
        done = outcome.job is JobStatus.SUCCEEDED
        for other in (each for each in Stage if each is not stage):
            assert len(started(self.site.ledger, MODEL_OF[other])) == (1 if done or other is Stage.VISUAL else 0)

    async def expect_rest(self) -> None:
        """Check that nothing is held or owed by anybody once every hard deadline has passed."""
        await self.elapse(DEADLINE)
        report = await check(self.engine, quiescent=True)
        assert report.holds, report.lines()

    async def _expect_reserved(self, reserved: Reserved) -> None:
        if self.site.policy is Policy.QUOTA:
            assert await self.reservations() == ([reserved] if reserved is not Reserved.NOTHING else [])

    async def _one(self, query: bytes) -> int:
        ((value,),) = await self._all(query)
        return int(value)

    async def _all(self, query: bytes, *values: object) -> Sequence[Row]:
        return await (await self._reader.execute(query, values or None)).fetchall()


async def _emptied(database: AsyncConnection[Row]) -> None:
    """Delete every row: many times faster than a database of one's own."""
    await database.execute("SET session_replication_role = replica")
    for table in METADATA.sorted_tables:
        await database.execute(f"DELETE FROM {table.name}".encode())
    await database.execute("SET session_replication_role = DEFAULT")


def taken(view: View) -> list[Slot]:
    """Return the slots that nobody else can take now."""
    return [slot for slot in view.slots if slot.task_id and (slot.free_at is None or slot.free_at > view.now)]


def task_of(view: View, stage: Stage) -> Task | None:
    """Return the one task of a stage there may be."""
    found = [task for task in view.tasks if task.task_type is TASK_TYPE_OF[stage]]
    assert len(found) <= 1, "a stage has one task"
    return found[0] if found else None


def attempts_of(view: View, stage: Stage) -> list[Attempt]:
    """Return the attempts of a stage's task in their order."""
    task = task_of(view, stage)
    made = [attempt for attempt in view.attempts if task and attempt.task_id == task.task_id]
    return sorted(made, key=lambda attempt: attempt.attempt_no)


def _reserved(committed: bool, returned: bool) -> Reserved:
    if returned:
        return Reserved.RETURNED
    return Reserved.SPENT if committed else Reserved.RESERVED
