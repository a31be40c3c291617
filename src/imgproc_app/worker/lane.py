"""One lane: claim within its budget, fairly over scopes, and run what was claimed."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial

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
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.perform import FAILURE, unproven
from imgproc_domain.usecases.start import start

log = logging.getLogger(__name__)

Perform = Callable[[Deployment, Execution], Coroutine[None, None, Outcome]]

_SCOPES_A_TURN = 16


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
    ) -> None:
        self.task_type = task_type
        self._deployment = deployment
        self._dispatch = dispatch
        self._owner = owner
        self._perform = perform
        self._heartbeat = heartbeat
        self._settler = settler
        self._limit = deployment.limits.lanes[LANE_OF[task_type]]
        self._running: dict[Claim, asyncio.Task[Outcome] | None] = {}
        self._lost: set[Claim] = set()
        self._last_scope: Scope | None = None

    @property
    def busy(self) -> int:
        return len(self._running)

    async def turn(self) -> bool:
        """Claim and start as much as the budget allows; True if there may be more to claim at once."""
        free = self._limit - self.busy
        if free <= 0:
            return False
        scopes = await self._dispatch.ready_scopes(self.task_type, self._last_scope, min(free, _SCOPES_A_TURN))
        claimed = 0
        for scope, share in shares(free, scopes):
            try:
                found = await self._claim(scope, share)
            except DatabaseUnavailable:
                # perhaps of this scope's rows alone: the others are not to wait for them
                self._last_scope = scope
                raise
            except Exception:
                log.exception("%s: scope %s: a claim failed", self.task_type, scope)
                self._last_scope = scope
                continue
            if found:
                # a scope that got nothing, for want of a slot, keeps its turn
                self._last_scope = scope
            claimed += found
        return claimed > 0

    async def _claim(self, scope: Scope, share: int) -> int:
        executions = await claim_tasks(self._deployment, scope, self.task_type, share, self._owner)
        claims = [execution.claim for execution in executions]
        self._running.update(dict.fromkeys(claims))
        self._heartbeat.hold(claims)
        try:
            await self._start(scope, executions)
        except BaseException:
            self.settled([claim for claim in claims if self._running.get(claim) is None])
            raise
        return len(executions)

    async def _start(self, scope: Scope, executions: Sequence[Execution]) -> None:
        started = await start(self._deployment, scope, executions)
        for execution in started.decided:
            assert execution.outcome is not None, "a decided execution has its outcome"
            self._put(execution, execution.outcome)
        going = [execution for execution in started.running if execution.claim not in self._lost]
        for execution in going:
            running = asyncio.create_task(self._perform(self._deployment, execution))
            running.add_done_callback(partial(self._ended, execution))
            self._running[execution.claim] = running
        alive = {execution.claim for execution in (*going, *started.decided)}
        # fenced on the way, or lost since: without a call, what is left is decided by recovery
        self.settled([execution.claim for execution in executions if execution.claim not in alive])

    def _ended(self, execution: Execution, running: "asyncio.Task[Outcome]") -> None:
        """Pass the outcome on, however the task ended: also if it was cancelled before its first step."""
        if running.cancelled():
            self._cancelled(execution)
        elif (error := running.exception()) is not None:
            log.error("%s: a task failed", self.task_type, exc_info=error)
            diagnosis = Diagnosis(FAILURE[self.task_type], f"the execution raised {type(error).__name__}")
            self._put(execution, unproven(self._deployment.replay(self.task_type), diagnosis))
        else:
            self._put(execution, running.result())

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

    def settled(self, claims: Collection[Claim]) -> None:
        """Make room: these claims were decided, or are not ours any more."""
        self._heartbeat.drop(claims)
        for claim in claims:
            self._running.pop(claim, None)
            self._lost.discard(claim)

    def lost(self, claims: Collection[Claim]) -> None:
        """Stop the local execution of claims whose lease was lost; one that is just being started never begins."""
        for claim in claims:
            if claim not in self._running:
                continue
            self._lost.add(claim)
            running = self._running[claim]
            if running is not None:
                running.cancel()

    async def finish(self, within: float) -> None:
        """Let running calls end by themselves, then cancel those that have not."""
        running = [task for task in self._running.values() if task is not None]
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=within)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
