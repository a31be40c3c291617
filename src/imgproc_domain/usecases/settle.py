"""Write back outcomes, or nothing: one transaction for a batch of one scope, decided item by item."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import Factory, define

from imgproc_domain import grant as grants
from imgproc_domain import job as jobs
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Claim
from imgproc_domain.context import Context, is_described_by_person
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import ConfigurationUnreadable, Conflict
from imgproc_domain.events import Event, TaskClaimed, TaskSettled, WriteBackFenced
from imgproc_domain.grant import GrantStatus
from imgproc_domain.ids import JobId, MemeId, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Blocked, Unknown, diagnosis_of, kind_of
from imgproc_domain.policy import Denied
from imgproc_domain.ports.evidence import LateResult
from imgproc_domain.ports.execution import Release
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.product import ContextProduct, TextProduct, VisualProduct
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, GrantFate, Locked, Settled, Settling
from imgproc_domain.settlement import settle as decide
from imgproc_domain.stage import Lane, Stage
from imgproc_domain.submission import why_withheld
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.advance import Plan, extend, write
from imgproc_domain.usecases.claim import Execution, attempt_of
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.handover import Handover, hand_over
from imgproc_domain.usecases.points import Point
from imgproc_domain.words import Words, words_of


@define
class Batch:
    """What settling reads and decides, from lock to write."""

    settled: list[Settled] = Factory(list)
    claims: list[Claim] = Factory(list)
    busy_until: dict[TaskId, datetime] = Factory(dict)
    denied: dict[TaskId, Denied] = Factory(dict)
    before: dict[TaskId, AttemptStatus] = Factory(dict)
    memes: Mapping[MemeId, Meme] = Factory(dict)
    contexts: Mapping[MemeId, Context] = Factory(dict)
    current: dict[MemeId, Context] = Factory(dict)
    described: Collection[MemeId] = ()
    events: list[Event] = Factory(list)
    late: list[LateResult] = Factory(list)
    handover: Handover | None = None
    executions: list[Execution] = Factory(list)


async def settle(deployment: Deployment, scope: Scope, items: Sequence[Settling]) -> Sequence[Settled | Fenced]:
    """Settle a batch; answers stand in the order of the items. A fenced item changes nothing, for itself or others.

    It is kept as evidence that a result came late: at most one row a claim, without what it would have written.
    """
    answers, _ = await settle_and_claim(deployment, scope, items, None)
    return answers


async def settle_and_claim(
    deployment: Deployment, scope: Scope, items: Sequence[Settling], handover: Handover | None
) -> tuple[Sequence[Settled | Fenced], Sequence[Execution]]:
    """As `settle`; what it opens, and the worker has room for, is claimed in the same transaction and returned."""

    async def once() -> tuple[Sequence[Settled | Fenced], Batch, Plan]:
        async with deployment.uow.begin(scope) as tx:
            answers, batch, now = await _decide(tx, deployment, items)
            batch.handover = handover
            plan = await apply(tx, deployment, batch, now)
            await tx.evidence.note(batch.late)
            return answers, batch, plan

    answers, batch, plan = await decided_again(once)
    deployment.passed(Point.SETTLED)
    for event in [*batch.events, *plan.events]:
        deployment.observer.note(event)
    for execution in batch.executions:
        task = execution.task
        deployment.observer.note(TaskClaimed(scope, task.task_id, task.task_type, task.lease.generation))
    return answers, batch.executions


async def _decide(
    tx: Transaction, deployment: Deployment, items: Sequence[Settling]
) -> tuple[Sequence[Settled | Fenced], Batch, datetime]:
    tasks = await tx.claims.lock([item.claim for item in items])
    described = {t.target.meme_id for t in tasks.values() if t.target and t.stage is not Stage.VISUAL}
    last, memes, contexts, now = await tx.together(
        tx.attempts.last(tasks.keys()),
        tx.memes.lock({t.target.meme_id for t in tasks.values() if t.target}),
        tx.contexts.get(described),
        tx.now(),
    )
    before = {task_id: attempt.status for task_id, attempt in last.items()}
    batch = Batch(before=before, memes=memes, contexts=contexts, described=described)
    answers: list[Settled | Fenced] = []
    # an item sees what those before it in the batch write, as if each had its own transaction
    batch.current = current = dict(batch.contexts)
    for item in items:
        answer = decide(item, _locked(item.claim, tasks, last, batch.memes, current), now, deployment.limits.retry)
        answers.append(answer)
        if isinstance(answer, Fenced):
            batch.events.append(_fenced(item, answer))
            if (late := _late(item, answer, tasks.get(item.claim.task_id), now)) is not None:
                batch.late.append(late)
            continue
        batch.settled.append(answer)
        batch.claims.append(item.claim)
        if isinstance(answer.product, ContextProduct):
            current[answer.product.meme_id] = _context(
                tx.scope, answer.product, current.get(answer.product.meme_id), now
            )
        if (
            isinstance(item.outcome, Unknown)
            and item.outcome.in_flight
            and answer.attempt
            and answer.attempt.hard_deadline_at
        ):
            batch.busy_until[answer.task.task_id] = answer.attempt.hard_deadline_at
        if isinstance(item.outcome, Blocked):
            batch.denied[answer.task.task_id] = item.outcome.denied
    return answers, batch, now


def _locked(
    claim: Claim,
    tasks: Mapping[TaskId, Task],
    last: Mapping[TaskId, Attempt],
    memes: Mapping[MemeId, Meme],
    contexts: Mapping[MemeId, Context],
) -> Locked:
    task = tasks.get(claim.task_id)
    meme_id = task.target.meme_id if task and task.target else None
    meme = memes.get(meme_id) if meme_id else None
    context = contexts.get(meme_id) if meme_id else None
    return Locked(task, last.get(claim.task_id), meme, context)


def _fenced(item: Settling, answer: Fenced) -> WriteBackFenced:
    claim = item.claim
    return WriteBackFenced(claim.scope, claim.task_id, claim.generation, answer.reason, item.attempt_id)


def _late(item: Settling, answer: Fenced, task: Task | None, now: datetime) -> LateResult | None:
    """Return the evidence that this result came; None where there is no task, or no attempt, that it belongs to."""
    if item.attempt_id is None or task is None:
        return None
    return LateResult(
        scope=task.scope,
        task_id=task.task_id,
        attempt_id=item.attempt_id,
        generation=item.claim.generation,
        fence=answer.reason,
        outcome=kind_of(item.outcome),
        error=diagnosis_of(item.outcome),
        noted_at=now,
    )


async def apply(tx: Transaction, deployment: Deployment, batch: Batch, now: datetime) -> Plan:
    """Write what was decided: products, attempts, tasks, grants, slots, then the jobs and their next steps."""
    changed = [(batch.before[s.task.task_id], s.attempt) for s in batch.settled if s.attempt is not None]
    moved = [(before, after) for before, after in changed if before is not after.status]
    _, written, _ = await tx.together(
        _write_products(tx, batch), tx.attempts.save(moved), tx.claims.save([s.task for s in batch.settled])
    )
    if len(written) != len(moved):
        raise Conflict("an attempt was moved by somebody else although its task is locked")
    plan = Plan(room=batch.handover.room if batch.handover else 0)
    await _settle_grants(tx, batch, plan, now)
    await _end_stages(tx, deployment, batch, plan, now)
    await _free_slots(tx, batch)
    if batch.handover is not None:
        batch.executions = await hand_over(tx, deployment, batch.handover, plan, batch.memes, batch.current, now)
    plan.attempts.extend(map(attempt_of, batch.executions))
    await write(tx, plan)
    again = {Topic(s.task.task_type.value) for s in batch.settled if s.task.status is TaskStatus.QUEUED}
    if again:
        await tx.bell.ring(again)
    batch.events.extend(_event(s.task) for s in batch.settled)
    return plan


async def _write_products(tx: Transaction, batch: Batch) -> None:
    products = [s.product for s in batch.settled]
    if visual := [p for p in products if isinstance(p, VisualProduct)]:
        await tx.products.put_visual(visual)
    # a scope that serves no space yet will serve the first one's: what is beside comes behind
    beside = [p for s in batch.settled for p in s.beside]
    if text := [p for p in products if isinstance(p, TextProduct)] + beside:
        await tx.products.put_text(text)
        await tx.search.publish(text, _words(batch, text))
    # after the vectors: a context of the same batch then withdraws what was made from the former one
    if described := {p.meme_id for p in products if isinstance(p, ContextProduct)}:
        await _write_contexts(tx, batch, described)


def _words(batch: Batch, products: Sequence[TextProduct]) -> dict[MemeId, Words]:
    """Return the words of the memes whose vectors are written: what was embedded is what is described now."""
    ids = {product.meme_id for product in products}
    return {key: words_of(batch.current[key].description, batch.memes[key].filename) for key in ids}


async def _write_contexts(tx: Transaction, batch: Batch, described: Collection[MemeId]) -> None:
    """Write contexts; where they say something else, what can be found changes in this transaction."""
    after = [batch.current[meme_id] for meme_id in described]
    await tx.contexts.put(after)
    # what never had a context was never embedded: nothing of it can be found, now or again
    known = [context for context in after if context.meme_id in batch.contexts]
    changed = [c.meme_id for c in known if _is_found_otherwise(batch.contexts[c.meme_id], c)]
    if changed:
        await tx.search.refresh(changed)


def _is_found_otherwise(before: Context, after: Context) -> bool:
    """Whether another vector or other words are found: the same text may have moved from one field to another."""
    return (before.status, before.description) != (after.status, after.description)


def _context(scope: Scope, product: ContextProduct, before: Context | None, now: datetime) -> Context:
    return Context(
        scope=scope,
        meme_id=product.meme_id,
        status=product.status,
        revision=before.revision + 1 if before else 1,
        description=product.description,
        provenance=product.provenance,
        updated_at=now,
    )


async def _settle_grants(tx: Transaction, batch: Batch, plan: Plan, now: datetime) -> None:
    fates = {s.task.grant_id: s.grant for s in batch.settled if s.task.grant_id and s.grant is not GrantFate.KEEP}
    if not fates:
        return
    changed = []
    for grant_id, grant in (await tx.grants.lock(fates.keys())).items():
        if fates[grant_id] is GrantFate.UNKNOWN and grant.status in grants.LIVE:
            changed.append(grants.lose(grant, now))
        elif fates[grant_id] is GrantFate.RELEASE and grant.status is GrantStatus.ACQUIRED:
            changed.append(grants.release(grant, now))
            release = Release(grant.operation, grant.logical_request_key, grant.reservation, now)
            plan.releases.append(release)
            plan.topics.add(Topic.RELEASES)
    await tx.grants.save(changed)


async def _end_stages(tx: Transaction, deployment: Deployment, batch: Batch, plan: Plan, now: datetime) -> None:
    """A stage ends with its task, and the job's next step is decided, in this same transaction."""
    ended_tasks = [s.task for s in batch.settled if s.task.target and not s.task.live]
    over = {task.target.job_id: task for task in ended_tasks if task.target}
    if not over:
        return
    undecided = _undecided(ended_tasks)
    waiting = await tx.jobs.active({version.meme_id for version in undecided}) if undecided else {}
    due: list[Job] = []
    given_up: set[JobId] = set()
    for job_id, job in (await tx.jobs.lock({*over, *waiting.values()})).items():
        task = _awaited(job, over)
        ended = _end_stage(job, task, batch, now) if task else job
        after = _withheld(ended, undecided)
        if task is None and after is job:
            continue
        if ended is job and task is not None:
            given_up.add(job_id)
        if after.live:
            due.append(after)
        else:
            plan.put(job, after, now)
    try:
        known = {meme_id: batch.current.get(meme_id) for meme_id in batch.described}
        await extend(tx, deployment, plan, due, batch.memes, {}, now, given_up, known)
    except ConfigurationUnreadable:
        if given_up:
            raise
        # a result that was paid for is written all the same: the version in force finds these jobs due, and decides
        for job in due:
            plan.put(job, job, now)


def _undecided(over: Collection[Task]) -> dict[PictureVersion, Diagnosis]:
    """Return what the agent may have been asked without anybody knowing its answer.

    No other job of the same picture makes that call again, also if it only waits for this one (I9).
    """
    found = {}
    for task in over:
        withheld = why_withheld(task)
        if task.stage is Stage.AGENT and task.target is not None and withheld is not None:
            target = task.target
            found[PictureVersion(target.meme_id, target.image_sha256, target.reverse_image_policy)] = withheld
    return found


def _withheld(job: Job, undecided: Mapping[PictureVersion, Diagnosis]) -> Job:
    if not job.live or job.stage(Stage.AGENT).status is not JobStatus.QUEUED:
        return job
    return jobs.withhold(job, undecided.get(PictureVersion.of(job)))


def _awaited(job: Job, over: Mapping[JobId, Task]) -> Task | None:
    """Return the task that has ended and that a stage of the live job waited for, if any."""
    task = over.get(job.job_id)
    ours = task is not None and task.stage is not None and job.stage(task.stage).task_id == task.task_id
    return task if ours and job.live else None


def _end_stage(job: Job, task: Task, batch: Batch, now: datetime) -> Job:
    """Return the job behind the end of its stage; unchanged if it is to be renewed for its configuration."""
    assert task.stage is not None, "leaf tasks have a stage"
    if task.status is TaskStatus.SUCCEEDED or _became_valid(job, task, batch):
        return jobs.complete_stage(job, task.stage, now)
    denied = batch.denied.get(task.task_id)
    if denied is not None:
        return jobs.block(job, task.stage, denied, now)
    assert task.error is not None, "a failed task has its diagnosis"
    if task.error.code is ErrorCode.CONFIGURATION_CHANGED:
        return job
    return jobs.fail_stage(job, task.stage, task.error, now)


def _became_valid(job: Job, task: Task, batch: Batch) -> bool:
    """Whether a person described the picture while its agent task was failing: the job goes on with their words."""
    unknown = task.error is not None and task.error.code is ErrorCode.UNKNOWN_EXECUTION
    current = batch.memes.get(job.meme_id)
    same = current is not None and current.exists and current.picture.sha256 == job.image_sha256
    described = is_described_by_person(batch.contexts.get(job.meme_id), job.image_sha256)
    return task.stage is Stage.AGENT and same and described and not unknown


async def _free_slots(tx: Transaction, batch: Batch) -> None:
    """Give back the slots of agent tasks: at once, or at the hard deadline of a call that may still run."""
    pairs = zip(batch.settled, batch.claims, strict=True)
    held = [claim for settled, claim in pairs if settled.task.lane is Lane.AGENT]
    if held:
        await tx.slots.free(Lane.AGENT, held, batch.busy_until)


def _event(task: Task) -> TaskSettled:
    return TaskSettled(task.scope, task.task_id, task.task_type, task.status, task.error.code if task.error else None)
