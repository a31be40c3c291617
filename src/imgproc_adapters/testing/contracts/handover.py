"""What a settling transaction opens may be claimed in it: then with everything that a claim writes, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import pytest
from attrs import define, evolve, field, frozen

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.testing.contracts.bell import _heard
from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_adapters.testing.ledger import MemoryLedger, started
from imgproc_adapters.testing.models import AGENT, TEXT, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.processes import Process
from imgproc_adapters.testing.seed import ANOTHER, MINUTE, NO_TIME, A
from imgproc_adapters.testing.world import World
from imgproc_domain.attempt import Attempt, AttemptStatus, Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.lane import Slot
from imgproc_domain.policy import Decision, DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.ports.models import Declined
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, Settled, Settling
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.handover import Handover
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.settle import settle_and_claim

EVERYWHERE: Final = dict.fromkeys(TaskType, 10)
REFUSED: Final = Declined(Diagnosis(ErrorCode.EMBEDDING_FAILED, "no"), transient=False)


class _Denying(AllowAllPolicy):
    def acquire_now(self, request: OperationRequest) -> Decision:
        if request.operation is not Operation.ANALYSIS_AGENT:
            return super().acquire_now(request)
        return Denied(DenialReason.LIMIT_EXCEEDED, "told to deny")


class _Broken(AllowAllPolicy):
    def acquire_now(self, request: OperationRequest) -> Decision:
        if request.operation is not Operation.ANALYSIS_AGENT:
            return super().acquire_now(request)
        raise ZeroDivisionError


class _Withdrawing(AllowAllPolicy):
    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:  # noqa: ARG002 - the port's signature
        return Denied(DenialReason.LIMIT_EXCEEDED, "told to deny")


class _Failing(AllowAllPolicy):
    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:  # noqa: ARG002 - the port's signature
        raise ZeroDivisionError


@define(eq=False)
class _Contested:
    """A unit of work whose first transaction is undone at its end, because somebody else was first."""

    _inner: UnitOfWork
    begun: int = field(init=False, default=0)

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        self.begun += 1
        async with self._inner.begin(scope) as tx:
            yield tx
            if self.begun == 1:
                raise Conflict("somebody else was first")


@frozen
class _Rows:
    """What is stored of the newest job and the last task of one of its stages."""

    job: Job
    task: Task
    attempts: Sequence[Attempt]
    slots: Sequence[Slot]
    grants: Sequence[Grant]


class _House:
    """A process that hands over, up to pictures whose visual call has just ended."""

    def __init__(
        self,
        world: World,
        policy: OperationPolicy | None = None,
        replay: Replay = Replay.SAFE,
        asked: Replay = Replay.NEVER,
    ) -> None:
        """``replay`` and ``asked`` are what can be proven of a lost call of the text model and of the agent."""
        self.ledger = MemoryLedger()
        self.process = Process(
            world,
            agent=ScriptedAgent(ledger=self.ledger, replay=asked),
            text="text 1",
            ledger=self.ledger,
            policy=RememberingPolicy(),
        )
        text = ScriptedTextModel(VectorSpace("text 1", 64), replay=replay, ledger=self.ledger)
        self.process.deployment = evolve(self.process.deployment, policy=policy or AllowAllPolicy(), text=text)
        self.world = world
        self.begun = 0.0
        self.answers: Sequence[Settled | Fenced] = ()

    async def open(self, *names: str, slots: int = 2) -> list[Settling]:
        """Return the results of the pictures' visual calls, which are not written yet."""
        await self.process.slots(slots)
        for name in names or ("cat",):
            await self.process.upload(name)
        await self.process.reconcile()
        return await self.process.called(await self.process.claim(TaskType.VISUAL))

    async def settle(
        self,
        items: Sequence[Settling],
        places: Mapping[TaskType, int] = EVERYWHERE,
        room: int = 10,
        ago: timedelta = NO_TIME,
    ) -> Sequence[Execution]:
        """``ago`` is how long the worker has stood still since it began."""
        self.begun = asyncio.get_running_loop().time() - ago.total_seconds()
        handover = Handover(ANOTHER, places, room, self.begun)
        self.answers, executions = await settle_and_claim(self.process.deployment, A, items, handover)
        return executions

    async def until_text(self) -> list[Settling]:
        """Return the result of the agent's call, whose stage was handed over; it is not written yet."""
        return await self.process.called(await self.settle(await self.open()))

    async def jobs(self) -> Sequence[Job]:
        return await self.process.revisions()

    async def rows(self, stage: Stage, job: Job | None = None) -> _Rows:
        job = job or (await self.jobs())[-1]
        task_id = job.stage(stage).task_id
        assert task_id is not None, "the stage was opened"
        async with self.world.uow.begin(A) as tx:
            task = (await tx.tasks.get([task_id]))[task_id]
            grants = await tx.grants.get([task.grant_id]) if task.grant_id else {}
            attempts, slots = await tx.evidence.attempts(task_id), await tx.evidence.slots([task_id])
            return _Rows(job, task, attempts, slots, list(grants.values()))

    async def all_slots(self, task_ids: Sequence[TaskId]) -> Sequence[Slot]:
        async with self.world.uow.begin(A) as tx:
            return await tx.evidence.slots(task_ids)

    async def claimed_anew(self, task_type: TaskType) -> Sequence[Execution]:
        return await claim_tasks(self.process.deployment, A, task_type, 10, ANOTHER)


class HandoverContract:
    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("asked", Replay)
    async def test_an_agent_s_task_has_its_lease_attempt_grant_and_slot_and_is_not_started(
        self, world: World, asked: Replay
    ) -> None:
        house = _House(world, asked=asked)
        (execution,) = await house.settle(await house.open())
        rows = await house.rows(Stage.AGENT)
        lease = rows.task.lease
        assert (rows.task, rows.task.status) == (execution.task, TaskStatus.RUNNING)
        assert (lease.owner, lease.generation) == (ANOTHER, 1)
        assert lease.expires_at is not None
        assert (list(rows.attempts), execution.begun) == ([execution.attempt], None)
        assert [(a.status, a.attempt_no, a.generation) for a in rows.attempts] == [
            (AttemptStatus.GRANT_COMMITTED, 1, 1)
        ]
        assert [(slot.task_id, slot.generation, slot.free_at) for slot in rows.slots] == [(rows.task.task_id, 1, None)]
        assert [(g.status, g.task_id) for g in rows.grants] == [(GrantStatus.COMMITTED, rows.task.task_id)]
        assert [g.reservation for g in rows.grants] == [execution.reservation]
        assert (rows.job.stage(Stage.AGENT).status, rows.job.due_at) == (JobStatus.RUNNING, None)
        assert started(house.ledger, AGENT) == []

    async def test_a_pure_local_task_is_started_with_its_deadline(self, world: World) -> None:
        house = _House(world)
        (execution,) = await house.settle(await house.until_text())
        rows = await house.rows(Stage.TEXT)
        assert (rows.task, rows.task.lease.owner, rows.task.lease.generation) == (execution.task, ANOTHER, 1)
        (attempt,) = rows.attempts
        assert (attempt, attempt.status) == (execution.attempt, AttemptStatus.EXTERNAL_STARTED)
        assert attempt.external_started_at is not None
        deadline = attempt.external_started_at + house.process.deployment.text.hard_deadline
        assert (attempt.hard_deadline_at, execution.begun) == (deadline, house.begun)
        assert (rows.slots, started(house.ledger, TEXT)) == ([], [])

    async def test_a_worker_that_stood_still_since_it_began_makes_no_call(self, world: World) -> None:
        house = _House(world)
        long_ago = house.process.deployment.limits.lease + MINUTE
        await house.process.called(await house.settle(await house.until_text(), ago=long_ago))
        assert started(house.ledger, TEXT) == []

    async def test_a_local_task_that_cannot_be_repeated_is_only_prepared(self, world: World) -> None:
        house = _House(world, replay=Replay.NEVER)
        (execution,) = await house.settle(await house.until_text())
        rows = await house.rows(Stage.TEXT)
        assert ([a.status for a in rows.attempts], execution.begun) == ([AttemptStatus.PREPARED], None)

    async def test_a_job_that_is_handed_over_from_stage_to_stage_succeeds(self, world: World) -> None:
        house = _House(world)
        text = await house.settle(await house.until_text())
        assert await house.settle(await house.process.called(text)) == []
        assert [job.status for job in await house.jobs()] == [JobStatus.SUCCEEDED]
        agent, embedded = await house.rows(Stage.AGENT), await house.rows(Stage.TEXT)
        assert [a.status for a in (*agent.attempts, *embedded.attempts)] == [AttemptStatus.COMPLETED] * 2
        assert [g.status for g in agent.grants] == [GrantStatus.COMMITTED]
        assert len(started(house.ledger, AGENT)) == len(started(house.ledger, TEXT)) == 1

    async def test_without_a_place_a_task_waits_in_its_queue_and_rings(self, world: World) -> None:
        house = _House(world)
        items = await house.open()
        listener = world.listener()
        await listener.start()
        try:
            assert await house.settle(items, {TaskType.VISUAL: 1, TaskType.TEXT: 1}) == []
            await _heard(listener, {Topic.CONTEXT})
        finally:
            await listener.close()
        rows = await house.rows(Stage.AGENT)
        assert (rows.task.status, rows.task.lease.generation) == (TaskStatus.QUEUED, 0)
        assert (rows.attempts, rows.slots) == ([], [])
        assert len(await house.claimed_anew(TaskType.CONTEXT)) == 1

    async def test_without_a_slot_an_agent_s_task_waits_in_its_queue(self, world: World) -> None:
        house = _House(world)
        assert await house.settle(await house.open(slots=0)) == []
        rows = await house.rows(Stage.AGENT)
        assert (rows.task.status, rows.attempts, rows.slots) == (TaskStatus.QUEUED, [], [])
        assert await house.claimed_anew(TaskType.CONTEXT) == ()
        await house.process.slots(1)
        assert len(await house.claimed_anew(TaskType.CONTEXT)) == 1

    @pytest.mark.parametrize(("slots", "places"), [(1, 3), (3, 1)])
    async def test_no_more_is_handed_over_than_there_are_slots_and_places(
        self, world: World, slots: int, places: int
    ) -> None:
        house = _House(world)
        items = await house.open("cat", "dog", "owl", slots=slots)
        executions = await house.settle(items, {TaskType.CONTEXT: places})
        rows = [await house.rows(Stage.AGENT, job) for job in await house.jobs()]
        running = [row.task.task_id for row in rows if row.task.status is TaskStatus.RUNNING]
        assert [e.task.task_id for e in executions] == running
        assert [slot.task_id for slot in await house.all_slots([row.task.task_id for row in rows])] == running
        assert sorted(row.task.status for row in rows) == [TaskStatus.QUEUED] * 2 + [TaskStatus.RUNNING]

    async def test_the_slot_of_an_agent_s_task_may_go_to_the_next_one(self, world: World) -> None:
        house = _House(world)
        first, second = await house.open("cat", "dog", slots=1)
        agent = await house.process.called(await house.settle([first]))
        executions = await house.settle([*agent, second], {TaskType.CONTEXT: 1})
        assert [e.task.task_type for e in executions] == [TaskType.CONTEXT]
        slots = await house.all_slots([item.claim.task_id for item in agent] + [e.task.task_id for e in executions])
        assert [slot.task_id for slot in slots] == [e.task.task_id for e in executions]

    @pytest.mark.parametrize("room", [0, -3])
    async def test_without_room_a_job_is_left_due_and_nothing_is_acquired(self, world: World, room: int) -> None:
        house = _House(world)
        assert await house.settle(await house.open(), room=room) == []
        (job,) = await house.jobs()
        assert (job.stage(Stage.AGENT).task_id, job.stage(Stage.AGENT).status) == (None, JobStatus.QUEUED)
        assert job.due_at is not None
        await house.process.reconcile()
        assert (await house.rows(Stage.AGENT)).task.status is TaskStatus.QUEUED

    async def test_no_more_agent_s_tasks_are_opened_than_there_is_room_for(self, world: World) -> None:
        house = _House(world)
        await house.settle(await house.open("cat", "dog", "owl"), room=2)
        states = [(job.stage(Stage.AGENT).status, job.due_at is None) for job in await house.jobs()]
        assert sorted(states) == [(JobStatus.QUEUED, False), (JobStatus.RUNNING, True), (JobStatus.RUNNING, True)]

    async def test_a_policy_that_has_to_be_asked_is_asked_outside(self, world: World) -> None:
        policy = RememberingPolicy()
        house = _House(world, policy)
        assert await house.settle(await house.open()) == []
        (job,) = await house.jobs()
        assert job.stage(Stage.AGENT).task_id is None
        assert {operation for _, operation, _ in policy.known} == {Operation.IMAGE_UPLOAD}
        assert job.due_at is not None

    @pytest.mark.parametrize(
        ("policy", "reason"),
        [(_Denying(), ErrorCode.OPERATION_LIMIT_EXCEEDED), (_Broken(), ErrorCode.OPERATION_POLICY_UNAVAILABLE)],
    )
    async def test_what_is_not_granted_at_once_is_blocked(
        self, world: World, policy: OperationPolicy, reason: ErrorCode
    ) -> None:
        house = _House(world, policy)
        assert await house.settle(await house.open()) == []
        (job,) = await house.jobs()
        assert (job.status, job.stage(Stage.AGENT).task_id) == (JobStatus.BLOCKED, None)
        assert job.error is not None
        assert job.error.code is reason

    @pytest.mark.parametrize("policy", [_Withdrawing(), _Failing()])
    async def test_a_grant_that_is_not_committed_at_once_is_asked_about_before_the_call(
        self, world: World, policy: OperationPolicy
    ) -> None:
        house = _House(world, policy)
        (execution,) = await house.settle(await house.open())
        rows = await house.rows(Stage.AGENT)
        assert [(a.status, g.status) for a, g in zip(rows.attempts, rows.grants, strict=True)] == [
            (AttemptStatus.PREPARED, GrantStatus.ACQUIRED)
        ]
        await house.settle(await house.process.called([execution]))
        rows = await house.rows(Stage.AGENT)
        assert (rows.job.status, [g.status for g in rows.grants]) == (JobStatus.BLOCKED, [GrantStatus.RELEASED])
        assert started(house.ledger, AGENT) == []

    async def test_a_superseded_deployment_hands_nothing_over(self, world: World) -> None:
        house = _House(world)
        items = await house.open()
        await house.process.take_over()
        visual = ScriptedVisualModel(VectorSpace("scripted-visual-2", 8), ledger=house.ledger)
        ours = house.process.deployment
        house.process.deployment = evolve(ours, visual=visual)
        assert await house.settle(items) == []
        house.process.deployment = ours
        assert (await house.rows(Stage.AGENT)).task.status is TaskStatus.QUEUED
        assert len(await house.claimed_anew(TaskType.CONTEXT)) == 1

    async def test_a_result_that_comes_too_late_hands_nothing_over(self, world: World) -> None:
        house = _House(world)
        await house.process.slots(2)
        await house.process.upload()
        await house.process.reconcile()
        lost = await house.process.claim(TaskType.VISUAL)
        items = await house.process.called(lost)
        await house.process.lose(lost)
        assert await house.settle(items) == []
        assert [type(answer) for answer in house.answers] == [Fenced]
        (job,) = await house.jobs()
        assert job.stage(Stage.AGENT).status is JobStatus.QUEUED
        assert len(await house.claimed_anew(TaskType.VISUAL)) == 1

    async def test_what_is_decided_again_is_handed_over_once(self, world: World) -> None:
        house = _House(world)
        items = await house.open(slots=1)
        ours = house.process.deployment
        uow = _Contested(world.uow)
        house.process.deployment = evolve(ours, uow=uow)
        (execution,) = await house.settle(items)
        house.process.deployment = ours
        rows = await house.rows(Stage.AGENT)
        assert (uow.begun, rows.task, list(rows.attempts)) == (2, execution.task, [execution.attempt])
        assert [slot.task_id for slot in rows.slots] == [execution.task.task_id]

    async def test_a_text_whose_words_the_transaction_has_not_read_waits_in_its_queue(self, world: World) -> None:
        house = _House(world)
        text = await house.settle(await house.until_text())
        model = house.process.deployment.text
        assert isinstance(model, ScriptedTextModel)
        model.script.then(REFUSED)
        await house.settle(await house.process.called(text))
        (failed,) = await house.jobs()
        visual = ScriptedVisualModel(VectorSpace("scripted-visual-2", 8), ledger=house.ledger)
        house.process.deployment = evolve(house.process.deployment, visual=visual)
        await retry_job(house.process.deployment, A, failed.job_id)
        items = await house.process.called(await house.process.claim(TaskType.VISUAL))
        assert await house.settle(items) == []
        assert (await house.rows(Stage.TEXT)).task.status is TaskStatus.QUEUED
        await house.process.run(TaskType.TEXT)
        assert (await house.jobs())[-1].status is JobStatus.SUCCEEDED

    @pytest.mark.parametrize("stage", [Stage.AGENT, Stage.TEXT])
    async def test_what_nobody_adopted_is_recovered_like_any_claim(self, world: World, stage: Stage) -> None:
        house = _House(world)
        items = await house.until_text() if stage is Stage.TEXT else await house.open(slots=1)
        ours = house.process.deployment
        faulty = FaultyUnitOfWork(world.uow)
        faulty.plan(Fault.REPLY_LOST)
        house.process.deployment = evolve(ours, uow=faulty)
        with pytest.raises(DatabaseUnavailable):
            await house.settle(items)
        house.process.deployment = ours
        before = await house.rows(stage)
        assert before.task.status is TaskStatus.RUNNING
        await house.process.lose([Execution(before.task)])
        (execution,) = await house.claimed_anew(before.task.task_type)
        assert execution.task.lease.generation > before.task.lease.generation
        await house.process.settle(await house.process.called([execution]))
        after = await house.rows(stage)
        again = [AttemptStatus.FAILED, AttemptStatus.COMPLETED] if stage is Stage.TEXT else [AttemptStatus.COMPLETED]
        assert [a.status for a in after.attempts] == again
        assert after.attempts[0].attempt_id == before.attempts[0].attempt_id
        assert [g.grant_id for g in after.grants] == [g.grant_id for g in before.grants]
        assert len(started(house.ledger, AGENT if stage is Stage.AGENT else TEXT)) == 1
