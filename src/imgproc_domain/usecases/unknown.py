"""Executions of which nobody can prove how they ended: what a person sees of them, and how a person closes them.

Nothing here is done by the system itself: no worker, scan or submission calls it.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Claim
from imgproc_domain.errors import (
    CallMayBeRunning,
    ExecutionAlreadyResolved,
    ExecutionNotUnknown,
    TaskNotFound,
)
from imgproc_domain.events import ExecutionResolved
from imgproc_domain.grant import Grant
from imgproc_domain.ids import TaskId, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.ports.evidence import LateResult, Resolution, Resolved
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Target, Task
from imgproc_domain.usecases.advance import agent_request
from imgproc_domain.usecases.deployment import Deployment, decided_again


@frozen
class UnknownExecution:
    """A task whose last attempt ended as unknown. ``attempt`` is that one.

    ``running_until`` is its hard deadline while the call may still be running, None once it cannot be. ``slots`` are
    the lane slots that wait for it (I18).
    """

    task: Task
    attempt: Attempt
    meme: Meme | None
    running_until: datetime | None
    slots: tuple[Slot, ...]
    resolved: Resolved | None

    @property
    def target(self) -> Target:
        assert self.task.target is not None, "only leaf tasks have attempts"
        return self.task.target


@frozen
class UnknownExecutionPage:
    """Newest task first; ``after`` is the cursor of the next page, None at the end."""

    executions: tuple[UnknownExecution, ...]
    after: TaskId | None


@frozen
class UnknownDetail:
    """Everything that is known: all attempts of the task by number, its grant, and what came back too late.

    ``newest`` is the newest job of the picture: another one than the task's if it was tried again since.
    """

    execution: UnknownExecution
    attempts: tuple[Attempt, ...]
    grant: Grant | None
    late: tuple[LateResult, ...]
    newest: Job | None


async def list_unknown(
    deployment: Deployment, scope: Scope, after: TaskId | None, limit: int, *, resolved: bool | None = None
) -> UnknownExecutionPage:
    """Return unknown executions, newest task first; with ``resolved``, those that were or were not closed."""
    async with deployment.uow.begin(scope) as tx:
        page = await tx.evidence.unknown(after, limit, resolved=resolved)
        return UnknownExecutionPage(tuple(await _views(tx, page.attempts)), page.after)


async def show_unknown(deployment: Deployment, scope: Scope, task_id: TaskId) -> UnknownDetail:
    """Return what is known of one unknown execution.

    Raises:
        TaskNotFound: no such task in this scope.
        ExecutionNotUnknown: it is running, or ended with a known outcome.
    """
    async with deployment.uow.begin(scope) as tx:
        (execution,) = await _views(tx, [await _unknown(tx, task_id)])
        target = execution.target
        return UnknownDetail(
            execution=execution,
            attempts=tuple(await tx.evidence.attempts(task_id)),
            grant=await _grant(tx, execution.task),
            late=tuple(await tx.evidence.late_results([task_id])),
            newest=(await tx.jobs.newest([target.meme_id])).get(target.meme_id),
        )


async def resolve_unknown(deployment: Deployment, scope: Scope, task_id: TaskId, resolution: Resolution) -> Resolved:
    """Record that a person closed an unknown execution, and why.

    Task, job, attempt and grant stay as they are (I10): trying again is a retry of its own. If ``resolution`` vouches
    for the end of the call, the lane slots that waited for its hard deadline are free at once (I18).

    Raises:
        TaskNotFound: no such task in this scope.
        ExecutionNotUnknown: it is running, or ended with a known outcome.
        ExecutionAlreadyResolved: it has a resolution, which stays as it is.
        CallMayBeRunning: the call's hard deadline is still to come, and ``resolution`` does not vouch for its end.
    """

    async def once() -> tuple[Resolved, int]:
        async with deployment.uow.begin(scope) as tx:
            return await _resolve(tx, task_id, resolution)

    resolved, freed = await decided_again(once)
    deployment.observer.note(ExecutionResolved(scope, task_id, resolved.attempt_id, freed))
    return resolved


async def _resolve(tx: Transaction, task_id: TaskId, resolution: Resolution) -> tuple[Resolved, int]:
    # nothing of an unknown execution changes any more, so that its rows need no lock; its resolution is the first row
    # of its key, and the slots come last in the order of locks
    (execution,) = await _views(tx, [await _unknown(tx, task_id)])
    deadline = execution.running_until
    if deadline is not None and not resolution.attested:
        message = "its call may still be running: wait, or vouch that its worker is dead and the call is over"
        raise CallMayBeRunning(message, task_id=str(task_id), hard_deadline_at=deadline)
    resolved = Resolved(tx.scope, task_id, execution.attempt.attempt_id, resolution, await tx.now())
    if not await tx.evidence.resolve(resolved):
        message = "this execution was resolved before, once and for all"
        raise ExecutionAlreadyResolved(message, task_id=str(task_id))
    freed = execution.slots if resolution.attested else ()
    await _free(tx, execution.task, freed)
    return resolved, len(freed)


async def _free(tx: Transaction, task: Task, slots: Sequence[Slot]) -> None:
    """Give slots back and wake who may wait for one. A slot that somebody else took since is left alone."""
    for slot in slots:
        assert slot.generation is not None, "a slot with a task has a generation"
        # a slot knows its holder by task and generation: the name of the lost worker is not kept
        await tx.slots.free(slot.lane, [Claim(tx.scope, task.task_id, WorkerId(""), slot.generation)], {})
    if slots:
        await tx.bell.ring({Topic(task.task_type.value)})


async def _unknown(tx: Transaction, task_id: TaskId) -> Attempt:
    """Return the attempt that ended as unknown: always a task's last one (I6)."""
    if task_id not in await tx.tasks.get([task_id]):
        raise TaskNotFound("there is no such task", task_id=str(task_id))
    last = (await tx.attempts.last([task_id])).get(task_id)
    if last is None or last.status is not AttemptStatus.UNKNOWN:
        status = str(last.status) if last else None
        raise ExecutionNotUnknown("this task did not end as an unknown execution", task_id=str(task_id), status=status)
    return last


async def _views(tx: Transaction, attempts: Sequence[Attempt]) -> list[UnknownExecution]:
    """Read what belongs to attempts that ended as unknown, in their order: a constant number of statements."""
    ids = [attempt.task_id for attempt in attempts]
    tasks = await tx.tasks.get(ids)
    memes = await tx.memes.get({task.target.meme_id for task in tasks.values() if task.target})
    resolved = {row.attempt_id: row for row in await tx.evidence.resolutions(ids)}
    slots: defaultdict[TaskId, list[Slot]] = defaultdict(list)
    rows = await tx.evidence.slots(ids)
    now = await tx.now()
    for slot in rows:
        if slot.task_id is not None and (slot.free_at is None or now < slot.free_at):
            slots[slot.task_id].append(slot)
    views = []
    for attempt in attempts:
        task = tasks[attempt.task_id]
        meme = memes.get(task.target.meme_id) if task.target else None
        deadline = attempt.hard_deadline_at
        found = resolved.get(attempt.attempt_id)
        over = deadline is None or deadline <= now or (found is not None and found.resolution.attested)
        running = None if over else deadline
        views.append(UnknownExecution(task, attempt, meme, running, tuple(slots[task.task_id]), found))
    return views


async def _grant(tx: Transaction, task: Task) -> Grant | None:
    if task.task_type is not TaskType.CONTEXT or task.target is None:
        return None
    job = (await tx.jobs.get([task.target.job_id]))[task.target.job_id]
    request = agent_request(job)
    found = await tx.grants.by_key(request.operation, [request.logical_request_key])
    return found.get(request.logical_request_key)
