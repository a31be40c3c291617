"""Claim tasks with their lane slots, and bind each claim to the attempt it will run."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import assert_never

from attrs import evolve, frozen

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
from imgproc_domain.ids import AttemptId, JobId, MemeId, Sha256, WorkerId
from imgproc_domain.job import Job
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import AlreadyValid, Failed, Outcome, Unknown
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import IMAGE_TASK_TYPES, LANE_OF, Lane, TaskType
from imgproc_domain.task import Task
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.points import Point


@frozen
class Execution:
    """One claimed task, ready to run: what it works on, as read in the claiming transaction.

    ``outcome`` is set where the claim itself decided: the task is settled without running. ``look_up`` asks the
    provider for the attempt's result instead of starting a call, which may be under way until ``maybe_running_until``
    (the database's time; None once it cannot be). ``begun`` is the event loop's time before
    ``external_started`` was persisted, from which the hard deadline counts. Maintenance tasks have neither attempt nor
    meme.
    """

    task: Task
    attempt: Attempt | None = None
    meme: Meme | None = None
    context: Context | None = None
    outcome: Outcome | None = None
    look_up: bool = False
    maybe_running_until: datetime | None = None
    begun: float | None = None

    @property
    def claim(self) -> Claim:
        return self.task.claim


async def claim_tasks(
    deployment: Deployment, scope: Scope, task_type: TaskType, limit: int, owner: WorkerId
) -> Sequence[Execution]:
    """Claim up to ``limit`` queued tasks of a scope. In the agent lane every claim takes a slot with it (I18).

    A superseded deployment claims no image task: it would be executed with models that are not in force.
    """

    async def once() -> Sequence[Execution]:
        async with deployment.uow.begin(scope) as tx:
            return await _claim(tx, deployment, task_type, limit, owner)

    executions = await decided_again(once)
    if executions:
        deployment.passed(Point.TASK_CLAIMED)
    for execution in executions:
        task = execution.task
        deployment.observer.note(TaskClaimed(scope, task.task_id, task_type, task.lease.generation))
    return executions


async def _claim(
    tx: Transaction, deployment: Deployment, task_type: TaskType, limit: int, owner: WorkerId
) -> Sequence[Execution]:
    if task_type in IMAGE_TASK_TYPES and await deployment.is_superseded(tx):
        return ()
    slots: Sequence[Slot] = ()
    if LANE_OF[task_type] is Lane.AGENT:
        slots = await tx.slots.take(Lane.AGENT, limit)
        limit = len(slots)
    tasks = await tx.claims.claim(task_type, limit, owner, deployment.limits.lease) if limit else ()
    if not tasks:
        return ()
    if slots:
        await tx.slots.hold([_held(slot, task) for slot, task in zip(slots, tasks, strict=False)])
    if task_type not in IMAGE_TASK_TYPES:
        return [Execution(task) for task in tasks]
    return await _bind(tx, deployment, tasks)


def _held(slot: Slot, task: Task) -> Slot:
    return evolve(slot, scope=task.scope, task_id=task.task_id, generation=task.lease.generation, free_at=None)


async def _bind(tx: Transaction, deployment: Deployment, tasks: Sequence[Task]) -> Sequence[Execution]:
    """Give each claimed leaf task its attempt: a new one, or the one that an earlier claim left."""
    targets = [task.target for task in tasks if task.target]
    meme_ids = {target.meme_id for target in targets}
    memes = await tx.memes.get(meme_ids)
    contexts = await tx.contexts.get(meme_ids)
    owners = await tx.jobs.get({target.job_id for target in targets})
    last = await tx.attempts.last([task.task_id for task in tasks])
    now = await tx.now()
    fresh: list[Attempt] = []
    changed: list[tuple[AttemptStatus, Attempt]] = []
    executions = [
        _resume(deployment, task, last.get(task.task_id), memes, contexts, owners, now, fresh, changed)
        for task in tasks
    ]
    written = await tx.attempts.save(changed) if changed else ()
    if len(written) != len(changed):
        raise Conflict("an attempt was moved by somebody else although its task was just claimed")
    if fresh:
        await tx.attempts.add(fresh)
    return executions


def _resume(
    deployment: Deployment,
    task: Task,
    last: Attempt | None,
    memes: Mapping[MemeId, Meme],
    contexts: Mapping[MemeId, Context],
    owners: Mapping[JobId, Job],
    now: datetime,
    fresh: list[Attempt],
    changed: list[tuple[AttemptStatus, Attempt]],
) -> Execution:
    assert task.target is not None, "leaf tasks have a target"
    meme = memes.get(task.target.meme_id)
    context = contexts.get(task.target.meme_id)
    decision = resume(last, provable(deployment, task, last))
    match decision:
        case Begin():
            attempt = _prepare(deployment, task, context, last.attempt_no + 1 if last else 1, now)
            fresh.append(attempt)
        case Repeat(lost):
            reason = Diagnosis(ErrorCode.LEASE_LOST, "the worker was lost during a local call, which is repeated")
            changed.append((lost.status, attempts.fail(lost, reason, now)))
            attempt = _prepare(deployment, task, context, lost.attempt_no + 1, now)
            fresh.append(attempt)
        case Continue(kept) | LookUp(kept) | GiveUp(kept):
            attempt = evolve(kept, generation=task.lease.generation)
            changed.append((kept.status, attempt))
        case _:
            assert_never(decision)
    outcome = _without_call(deployment, task, meme, context, owners, decision)
    if not isinstance(decision, LookUp):
        return Execution(task, attempt, meme, context, outcome)
    deadline = attempt.hard_deadline_at
    running = deadline if deadline and now < deadline else None
    return Execution(task, attempt, meme, context, outcome, look_up=True, maybe_running_until=running)


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
    owners: Mapping[JobId, Job],
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


def _is_over(task: Task, meme: Meme | None, owners: Mapping[JobId, Job]) -> bool:
    """Whether nothing the task could make would be kept."""
    target = task.target
    assert target is not None, "leaf tasks have a target"
    job = owners.get(target.job_id)
    same = meme is not None and meme.exists and meme.picture.sha256 == target.image_sha256
    return not same or job is None or not job.live


def _prepare(deployment: Deployment, task: Task, context: Context | None, number: int, now: datetime) -> Attempt:
    ids = deployment.ids
    return Attempt(
        scope=task.scope,
        task_id=task.task_id,
        attempt_no=number,
        attempt_id=AttemptId(ids.secret()),
        request_id=ids.secret(),
        session_id=ids.secret(),
        generation=task.lease.generation,
        status=AttemptStatus.PREPARED,
        input_digest=input_digest(deployment.config, task, context),
        created_at=now,
    )


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
