"""One lane: claim within its budget, fairly over scopes, and run what was claimed."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Final

from imgproc_app.worker.heartbeat import HeartbeatThread
from imgproc_app.worker.settler import Settler
from imgproc_domain.attempt import Replay
from imgproc_domain.claim import Claim
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ids import WorkerId
from imgproc_domain.lane import shares
from imgproc_domain.outcome import GivenBack, Outcome
from imgproc_domain.ports.claims import Dispatch
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import LANE_OF, TaskType
from imgproc_domain.usecases.claim import Execution, claim_and_look
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.perform import FAILURE, unproven
from imgproc_domain.usecases.perform_together import may_share, perform_together
from imgproc_domain.usecases.start import start

log = logging.getLogger(__name__)

_Running = asyncio.Task[Sequence[Outcome]]

Perform = Callable[[Deployment, Execution], Coroutine[None, None, Outcome]]

_SCOPES_A_TURN: Final = 16
_NEVER: Final = float("-inf")


class LaneRunner:
    """Claims and runs tasks of one type. A task occupies the lane from its claim until it is settled."""

    def __init__(
        self,
        task_type: TaskType,
        *,
        deployment: Deployment,
        dispatch: Dispatch,
        owner: WorkerId,
        perform: Perform,
        heartbeat: HeartbeatThread,
        settler: Settler,
        look_again: float,
    ) -> None:
        """``look_again`` is for how many seconds a look that found nobody waiting is believed."""
        self.task_type = task_type
        self._deployment = deployment
        self._dispatch = dispatch
        self._owner = owner
        self._perform = perform
        self._heartbeat = heartbeat
        self._settler = settler
        self._look_again = look_again
        self._limit = deployment.limits.lanes[LANE_OF[task_type]]
        # half of the lane at most, so that it never rests
        self._batch = min(deployment.batch(task_type), max(1, self._limit // 2))
        self._running: dict[Claim, _Running | None] = {}
        self._lost: set[Claim] = set()
        self._last_scope: Scope | None = None
        self._adopted: list[Execution] = []
        self._kept = 0
        self._nobody_waits_until = _NEVER
        self._rings = 0
        self._refused = False
        self._superseded = False

    @property
    def busy(self) -> int:
        return len(self._running) + self._kept

    def keep(self, wanted: int, ending: Collection[Claim] = ()) -> int:
        """Keep places for what is about to be opened, and return how many: none if others wait for them.

        The places of ``ending``, whose executions are over, are free once what opens is written: in one transaction.
        """
        if asyncio.get_running_loop().time() >= self._nobody_waits_until:
            return 0
        ours = sum(claim in self._running for claim in ending)
        kept = min(wanted, max(self._limit - self.busy + ours, 0))
        self._kept += kept
        return kept

    def ring(self) -> None:
        """Note that somebody may wait for a place: nothing goes before them until the lane has looked."""
        self._rings += 1
        self._nobody_waits_until = _NEVER

    def give_back(self, kept: int) -> bool:
        """Free places that were kept: what was adopted occupies its own. True if a turn found no place meanwhile."""
        self._kept -= kept
        refused, self._refused = self._refused, False
        return refused

    def adopt(self, executions: Sequence[Execution]) -> None:
        """Take over executions that were claimed for this lane: those that are started run, others at the next turn."""
        claims = [execution.claim for execution in executions]
        self._running.update(dict.fromkeys(claims))
        self._heartbeat.hold(claims)
        self._adopted.extend(execution for execution in executions if execution.begun is None)
        self._run([execution for execution in executions if execution.begun is not None])

    def decline(self, executions: Sequence[Execution]) -> None:
        """Give executions back that were claimed for this lane, and that nobody starts."""
        for execution in executions:
            self._put(execution, GivenBack(Diagnosis(ErrorCode.GIVEN_BACK, "the worker takes no work any more")))

    def decline_adopted(self) -> None:
        """Give back what was adopted and not started: a lane that has no turn would hold it for ever."""
        adopted, self._adopted = self._adopted, []
        self.decline(adopted)

    async def turn(self) -> bool:
        """Claim and start as much as the budget allows; True if there may be more to claim at once."""
        await self._start_adopted()
        free = self._limit - self.busy
        if free <= 0:
            self._refused = True
            return False
        rings, asked = self._rings, asyncio.get_running_loop().time()
        try:
            claimed, nobody_waits = await self._claim_fairly(free, min(free, _SCOPES_A_TURN))
        except BaseException:
            self._nobody_waits_until = _NEVER
            raise
        # a task that comes due rings nobody: what was seen is believed until the next look is due
        seen = nobody_waits and rings == self._rings
        self._nobody_waits_until = asked + self._look_again if seen else _NEVER
        return claimed > 0

    async def _claim_fairly(self, free: int, wanted: int) -> tuple[int, bool]:
        """Return how many tasks were claimed, and whether nobody is left to wait."""
        scopes = await self._dispatch.ready_scopes(self.task_type, self._last_scope, wanted)
        claimed, nobody_waits = 0, len(scopes) < wanted
        for scope, share in shares(free, scopes):
            # what was handed over meanwhile has taken places
            places = max(min(share, self._limit - self.busy), 0)
            try:
                found, none_left = await self._claim(scope, places)
            except DatabaseUnavailable:
                # perhaps of this scope's rows alone: the others are not to wait for them
                self._last_scope = scope
                raise
            except Exception:
                log.exception("%s: scope %s: a claim failed", self.task_type, scope)
                nobody_waits = False
                self._last_scope = scope
                continue
            nobody_waits = nobody_waits and none_left
            if found:
                # a scope that got nothing, for want of a slot, keeps its turn
                self._last_scope = scope
            claimed += found
        return claimed, nobody_waits

    async def _claim(self, scope: Scope, places: int) -> tuple[int, bool]:
        """Return how many tasks were claimed, and whether the scope has none left that wait."""
        if not places:
            self._refused = True
            return 0, False
        self._kept += places
        try:
            claimed = await claim_and_look(
                self._deployment, scope, self.task_type, places, self._owner, ask_first=self._superseded
            )
        finally:
            self._kept -= places
        self._superseded = claimed.superseded
        executions = claimed.executions
        claims = [execution.claim for execution in executions]
        self._running.update(dict.fromkeys(claims))
        self._heartbeat.hold(claims)
        await self._start_or_leave(scope, executions)
        return len(executions), claimed.none_left

    async def _start_or_leave(self, scope: Scope, executions: Sequence[Execution]) -> None:
        """Start what was claimed; what cannot be is left to lease recovery."""
        try:
            await self._start(scope, executions)
        except BaseException:
            self.settled([e.claim for e in executions if self._running.get(e.claim) is None])
            raise

    async def _start_adopted(self) -> None:
        by_scope: dict[Scope, list[Execution]] = defaultdict(list)
        adopted, self._adopted = self._adopted, []
        for execution in adopted:
            by_scope[execution.task.scope].append(execution)
        while by_scope:
            scope, executions = by_scope.popitem()
            try:
                await self._start_or_leave(scope, executions)
            except Exception:
                log.exception("%s: scope %s: a start failed", self.task_type, scope)
            except BaseException:
                self._adopted += [execution for left in by_scope.values() for execution in left]
                raise

    async def _start(self, scope: Scope, executions: Sequence[Execution]) -> None:
        started = await start(self._deployment, scope, executions)
        for execution in started.decided:
            assert execution.outcome is not None, "a decided execution has its outcome"
            self._put(execution, execution.outcome)
        going = [execution for execution in started.running if execution.claim not in self._lost]
        self._run(going)
        alive = {execution.claim for execution in (*going, *started.decided)}
        # fenced on the way, or lost since: without a call, what is left is decided by recovery
        self.settled([execution.claim for execution in executions if execution.claim not in alive])

    def _run(self, executions: Sequence[Execution]) -> None:
        """Begin executions, as many in one call as the model takes."""
        size = self._batch
        shared: list[Execution] = []
        alone: list[Execution] = []
        for execution in executions:
            (shared if size > 1 and may_share(execution) else alone).append(execution)
        for begin in range(0, len(shared), size):
            self._begin(shared[begin : begin + size])
        for execution in alone:
            self._begin([execution])

    def _begin(self, executions: Sequence[Execution]) -> None:
        work = perform_together(self._deployment, executions) if len(executions) > 1 else self._alone(executions[0])
        running = asyncio.create_task(work)
        running.add_done_callback(partial(self._ended, executions))
        self._running.update((execution.claim, running) for execution in executions)

    async def _alone(self, execution: Execution) -> Sequence[Outcome]:
        return (await self._perform(self._deployment, execution),)

    def _ended(self, executions: Sequence[Execution], running: _Running) -> None:
        """Pass the outcomes on, however the task ended: also if it was cancelled before its first step."""
        if running.cancelled():
            for execution in executions:
                self._cancelled(execution)
        elif (error := running.exception()) is not None:
            log.error("%s: a task failed", self.task_type, exc_info=error)
            diagnosis = Diagnosis(FAILURE[self.task_type], f"the execution raised {type(error).__name__}")
            for execution in executions:
                self._put(execution, unproven(self._deployment.replay(self.task_type), diagnosis))
        else:
            for execution, outcome in zip(executions, running.result(), strict=True):
                self._put(execution, outcome)

    def _cancelled(self, execution: Execution) -> None:
        """Give a local call back; leave an external one, whose outcome nobody knows now, to lease recovery."""
        safe = self._deployment.replay(self.task_type) is Replay.SAFE
        if safe and execution.claim not in self._lost:
            self._put(execution, GivenBack(Diagnosis(ErrorCode.GIVEN_BACK, "the worker was stopped")))
        else:
            self.settled([execution.claim])

    def _put(self, execution: Execution, outcome: Outcome) -> None:
        attempt_id = execution.attempt.attempt_id if execution.attempt else None
        self._settler.put(Settling(execution.claim, attempt_id, outcome))

    def settled(self, claims: Collection[Claim]) -> bool:
        """Make room: these claims were decided, or are not ours any more. Returns whether there were any of ours."""
        ours = [claim for claim in claims if claim in self._running]
        self._heartbeat.drop(ours)
        for claim in ours:
            del self._running[claim]
            self._lost.discard(claim)
        return bool(ours)

    def lost(self, claims: Collection[Claim]) -> None:
        """Stop the local execution of claims whose lease was lost; one that is just being started never begins."""
        lost = [claim for claim in claims if claim in self._running]
        self._lost.update(lost)
        # a call that others share goes on for them: what it brings for those that are lost is fenced
        needed = {running for claim, running in self._running.items() if claim not in self._lost}
        for running in {self._running[claim] for claim in lost} - needed:
            if running is not None:
                running.cancel()

    async def finish(self, within: float) -> None:
        """Let running calls end by themselves, then cancel those that have not; give back what was not started."""
        self.decline_adopted()
        running = {task for task in self._running.values() if task is not None}
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=within)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
