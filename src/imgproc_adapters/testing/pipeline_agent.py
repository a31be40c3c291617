"""The agent stage in depth: the pipeline machine with rules that begin where a call is queued or under way.

The rules of `PipelineMachine` reach such a state rarely. Here one rule leads to it, calls stall and are made late, time
passes, and people, reconcilers and recovery act while the policy is being asked.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum, auto
from itertools import combinations
from typing import ClassVar, Final

from attrs import define
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, NOTHING_KNOWN
from imgproc_adapters.testing.pipeline import (
    CONTENTS,
    OWNER,
    PICK,
    SLOTS,
    Hand,
    PipelineMachine,
    chosen,
    content_of,
    looked_at,
    settling,
)
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.context import Description
from imgproc_domain.errors import ImgprocError
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.policy import Decision, OperationRequest
from imgproc_domain.ports.evidence import Resolution
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.stage import IMAGE_TASK_TYPES, ReverseImagePolicy, TaskType
from imgproc_domain.submission import why_withheld
from imgproc_domain.task import Task
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.recover import expire_leases, flush_releases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.usecases.unknown import resolve_unknown


class Moment(Enum):
    """When something happens while the policy is asked."""

    BEFORE_ACQUIRE = auto()
    AFTER_ACQUIRE = auto()
    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()


class Happening(Enum):
    """What happens meanwhile."""

    DELETED = auto()
    REPLACED = auto()
    EDITED = auto()
    LEASES_LOST = auto()
    RECONCILED = auto()
    RELEASED = auto()


MOMENTS: Final = st.sampled_from(Moment)
HAPPENINGS: Final = st.sampled_from(Happening)
_KNOWN: Final = (AttemptStatus.COMPLETED, AttemptStatus.FAILED)
SHORT: Final = timedelta(seconds=20)
"""Less than a hard deadline; two of them are more."""


@define(eq=False)
class InterruptedPolicy(RememberingPolicy):
    """Lets something happen once, at one moment of its being asked."""

    moment: Moment | None = None
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def acquire(self, request: OperationRequest) -> Decision:
        await self._at(Moment.BEFORE_ACQUIRE)
        answer = await super().acquire(request)
        await self._at(Moment.AFTER_ACQUIRE)
        return answer

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        await self._at(Moment.BEFORE_COMMIT)
        answer = await super().commit(request, reservation)
        await self._at(Moment.AFTER_COMMIT)
        return answer

    async def _at(self, moment: Moment) -> None:
        if moment is self.moment and self.meanwhile is not None:
            work, self.moment, self.meanwhile = self.meanwhile, None, None
            await work()


class AgentPipelineMachine(PipelineMachine):
    """`PipelineMachine` with rules of the agent stage; ``replay`` is what its adapter can prove about a lost call."""

    replay: ClassVar[Replay] = Replay.NEVER
    policy: InterruptedPolicy

    def open_policy(self) -> RememberingPolicy:
        return InterruptedPolicy()

    @rule(content=CONTENTS, policy=st.sampled_from(ReverseImagePolicy))
    def an_agent_task_is_queued(self, content: str, policy: ReverseImagePolicy) -> None:
        self.attempt(self._until_agent(content, policy))

    @rule(content=CONTENTS)
    def an_agent_call_is_under_way(self, content: str) -> None:
        self.attempt(self._until_agent(content, ReverseImagePolicy.FORBID))
        self.attempt(self._start_calls(SLOTS))

    @rule(content=CONTENTS, away=CONTENTS, early=st.booleans())
    def a_picture_comes_back_to_a_lost_call(self, content: str, away: str, early: bool) -> None:
        """Replace a picture and put it back, before or after its call became unknown; then let the pipeline go on."""
        meme_id = self.attempt(self._until_agent(content, ReverseImagePolicy.FORBID))
        self.attempt(self._start_calls(SLOTS))
        if meme_id is not None and early:
            self._put_back(meme_id, content, away)
        for hand in [hand for hand in self.notes.hands if _calls(hand) and not hand.doomed]:
            self.agent.script.then(NOTHING_KNOWN)
            self.notes.hands.remove(hand)
            self._settle(hand.execution, self.runner.run(perform(self.steady, hand.execution)), doomed=False)
        if meme_id is not None and not early:
            self._put_back(meme_id, content, away)
        self.attempt(self._reconcile(self.steady, 5))
        self.attempt(self._start_calls(SLOTS))

    @precondition(lambda self: any(_calls(hand) and not hand.doomed for hand in self.notes.hands))
    @rule(pick=PICK)
    def a_caller_stalls(self, pick: int) -> None:
        """Take the lease from a worker that is about to call, and leave it to call when it goes on."""
        hand = chosen([hand for hand in self.notes.hands if _calls(hand) and not hand.doomed], pick)
        hand.doomed = True
        self.site.world.heartbeat.renew([hand.execution.claim], timedelta(0))
        self.attempt(expire_leases(self.steady, self.site.scope, IMAGE_TASK_TYPES, 10))

    @precondition(lambda self: any(_calls(hand) and hand.doomed for hand in self.notes.hands))
    @rule(pick=PICK)
    def a_stalled_caller_goes_on(self, pick: int) -> None:
        self._go_on(chosen([hand for hand in self.notes.hands if _calls(hand) and hand.doomed], pick))

    @precondition(lambda self: any(_calls(hand) and not hand.doomed for hand in self.notes.hands))
    @rule(pick=PICK)
    def a_stalled_caller_is_overtaken(self, pick: int) -> None:
        """Recovery does all it can while a worker stands still before its call; then the worker goes on."""
        hand = chosen([hand for hand in self.notes.hands if _calls(hand) and not hand.doomed], pick)
        self.site.world.heartbeat.renew([hand.execution.claim], timedelta(0))
        self.attempt(self._recover())
        hand.doomed = True
        self.before = self.runner.run(looked_at(self.site.view))
        self._go_on(hand)

    @precondition(lambda self: self.before and any(row.status is AttemptStatus.UNKNOWN for row in self.before.attempts))
    @rule(pick=PICK, attest=st.booleans())
    def an_unknown_execution_is_resolved(self, pick: int, attest: bool) -> None:
        """An operator attests only what is so: that nobody is left who could still make the call."""
        assert self.before is not None, "the rule has its precondition"
        row = chosen([row for row in self.before.attempts if row.status is AttemptStatus.UNKNOWN], pick)
        stalled = any(hand.execution.task.task_id == row.task_id for hand in self.notes.hands)
        over = attest and not stalled
        resolution = Resolution(
            "looked at", "the provider's log", owner_dead=over, call_over=over, resolved_by="machine"
        )
        self.attempt(resolve_unknown(self.steady, self.site.scope, row.task_id, resolution))

    @rule(times=st.integers(1, 3))
    def time_passes(self, times: int) -> None:
        """A call ends by its hard deadline: who would have made one later does not go on."""
        self.runner.run(self.site.elapse(times * SHORT))
        for hand in [hand for hand in self.notes.hands if _calls(hand)]:
            hand.age += times * SHORT
            if hand.age >= self.agent.hard_deadline:
                self.notes.hands.remove(hand)

    @precondition(lambda self: self.notes.memes)
    @rule(moment=MOMENTS, happening=HAPPENINGS, pick=PICK, content=CONTENTS)
    def something_happens_while_the_policy_is_asked(
        self, moment: Moment, happening: Happening, pick: int, content: str
    ) -> None:
        meme_id = chosen(self.notes.memes, pick)
        self.policy.moment, self.policy.meanwhile = moment, self._meanwhile(happening, meme_id, content)
        self.attempt(self._reconcile(self.steady, 5))
        self.attempt(self._start_calls(1))
        self.policy.moment = self.policy.meanwhile = None

    @invariant()
    def no_call_is_over_whose_end_is_not_known(self) -> None:
        view = self.before
        if view is None or self.replay is Replay.SAFE:
            return
        called = set(started(self.ledger, AGENT))
        for row in view.attempts:
            if row.status in _KNOWN and row.attempt_id in called:
                assert self.agent.answered(row.attempt_id), f"I9: {row.attempt_id} was replayed"

    @invariant()
    def no_call_that_became_unknown_is_made_again_unasked(self) -> None:
        view = self.before
        if view is None or self.replay is Replay.SAFE:
            return
        jobs = {row.job_id: row for row in view.jobs}
        asked = [jobs[job_id] for job_id in self.notes.asked if job_id in jobs]
        made = sorted((row for row in view.tasks if row.task_type is TaskType.CONTEXT), key=lambda row: row.task_id)
        for earlier, later in combinations(made, 2):
            if why_withheld(earlier) is None or _version(earlier) != _version(later):
                continue
            first, last = jobs[_job_of(earlier)].revision, jobs[_job_of(later)].revision
            between = (job for job in asked if first < job.revision <= last)
            assert any(PictureVersion.of(job) == _version(later) for job in between), f"I9: {earlier.task_id} again"

    def _go_on(self, hand: Hand) -> None:
        self.notes.hands.remove(hand)
        attempt = hand.execution.attempt
        assert attempt is not None, "an agent's call has its attempt"
        ended = [row.attempt_id for row in self.before.attempts if row.status in _KNOWN] if self.before else []
        assert self.replay is Replay.SAFE or attempt.attempt_id not in ended, "I9: its call was over"
        outcome = self.runner.run(perform(self.steady, hand.execution))
        self._settle(hand.execution, outcome, doomed=True)

    def _meanwhile(self, happening: Happening, meme_id: MemeId, content: str) -> Callable[[], Awaitable[None]]:
        async def once() -> None:
            try:
                await self._happen(happening, meme_id, content)
            except ImgprocError:
                # what may not be done now, or meets a planned fault, does not happen
                return

        return once

    async def _happen(self, happening: Happening, meme_id: MemeId, content: str) -> None:
        scope = self.site.scope
        match happening:
            case Happening.DELETED:
                await delete_meme(self.steady, scope, meme_id)
            case Happening.REPLACED:
                await replace_picture(self.steady, scope, meme_id, None, content_of(content))
            case Happening.EDITED:
                await edit_context(self.steady, scope, meme_id, 0, Description(title="a person's words"))
            case Happening.LEASES_LOST:
                self.site.world.heartbeat.renew(self.notes.claims, timedelta(0))
                await expire_leases(self.steady, scope, IMAGE_TASK_TYPES, 10)
            case Happening.RECONCILED:
                await self._reconcile(self.steady, 5)
            case Happening.RELEASED:
                await flush_releases(self.steady, scope, 10)

    def _put_back(self, meme_id: MemeId, content: str, away: str) -> None:
        for shown in (away, content):
            found = self.attempt(replace_picture(self.steady, self.site.scope, meme_id, None, content_of(shown)))
            if found is not None and found[1] is not None:
                self._remember(meme_id, found[1].job_id)

    async def _until_agent(self, content: str, policy: ReverseImagePolicy) -> MemeId:
        found = await upload(self.steady, self.site.scope, "a.png", content_of(content), policy)
        self._remember(found.meme.meme_id, found.job.job_id if found.job else None)
        await self._reconcile(self.steady, 5)
        await self._run_type(TaskType.VISUAL)
        await self._reconcile(self.steady, 5)
        return found.meme.meme_id

    async def _recover(self) -> None:
        await expire_leases(self.steady, self.site.scope, IMAGE_TASK_TYPES, 10)
        await self._run_type(TaskType.CONTEXT)

    async def _start_calls(self, limit: int) -> None:
        claimed = await claim_tasks(self.steady, self.site.scope, TaskType.CONTEXT, limit, OWNER)
        self.notes.claims.extend(execution.claim for execution in claimed)
        ready = await start(self.steady, self.site.scope, claimed)
        self.notes.hands.extend(Hand(execution, doomed=False, running=True) for execution in ready.running)
        items = [settling(e, e.outcome) for e in ready.decided if e.outcome is not None]
        if items:
            await settle(self.steady, self.site.scope, items)


def _version(task: Task) -> PictureVersion:
    assert task.target is not None, "an agent's task has its target"
    return PictureVersion(task.target.meme_id, task.target.image_sha256, task.target.reverse_image_policy)


def _job_of(task: Task) -> JobId:
    assert task.target is not None, "an agent's task has its target"
    return task.target.job_id


def _calls(hand: Hand) -> bool:
    """Whether this worker is about to make an agent's call."""
    return hand.running and hand.execution.task.task_type is TaskType.CONTEXT and not hand.execution.look_up
