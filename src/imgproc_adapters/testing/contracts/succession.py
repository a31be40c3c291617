"""Two deployments of different configurations at once: a rolling deploy, a rollback, an old replica that restarts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import pytest

from imgproc_adapters.testing.ledger import MemoryLedger, started
from imgproc_adapters.testing.models import AGENT, LOOK_UP, VISUAL, ScriptedAgent
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.processes import Process
from imgproc_adapters.testing.seed import MINUTE, NO_TIME, A
from imgproc_adapters.testing.world import World
from imgproc_domain.attempt import Replay
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.outcome import Failed
from imgproc_domain.policy import Operation
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.advance import agent_request
from imgproc_domain.usecases.edit import delete_meme
from imgproc_domain.usecases.maintenance import request_generation
from imgproc_domain.usecases.recover import flush_releases
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.usecases.views import Validity, get_image

ROUNDS: Final = 20
STARTS: Final = 6
ALL_VALID: Final[Mapping[Stage, Validity]] = dict.fromkeys(Stage, Validity.VALID)


class Pair:
    """Processes of an older and a newer deployment, with another text model and, unless told, another agent."""

    def __init__(
        self,
        world: World,
        *,
        replay: Replay = Replay.NEVER,
        same_agent: bool = False,
        lease: timedelta = MINUTE,
    ) -> None:
        self.ledger, self.policy = MemoryLedger(), RememberingPolicy()
        agent = ScriptedAgent("agent 1", replay, ledger=self.ledger)
        newer_agent = agent if same_agent else ScriptedAgent("agent 2", replay, ledger=self.ledger)
        self.old = Process(world, agent=agent, text="text 1", ledger=self.ledger, policy=self.policy)
        self.new = Process(world, agent=newer_agent, text="text 2", ledger=self.ledger, policy=self.policy, lease=lease)

    async def begin(self) -> None:
        """Let the older deployment be at work alone."""
        await self.old.slots(2)
        await self.old.take_over()

    async def turns(self, count: int, *processes: Process) -> None:
        for _ in range(count):
            for process in processes or (self.old, self.new):
                await process.turn()

    @property
    def calls(self) -> Sequence[str]:
        return started(self.ledger, AGENT)

    async def grants(self) -> list[Grant]:
        requests = [agent_request(job) for job in await self.old.revisions()]
        async with self.old.world.uow.begin(A) as tx:
            found = await tx.grants.by_key(Operation.ANALYSIS_AGENT, [r.logical_request_key for r in requests])
        return list(found.values())


def _ends(jobs: Sequence[Job]) -> list[ErrorCode | None]:
    return [job.error.code if job.error else None for job in jobs]


def _succeeded_under(jobs: Sequence[Job], process: Process) -> bool:
    return jobs[-1].status is JobStatus.SUCCEEDED and jobs[-1].config_fingerprint == process.fingerprint


class SuccessionContract:
    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("reached", [TaskType.VISUAL, TaskType.CONTEXT, TaskType.TEXT])
    async def test_two_deployments_that_take_turns_renew_a_job_once(self, world: World, reached: TaskType) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        await pair.old.bring_to(reached)
        await pair.new.take_over()
        await pair.turns(ROUNDS)
        jobs = await pair.new.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert _succeeded_under(jobs, pair.new)
        assert len(pair.calls) == (2 if reached is TaskType.TEXT else 1)

    async def test_processes_that_start_again_and_again_renew_a_job_once_a_start(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        for number in range(STARTS):
            await (pair.old if number % 2 else pair.new).take_over()
            await pair.turns(1)
        await pair.turns(ROUNDS)
        jobs = await pair.new.revisions()
        assert len(jobs) <= STARTS + 1
        assert len(pair.calls) <= STARTS + 1
        assert _succeeded_under(jobs, pair.old)

    async def test_a_superseded_deployment_claims_no_job_and_no_task(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.new.take_over()
        await pair.new.upload()
        assert not await pair.old.claim(TaskType.VISUAL)
        await pair.new.run(TaskType.VISUAL)
        before = await pair.old.revisions()
        assert await pair.old.reconcile() == 0
        assert await pair.old.revisions() == before
        assert await pair.new.reconcile() == 1
        assert not await pair.old.claim(TaskType.CONTEXT)
        assert len(await pair.new.claim(TaskType.CONTEXT)) == 1

    async def test_a_superseded_deployment_takes_over_when_the_other_is_gone(self, world: World) -> None:
        pair = Pair(world, lease=NO_TIME)
        await pair.begin()
        await pair.new.take_over()
        await pair.new.upload()
        await pair.turns(ROUNDS, pair.old)
        jobs = await pair.old.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert _succeeded_under(jobs, pair.old)

    async def test_maintenance_is_made_with_no_configuration(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.new.take_over()
        await request_generation(pair.old.deployment, A)
        assert len(await pair.old.claim(TaskType.CACHE)) == 1

    @pytest.mark.parametrize("task_type", [TaskType.VISUAL, TaskType.CONTEXT, TaskType.TEXT])
    async def test_a_task_of_a_former_configuration_ends_without_a_call_and_its_job_is_renewed(
        self, world: World, task_type: TaskType
    ) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        await pair.old.bring_to(task_type)
        await pair.new.take_over()
        called = len(pair.ledger.calls())
        (execution,) = await pair.new.claim(task_type)
        assert isinstance(execution.outcome, Failed)
        await pair.new.settle(await pair.new.called([execution]))
        assert len(pair.ledger.calls()) == called
        jobs = await pair.new.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert (jobs[-1].status, jobs[-1].config_fingerprint) == (JobStatus.QUEUED, pair.new.fingerprint)
        await pair.turns(ROUNDS, pair.new)
        assert _succeeded_under(await pair.new.revisions(), pair.new)

    async def test_what_its_agent_task_reserved_is_given_back(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        await pair.old.bring_to(TaskType.CONTEXT)
        await pair.new.take_over()
        await pair.new.run(TaskType.CONTEXT)
        assert [grant.status for grant in await pair.grants()] == [GrantStatus.RELEASED]
        assert await flush_releases(pair.new.deployment, A, 10) == 1
        assert pair.policy.reserved == []

    async def test_a_worker_lost_before_its_call_leaves_nothing_to_wait_for(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        await pair.old.bring_to(TaskType.CONTEXT)
        lost = await pair.old.claim(TaskType.CONTEXT)
        await pair.new.take_over()
        await pair.new.lose(lost)
        await pair.turns(ROUNDS, pair.new)
        jobs = await pair.new.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert _succeeded_under(jobs, pair.new)
        assert len(pair.calls) == 1

    @pytest.mark.parametrize("replay", Replay)
    async def test_of_the_lost_call_of_another_agent_nothing_is_proven(self, world: World, replay: Replay) -> None:
        pair = Pair(world, replay=replay)
        await _lose_a_call(pair)
        await pair.turns(ROUNDS, pair.new)
        (job,) = await pair.new.revisions()
        assert job.status is JobStatus.UNKNOWN
        assert (len(pair.calls), started(pair.ledger, LOOK_UP)) == (1, [])
        assert [grant.status for grant in await pair.grants()] == [GrantStatus.UNKNOWN]

    async def test_the_answer_to_a_lost_call_of_the_same_agent_is_adopted(self, world: World) -> None:
        pair = Pair(world, replay=Replay.LOOKUP, same_agent=True)
        await _lose_a_call(pair)
        await pair.turns(ROUNDS, pair.new)
        jobs = await pair.new.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert _succeeded_under(jobs, pair.new)
        assert jobs[-1].stage(Stage.AGENT).reused
        assert len(pair.calls) == 1

    async def test_a_superseded_process_settles_what_it_has_and_the_other_goes_on_from_there(
        self, world: World
    ) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.old.upload()
        ended = await pair.old.called(await pair.old.claim(TaskType.VISUAL))
        await pair.new.take_over()
        await pair.old.settle(ended)
        jobs = await pair.new.revisions()
        assert _ends(jobs) == [ErrorCode.CONFIGURATION_CHANGED, None]
        assert jobs[-1].config_fingerprint == pair.new.fingerprint
        await pair.turns(ROUNDS, pair.new)
        assert _succeeded_under(await pair.new.revisions(), pair.new)
        assert len(started(pair.ledger, VISUAL)) == 1

    async def test_a_process_that_only_submits_does_so_under_the_configuration_in_force(self, world: World) -> None:
        pair = Pair(world)
        await pair.begin()
        await pair.new.take_over()
        meme_id = await pair.old.upload()
        again = Submission(meme_id, ReverseImagePolicy.FORBID, Mode.EXPLICIT)
        (answer,) = await submit(pair.old.deployment, A, [again])
        assert isinstance(answer, Submitted)
        assert not answer.created
        await pair.turns(ROUNDS)
        jobs = await pair.old.revisions()
        assert (len(jobs), _succeeded_under(jobs, pair.new)) == (1, True)
        assert (await get_image(pair.old.deployment, A, meme_id)).validity == ALL_VALID

    @pytest.mark.parametrize("deleted", [False, True])
    async def test_a_job_whose_configuration_came_back_in_force_meanwhile_is_renewed_too(
        self, world: World, *, deleted: bool
    ) -> None:
        pair = Pair(world)
        await pair.begin()
        meme_id = await pair.old.upload()
        await pair.new.take_over()
        given_up = await pair.new.called(await pair.new.claim(TaskType.VISUAL))
        await pair.old.take_over()
        if deleted:
            await delete_meme(pair.old.deployment, A, meme_id)
        await pair.new.settle(given_up)
        if deleted:
            assert _ends(await pair.old.revisions()) == [ErrorCode.TARGET_CHANGED]
            return
        assert _ends(await pair.old.revisions()) == [ErrorCode.CONFIGURATION_CHANGED, None]
        await pair.turns(ROUNDS)
        assert _succeeded_under(await pair.old.revisions(), pair.old)


async def _lose_a_call(pair: Pair) -> None:
    """Let a worker of the older deployment be lost behind its agent's answer, and the newer one take over."""
    await pair.begin()
    await pair.old.upload()
    await pair.old.bring_to(TaskType.CONTEXT)
    claimed = await pair.old.claim(TaskType.CONTEXT)
    assert len(await pair.old.called(claimed)) == 1
    await pair.new.take_over()
    await pair.new.lose(claimed)
