"""Claim tasks with their lane slots, and bind each claim to the attempt it will run."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from attrs import Factory, frozen

from imgproc_domain import attempt as attempts
from imgproc_domain.attempt import (
    Attempt,
    AttemptStatus,
    Begin,
    Continue,
    GiveUp,
    LookUp,
    Repeat,
    Replay,
    Resumption,
    resume,
)
from imgproc_domain.claim import Claim
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.context import Context, is_described_by_person
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import Conflict
from imgproc_domain.events import TaskClaimed
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, JobId, MemeId, Sha256, WorkerId
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import AlreadyValid, Failed, Outcome, Unknown
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import IMAGE_TASK_TYPES, LANE_OF, Lane, TaskType
from imgproc_domain.task import Task
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.points import Point
from imgproc_domain.values import evolve


@frozen(slots=False)
class Execution:
    """One claimed task, ready to run: what it works on, as read in the claiming transaction.

    ``outcome`` is set where the claim itself decided: the task is settled without running. ``look_up`` asks the
    provider for the attempt's result instead of starting a call, which may be under way until ``maybe_running_until``
    (the database's time; None once it cannot be). ``begun`` is the event loop's time before
    ``external_started`` was persisted, from which the hard deadline counts: a pure local call is started by its claim.
    ``reservation`` is what an agent task's grant holds at the policy. Maintenance tasks have neither attempt nor meme.
    """

    task: Task
    attempt: Attempt | None = None
    meme: Meme | None = None
    context: Context | None = None
    outcome: Outcome | None = None
    look_up: bool = False
    maybe_running_until: datetime | None = None
    reservation: str | None = None
    begun: float | None = None
    claim: Claim = Factory(lambda self: self.task.claim, takes_self=True)


class _Superseded(Exception):
    """Another configuration than this process's own is in force."""


@frozen
class Claimed:
    """What one claim got. ``none_left``: it found fewer tasks than it had places and slots for.

    ``superseded``: nothing, because another configuration than this process's own is in force.
    """

    executions: Sequence[Execution] = ()
    none_left: bool = False
    superseded: bool = False


async def claim_tasks(
    deployment: Deployment, scope: Scope, task_type: TaskType, limit: int, owner: WorkerId
) -> Sequence[Execution]:
    """Claim up to ``limit`` queued tasks of a scope. In the agent lane every claim takes a slot with it (I18).

    A superseded deployment claims no image task: it would be executed with models that are not in force.
    """
    return (await claim_and_look(deployment, scope, task_type, limit, owner)).executions


async def claim_and_look(
    deployment: Deployment,
    scope: Scope,
    task_type: TaskType,
    limit: int,
    owner: WorkerId,
    *,
    ask_first: bool = False,
) -> Claimed:
    """As `claim_tasks`; says as well whether tasks may be left that wait.

    With ``ask_first`` a deployment that expects to be superseded asks before it locks what others could claim;
    usually that is read with everything else, and a claim that was made for nothing is taken back.
    """

    async def once() -> Claimed:
        begun = asyncio.get_running_loop().time()
        async with deployment.uow.begin(scope) as tx:
            if ask_first and task_type in IMAGE_TASK_TYPES and await deployment.is_superseded(tx):
                return Claimed(superseded=True)
            return await _claim(tx, deployment, task_type, limit, owner, begun)

    try:
        claimed = await decided_again(once)
    except _Superseded:
        return Claimed(superseded=True)
    executions = claimed.executions
    if executions:
        deployment.passed(Point.TASK_CLAIMED)
    if any(execution.begun is not None for execution in executions):
        deployment.passed(Point.EXTERNAL_STARTED)
    for execution in executions:
        task = execution.task
        deployment.observer.note(TaskClaimed(scope, task.task_id, task_type, task.lease.generation))
    return claimed


async def _claim(
    tx: Transaction, deployment: Deployment, task_type: TaskType, limit: int, owner: WorkerId, begun: float
) -> Claimed:
    slots: Sequence[Slot] = ()
    if LANE_OF[task_type] is Lane.AGENT:
        slots = await tx.slots.take(Lane.AGENT, limit)
        limit = len(slots)
    tasks = await tx.claims.claim(task_type, limit, owner, deployment.limits.lease) if limit else ()
    none_left = len(tasks) < limit
    if not tasks:
        return Claimed(none_left=none_left)
    if slots:
        await tx.slots.hold([held(slot, task) for slot, task in zip(slots, tasks, strict=False)])
    if task_type not in IMAGE_TASK_TYPES:
        return Claimed([Execution(task) for task in tasks], none_left)
    return Claimed(await _bind(tx, deployment, task_type, tasks, begun), none_left)


def held(slot: Slot, task: Task) -> Slot:
    """Return the slot as held under a task's current claim."""
    return evolve(slot, scope=task.scope, task_id=task.task_id, generation=task.lease.generation, free_at=None)


@frozen
class _Read:
    """What binding claims to attempts reads; ``begun`` is the event loop's time before the transaction began."""

    memes: Mapping[MemeId, Meme]
    contexts: Mapping[MemeId, Context]
    owners: Collection[JobId]
    grants: Mapping[GrantId, Grant]
    now: datetime
    begun: float


async def _bind(
    tx: Transaction, deployment: Deployment, task_type: TaskType, tasks: Sequence[Task], begun: float
) -> Sequence[Execution]:
    """Give each claimed leaf task its attempt: a new one, or the one that an earlier claim left."""
    targets = [task.target for task in tasks if task.target]
    meme_ids = {target.meme_id for target in targets}
    superseded, memes, contexts, owners, grants, last = await tx.together(
        deployment.is_superseded(tx),
        tx.memes.get(meme_ids),
        tx.contexts.get(meme_ids if task_type is not TaskType.VISUAL else ()),
        tx.jobs.live({target.job_id for target in targets}),
        tx.grants.get([task.grant_id for task in tasks if task.grant_id]),
        # whoever claims a task first finds no attempt
        tx.attempts.last([task.task_id for task in tasks if task.lease.generation > 1]),
    )
    if superseded:
        raise _Superseded
    read = _Read(memes, contexts, owners, grants, _claimed_at(deployment, tasks), begun)
    fresh: list[Attempt] = []
    changed: list[tuple[AttemptStatus, Attempt]] = []
    executions = [_resume(deployment, task, last.get(task.task_id), read, fresh, changed) for task in tasks]
    written = await tx.attempts.save(changed) if changed else ()
    if len(written) != len(changed):
        raise Conflict("an attempt was moved by somebody else although its task was just claimed")
    if fresh:
        await tx.attempts.add(fresh)
    return executions


def _claimed_at(deployment: Deployment, tasks: Sequence[Task]) -> datetime:
    """Return the database's time at which one statement claimed these tasks: their leases count from it."""
    expires_at = tasks[0].lease.expires_at
    assert expires_at is not None, "a claimed task has a lease that ends"
    return expires_at - deployment.limits.lease


def _resume(
    deployment: Deployment,
    task: Task,
    last: Attempt | None,
    read: _Read,
    fresh: list[Attempt],
    changed: list[tuple[AttemptStatus, Attempt]],
) -> Execution:
    assert task.target is not None, "leaf tasks have a target"
    meme, context = read.memes.get(task.target.meme_id), read.contexts.get(task.target.meme_id)
    grant = read.grants.get(task.grant_id) if task.grant_id else None
    decision = resume(last, provable(deployment, task, last))
    outcome = _without_call(deployment, task, meme, context, read.owners, decision)
    execution = Execution(task, None, meme, context, outcome, reservation=grant.reservation if grant else None)
    match decision:
        case Begin():
            execution = prepare(deployment, execution, last.attempt_no + 1 if last else 1, read.now, read.begun)
            fresh.append(attempt_of(execution))
            return execution
        case Repeat(lost):
            reason = Diagnosis(ErrorCode.LEASE_LOST, "the worker was lost during a local call, which is repeated")
            changed.append((lost.status, attempts.fail(lost, reason, read.now)))
            execution = prepare(deployment, execution, lost.attempt_no + 1, read.now, read.begun)
            fresh.append(attempt_of(execution))
            return execution
        case Continue(kept) | LookUp(kept) | GiveUp(kept):
            attempt = evolve(kept, generation=task.lease.generation)
            changed.append((kept.status, attempt))
            if not isinstance(decision, LookUp):
                return evolve(execution, attempt=attempt)
            deadline = attempt.hard_deadline_at
            running = deadline if deadline and read.now < deadline else None
            return evolve(execution, attempt=attempt, look_up=True, maybe_running_until=running)
        case _:
            assert_never(decision)


def attempt_of(execution: Execution) -> Attempt:
    """Return the attempt of a leaf task's execution."""
    assert execution.attempt is not None, "leaf executions have an attempt"
    return execution.attempt


def provable(deployment: Deployment, task: Task, attempt: Attempt | None) -> Replay:
    """Return what can be proven of a lost attempt: nothing of another agent's call, unknown to this one (I9)."""
    if task.task_type is TaskType.CONTEXT and attempt is not None:
        ours = attempt.input_digest == input_digest(deployment.config, task, None)
        return deployment.replay(task.task_type) if ours else Replay.NEVER
    return deployment.replay(task.task_type)


def _without_call(
    deployment: Deployment,
    task: Task,
    meme: Meme | None,
    context: Context | None,
    owners: Collection[JobId],
    decision: Resumption,
) -> Outcome | None:
    """Return how the task ends if it must not run, let alone cost money; None if it runs."""
    if isinstance(decision, GiveUp):
        message = "the worker was lost during an external call whose outcome cannot be proven"
        # the slot of the lost claim stands for the call that may still be running; this claim's own never saw it
        return Unknown(Diagnosis(ErrorCode.UNKNOWN_EXECUTION, message), in_flight=False)
    if isinstance(decision, LookUp):
        return None
    if _is_over(task, meme, owners):
        return Failed(Diagnosis(ErrorCode.TARGET_CHANGED, "the picture or its job changed before the task began"))
    assert task.target is not None, "leaf tasks have a target"
    if task.target.config_fingerprint != deployment.config.fingerprint:
        message = "the processing configuration changed before the task began"
        return Failed(Diagnosis(ErrorCode.CONFIGURATION_CHANGED, message))
    if task.task_type is TaskType.CONTEXT and is_described_by_person(context, task.target.image_sha256):
        return AlreadyValid(Diagnosis(ErrorCode.CONTEXT_CHANGED, "a person described the picture before the call"))
    return None


def _is_over(task: Task, meme: Meme | None, owners: Collection[JobId]) -> bool:
    """Whether nothing the task could make would be kept."""
    target = task.target
    assert target is not None, "leaf tasks have a target"
    same = meme is not None and meme.exists and meme.picture.sha256 == target.image_sha256
    return not same or target.job_id not in owners


def prepare(deployment: Deployment, execution: Execution, number: int, now: datetime, begun: float) -> Execution:
    """Give an execution the attempt of this number, which the caller adds.

    That of a pure local call, which needs no grant and can always be repeated, is started at once if it is to run.
    """
    ids, task = deployment.ids, execution.task
    attempt = Attempt(
        scope=task.scope,
        task_id=task.task_id,
        attempt_no=number,
        attempt_id=AttemptId(ids.secret()),
        request_id=ids.secret(),
        session_id=ids.secret(),
        generation=task.lease.generation,
        status=AttemptStatus.PREPARED,
        input_digest=input_digest(deployment.config, task, execution.context),
        created_at=now,
    )
    local = task.task_type is not TaskType.CONTEXT and deployment.replay(task.task_type) is Replay.SAFE
    if not local or execution.outcome is not None:
        return evolve(execution, attempt=attempt)
    started = attempts.start_external(attempt, now, now + deployment.hard_deadline(task.task_type))
    return evolve(execution, attempt=started, begun=begun)


def input_digest(config: ProcessingConfig, task: Task, context: Context | None) -> Sha256:
    """Return the digest of everything a leaf task's call depends on: the rest of the configuration is not in it."""
    target = task.target
    assert target is not None, "leaf tasks have a target"
    text = context.metadata_hash if context and task.task_type is TaskType.TEXT else None
    made_with = _made_with(config, task.task_type)
    return Sha256.of(task.task_type, str(target.image_sha256), *made_with, target.reverse_image_policy, str(text))


def _made_with(config: ProcessingConfig, task_type: TaskType) -> tuple[str, ...]:
    match task_type:
        case TaskType.VISUAL:
            return (config.visual.id,)
        case TaskType.CONTEXT:
            return (config.agent_fingerprint, config.context_schema)
        case TaskType.TEXT:
            return (config.text.id,)
        case TaskType.CACHE:
            return ()
