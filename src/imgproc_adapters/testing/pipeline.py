"""The pipeline as a Hypothesis state machine: every way a picture, its job and its workers can move, in any order.

Subclass `PipelineMachine` with `open_site` for the adapters under test. After every step the invariants of the domain
hold; at the end the machine works everything off and nothing may be left over.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import ClassVar, Final, TypeVar

from attrs import Factory, define, frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.ledger import MemoryLedger, started
from imgproc_adapters.testing.models import AGENT, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.view import View
from imgproc_adapters.testing.world import World
from imgproc_domain.attempt import Replay
from imgproc_domain.claim import Claim
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import (
    CallMayBeRunning,
    Conflict,
    ContextConflict,
    DatabaseUnavailable,
    ExecutionAlreadyResolved,
    GenerationPolicyConflict,
    JobNotRetryable,
    MemeNotFound,
    OperationDenied,
)
from imgproc_domain.ids import JobId, MemeId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.lane import LaneLimits
from imgproc_domain.outcome import Outcome, Succeeded
from imgproc_domain.policy import Operation
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, Settled, Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, ReverseImagePolicy, TaskType
from imgproc_domain.task import Task
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.recover import expire_leases, flush_releases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

T = TypeVar("T")

SLOTS: Final = 2
OWNER: Final = WorkerId("machine")
CONTENTS: Final = st.sampled_from(["cat", "dog", "owl"])
WORDS: Final = st.sampled_from(["", "a cat at a meeting", "一只猫在开会"])
POLICIES: Final = st.sampled_from(ReverseImagePolicy)
TYPES: Final = st.sampled_from(sorted(IMAGE_TASK_TYPES))
FAULTS: Final = st.sampled_from([Fault.REFUSED, Fault.ROLLED_BACK, Fault.COMMIT_LOST, Fault.REPLY_LOST])
PICK: Final = st.integers(0, 5)

_EXPECTED: Final = (
    CallMayBeRunning,
    Conflict,
    ContextConflict,
    ExecutionAlreadyResolved,
    GenerationPolicyConflict,
    JobNotRetryable,
    MemeNotFound,
    OperationDenied,
)
_ANSWERS: Final[dict[str, Declined | Lost]] = {
    "transient": Declined(Diagnosis(ErrorCode.AGENT_FAILED, "busy"), transient=True),
    "permanent": Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "refused"), transient=False),
    "lost": Lost(Diagnosis(ErrorCode.AGENT_FAILED, "the connection ended")),
}


@frozen
class Site:
    """Adapters over an empty database (slots apart), a scope nobody else uses, and a way to see all its rows.

    ``elapse`` makes everything that waits for a time wait so much shorter, as if that time had passed.
    """

    world: World
    scope: Scope
    view: Callable[[], Awaitable[View]]
    elapse: Callable[[timedelta], Coroutine[None, None, None]]
    close: Callable[[], Coroutine[None, None, None]]


@define(eq=False)
class Hand:
    """A claim that some worker holds, or believes to hold."""

    execution: Execution
    doomed: bool
    running: bool = False
    age: timedelta = timedelta(0)


@define
class Notes:
    """What the machine remembers."""

    memes: list[MemeId] = Factory(list)
    jobs: list[JobId] = Factory(list)
    asked: list[JobId] = Factory(list)
    hands: list[Hand] = Factory(list)
    claims: list[Claim] = Factory(list)


class PipelineMachine(RuleBasedStateMachine):
    """Upload, edit, replace, delete, retry, reconcile, claim, start, finish, expire; crashes and denials between."""

    replay: ClassVar[Replay] = Replay.NEVER

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.site = self.runner.run(self.open_site())
        self.ledger = MemoryLedger()
        self.policy = self.open_policy()
        self.agent = ScriptedAgent(ledger=self.ledger, replay=self.replay)
        self.faulty = FaultyUnitOfWork(self.site.world.uow)
        self.steady = self._deployment(timedelta(hours=1))
        self.doomed = self._deployment(timedelta(0))
        self.notes = Notes()
        self.before: View | None = None
        self.runner.run(self._make_slots())

    @abstractmethod
    async def open_site(self) -> Site:
        """Open the adapters under test, on the event loop that the machine runs on."""

    def open_policy(self) -> RememberingPolicy:
        return RememberingPolicy()

    def _deployment(self, lease: timedelta) -> Deployment:
        """A worker whose leases are of length zero has lost them as soon as it claims: that is how workers die here."""
        lanes = LaneLimits({Lane.VISUAL: 4, Lane.AGENT: SLOTS, Lane.TEXT: 4, Lane.MAINTENANCE: 1})
        now = timedelta(0)
        return Deployment(
            uow=self.faulty,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(ledger=self.ledger),
            agent=self.agent,
            text=ScriptedTextModel(ledger=self.ledger),
            policy=self.policy,
            ids=SystemIds(),
            observer=RecordingObserver(),
            limits=Limits(lease, lease, look_again=now, lanes=lanes, retry=RetryPolicy(3, 4, now, now)),
        )

    async def _make_slots(self) -> None:
        async with self.site.world.uow.begin(self.site.scope) as tx:
            await tx.slots.resize(Lane.AGENT, SLOTS)

    def attempt(self, work: Awaitable[T]) -> T | None:
        """Run a use case; what it may refuse, or a planned fault, changes nothing that the invariants forbid."""

        async def inner() -> T:
            return await work

        try:
            return self.runner.run(inner())
        except (*_EXPECTED, DatabaseUnavailable):
            return None

    @rule(content=CONTENTS, policy=POLICIES)
    def a_picture_is_uploaded(self, content: str, policy: ReverseImagePolicy) -> None:
        found = self.attempt(upload(self.steady, self.site.scope, "a.png", content_of(content), policy))
        if found is not None:
            self._remember(found.meme.meme_id, found.job.job_id if found.job else None)

    @rule(content=CONTENTS, fault=FAULTS)
    def an_upload_meets_a_fault(self, content: str, fault: Fault) -> None:
        self.faulty.plan(fault)
        self.attempt(upload(self.steady, self.site.scope, "a.png", content_of(content), ReverseImagePolicy.FORBID))
        # a denied upload meets no transaction
        self.faulty.forget()

    @precondition(lambda self: self.notes.memes)
    @rule(pick=PICK, words=WORDS, revision=st.none() | st.integers(0, 2))
    def a_context_is_edited(self, pick: int, words: str, revision: int | None) -> None:
        meme_id = chosen(self.notes.memes, pick)
        known = self.before.contexts if self.before else ()
        current = next((c.revision for c in known if c.meme_id == meme_id), 0)
        seen = current if revision is None else revision
        self.attempt(edit_context(self.steady, self.site.scope, meme_id, seen, Description(title=words)))

    @precondition(lambda self: self.notes.memes)
    @rule(pick=PICK, content=CONTENTS)
    def a_picture_is_replaced(self, pick: int, content: str) -> None:
        meme_id = chosen(self.notes.memes, pick)
        found = self.attempt(replace_picture(self.steady, self.site.scope, meme_id, None, content_of(content)))
        if found is not None and found[1] is not None:
            self._remember(meme_id, found[1].job_id)

    @precondition(lambda self: self.notes.memes)
    @rule(pick=PICK)
    def a_picture_is_deleted(self, pick: int) -> None:
        self.attempt(delete_meme(self.steady, self.site.scope, chosen(self.notes.memes, pick)))

    @precondition(lambda self: self.notes.jobs)
    @rule(pick=PICK, policy=st.none() | POLICIES)
    def a_job_is_retried(self, pick: int, policy: ReverseImagePolicy | None) -> None:
        job = self.attempt(retry_job(self.steady, self.site.scope, chosen(self.notes.jobs, pick), policy))
        if job is not None:
            self._remember(job.meme_id, job.job_id)
            self.notes.asked.append(job.job_id)

    @rule(limit=st.integers(1, 3))
    def jobs_are_reconciled(self, limit: int) -> None:
        self.attempt(self._reconcile(self.steady, limit))

    @rule(faults=st.lists(st.just(Fault.NONE) | FAULTS, min_size=1, max_size=2))
    def a_reconciler_is_lost(self, faults: list[Fault]) -> None:
        self.faulty.plan(*faults)
        self.attempt(self._reconcile(self.doomed, 2))
        self.faulty.forget()

    @rule(task_type=TYPES, limit=st.integers(1, 2), doomed=st.booleans())
    def tasks_are_claimed(self, task_type: TaskType, limit: int, doomed: bool) -> None:
        deployment = self.doomed if doomed else self.steady
        claimed = self.attempt(claim_tasks(deployment, self.site.scope, task_type, limit, OWNER))
        self.notes.hands.extend(Hand(execution, doomed) for execution in claimed or ())
        self.notes.claims.extend(execution.claim for execution in claimed or ())

    @precondition(lambda self: any(not hand.running for hand in self.notes.hands))
    @rule(pick=PICK, faults=st.just([]) | st.lists(st.just(Fault.NONE) | FAULTS, min_size=1, max_size=3))
    def a_call_is_started(self, pick: int, faults: list[Fault]) -> None:
        hand = chosen([hand for hand in self.notes.hands if not hand.running], pick)
        self.faulty.plan(*faults)
        ready = self.attempt(start(self.steady, self.site.scope, [hand.execution]))
        self.faulty.forget()
        self.notes.hands.remove(hand)
        for execution in ready.running if ready else ():
            by_claim = hand.execution.begun is not None
            assert execution.look_up or by_claim or not hand.doomed, "a claim that has expired starts no call"
            self.notes.hands.append(Hand(execution, hand.doomed, running=True))
        for execution in ready.decided if ready else ():
            assert execution.outcome is not None, "a decided execution has its outcome"
            self._settle(execution, execution.outcome, hand.doomed)

    @precondition(lambda self: any(hand.running for hand in self.notes.hands))
    @rule(pick=PICK, answer=st.sampled_from(["good", "good", "good", *_ANSWERS]), fault=st.none() | FAULTS)
    def a_call_ends(self, pick: int, answer: str, fault: Fault | None) -> None:
        hand = chosen([hand for hand in self.notes.hands if hand.running], pick)
        self.notes.hands.remove(hand)
        if hand.execution.task.task_type is TaskType.CONTEXT and answer in _ANSWERS:
            self.agent.script.then(_ANSWERS[answer])
        outcome = self.runner.run(_performed(self.steady, hand.execution))
        if fault is not None:
            self.faulty.plan(fault)
        self._settle(hand.execution, outcome, hand.doomed)
        self.faulty.forget()

    @precondition(lambda self: any(hand.doomed for hand in self.notes.hands))
    @rule(pick=PICK)
    def a_dead_worker_writes_back(self, pick: int) -> None:
        hand = chosen([hand for hand in self.notes.hands if hand.doomed], pick)
        self.notes.hands.remove(hand)
        self._settle(hand.execution, Succeeded(None), doomed=True)

    @precondition(lambda self: any(hand.running for hand in self.notes.hands))
    @rule(pick=PICK)
    def a_running_worker_is_lost(self, pick: int) -> None:
        """Take the lease from a call in flight, then let its late result arrive: it must change nothing."""
        hand = chosen([hand for hand in self.notes.hands if hand.running], pick)
        self.notes.hands.remove(hand)
        self.site.world.heartbeat.renew([hand.execution.claim], timedelta(0))
        self.attempt(expire_leases(self.steady, self.site.scope, IMAGE_TASK_TYPES, 10))
        self._settle(hand.execution, Succeeded(None), doomed=True)

    @rule()
    def leases_expire(self) -> None:
        self.attempt(expire_leases(self.steady, self.site.scope, IMAGE_TASK_TYPES, 10))

    @rule()
    def releases_are_flushed(self) -> None:
        self.attempt(flush_releases(self.steady, self.site.scope, 10))

    @rule(denying=st.booleans(), uploads_too=st.booleans())
    def the_policy_changes_its_mind(self, denying: bool, uploads_too: bool) -> None:
        self.policy.denying = denying
        self.policy.denies = tuple(Operation) if uploads_too else (Operation.ANALYSIS_AGENT,)

    @invariant()
    def the_invariants_hold(self) -> None:
        view = self.runner.run(looked_at(self.site.view))
        check_invariants(view, self.before)
        self.before = view
        calls = started(self.ledger, AGENT)
        assert len(calls) == len(set(calls)), "I6: an attempt was called twice"

    def teardown(self) -> None:
        try:
            if self.before is not None:
                self.runner.run(self._work_off())
        finally:
            self.runner.run(self.site.close())
            self.runner.close()

    def _remember(self, meme_id: MemeId, job_id: JobId | None) -> None:
        if meme_id not in self.notes.memes:
            self.notes.memes.append(meme_id)
        if job_id is not None and job_id not in self.notes.jobs:
            self.notes.jobs.append(job_id)

    async def _reconcile(self, deployment: Deployment, limit: int) -> int:
        return await reconcile_due(deployment, self.site.world.dispatch, self.site.scope, OWNER, limit)

    def _settle(self, execution: Execution, outcome: Outcome, doomed: bool) -> None:
        item = settling(execution, outcome)
        answers: Sequence[Settled | Fenced] | None = self.attempt(settle(self.steady, self.site.scope, [item]))
        if doomed and answers is not None:
            assert all(isinstance(answer, Fenced) for answer in answers), "I4: a lost claim wrote back"

    async def _work_off(self) -> None:
        """Let a healthy worker finish everything that is left, then look for what nobody gave back."""
        self.policy.denying = False
        self.site.world.heartbeat.renew(self.notes.claims, timedelta(0))
        scope = self.site.scope
        for _ in range(60):
            await expire_leases(self.steady, scope, IMAGE_TASK_TYPES, 50)
            await self._reconcile(self.steady, 50)
            await self._run_once()
            await self.site.elapse(self.agent.hard_deadline)
            view = await self.site.view()
            if not _live(view):
                break
        while await flush_releases(self.steady, scope, 50):
            pass
        self._assert_nothing_left(await self.site.view())

    async def _run_once(self) -> None:
        for task_type in sorted(IMAGE_TASK_TYPES):
            await self._run_type(task_type)

    async def _run_type(self, task_type: TaskType) -> None:
        scope = self.site.scope
        ready = await start(self.steady, scope, await claim_tasks(self.steady, scope, task_type, SLOTS, OWNER))
        items = [settling(e, await perform(self.steady, e)) for e in ready.running]
        items += [settling(e, e.outcome) for e in ready.decided if e.outcome is not None]
        if items:
            await settle(self.steady, scope, items)

    def _assert_nothing_left(self, view: View) -> None:
        check_invariants(view, self.before)
        waiting = [row for row in view.slots if row.task_id is not None and row.free_at is None]
        assert not waiting, f"I18: slots that nobody will free: {waiting}"
        assert not _live(view), f"work that nobody finishes: {_live(view)}"
        assert not self.policy.reserved, f"I8: reservations that nobody gave back: {self.policy.reserved}"


async def content_of(content: str) -> AsyncIterator[bytes]:
    yield content.encode()


async def _performed(deployment: Deployment, execution: Execution) -> Outcome:
    return await perform(deployment, execution)


def settling(execution: Execution, outcome: Outcome) -> Settling:
    return Settling(execution.claim, execution.attempt.attempt_id if execution.attempt else None, outcome)


async def looked_at(view: Callable[[], Awaitable[View]]) -> View:
    return await view()


def chosen(items: Sequence[T], pick: int) -> T:
    return items[pick % len(items)]


def _live(view: View) -> list[Job | Task]:
    rows: list[Job | Task] = [*view.jobs, *view.tasks]
    return [row for row in rows if row.live]
