"""Carry out reconcile decisions for jobs whose memes and rows this transaction has locked."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, assert_never

from attrs import Factory, define, frozen

from imgproc_domain import job as jobs
from imgproc_domain.attempt import Attempt
from imgproc_domain.claim import drop
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.context import Context
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.events import Event, GrantMoved, JobEnded, JobOpened, StageOpened
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import GrantId, JobId, MemeId, Sha256, TaskId
from imgproc_domain.job import Job, JobStatus, new_stages
from imgproc_domain.meme import Meme
from imgproc_domain.policy import Decision as Permission
from imgproc_domain.policy import Denied, Granted, Operation, OperationRequest
from imgproc_domain.ports.execution import Release
from imgproc_domain.ports.library import NOTHING_KNOWN
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.product import Products
from imgproc_domain.reconcile import (
    AwaitTask,
    Close,
    Decision,
    Facts,
    FailStage,
    Finish,
    Nothing,
    OpenStage,
    Renew,
    reconcile,
)
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, TASK_TYPE_OF, ReverseImagePolicy, Stage
from imgproc_domain.task import Target, Task, TaskStatus
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.permission import acquire_now
from imgproc_domain.values import evolve


@frozen
class Permit:
    """The policy's answer to a job's request, obtained outside any transaction; ``None``: not now, ask again later."""

    request: OperationRequest
    permission: Permission | None


@define
class Plan:
    """What one transaction writes for its jobs.

    ``room`` is how many agent tasks it may open on an immediate policy's word, without having asked beforehand.
    """

    room: int = 0
    jobs: dict[JobId, Job] = Factory(dict)
    fresh: set[JobId] = Factory(set)
    tasks: list[Task] = Factory(list)
    attempts: list[Attempt] = Factory(list)
    grants: list[Grant] = Factory(list)
    releases: list[Release] = Factory(list)
    topics: set[Topic] = Factory(set)
    events: list[Event] = Factory(list)

    def put(self, before: Job, after: Job, now: datetime) -> None:
        """Note a job's new state; one that gives up its agent stage unopened gives up what it may have reserved.

        The write ends any claim on the job: a reconciler that still holds one finds it gone.
        """
        self.jobs[after.job_id] = after if after.lease.owner is None else evolve(after, lease=drop(after.lease))
        if _forfeits(before, after):
            request = agent_request(after)
            self.releases.append(Release(request.operation, request.logical_request_key, None, now))
            self.topics.add(Topic.RELEASES)
        if before.live and not after.live:
            code = after.error.code if after.error else None
            self.events.append(JobEnded(after.scope, after.job_id, after.status, code))

    def give(self, job: Job, stage: Stage, task: Task) -> None:
        """Note the new task of a job's stage."""
        self.tasks.append(task)
        self.events.append(StageOpened(job.scope, job.job_id, stage, task.task_id))

    def open(self, job: Job) -> None:
        """Note a job that does not exist yet."""
        self.jobs[job.job_id] = job
        self.fresh.add(job.job_id)
        self.events.append(JobOpened(job.scope, job.job_id, job.revision))


_NEW_STAGES: Final = new_stages()

_Work = tuple[MemeId, Sha256, Stage | None]


@frozen
class Gathered:
    """What is stored of some memes: their products, the work that live tasks do on them, and what decides."""

    config: ProcessingConfig
    products: Mapping[MemeId, Products]
    busy: frozenset[_Work | None]

    def facts(self, job: Job, meme: Meme | None) -> Facts:
        """Return what `reconcile` decides on for a job of one of these memes."""
        facts = Facts(job, meme, self.products[job.meme_id], busy=False, config=self.config)
        return evolve(facts, busy=True) if self.busy and _wanted(facts) in self.busy else facts

    def lacks_all(self, meme_id: MemeId) -> bool:
        """Whether a new job of this meme has every stage before it, and waits for nobody."""
        return not (self.busy or self.products[meme_id].visual)


def agent_request(job: Job) -> OperationRequest:
    """Return the one logical request of a job revision's agent task: the same whenever and wherever it is asked."""
    return agent_request_for(job.scope, job)


def agent_request_for(scope: Scope, made_for: Job | Target) -> OperationRequest:
    """As `agent_request`: it follows from what never changes about a job, and the targets of its tasks repeat that."""
    key = f"{made_for.job_id}:{Stage.AGENT}"
    return OperationRequest(
        scope=scope,
        operation=Operation.ANALYSIS_AGENT,
        logical_request_key=key,
        resource=str(made_for.meme_id),
        task=key,
        source="pipeline",
        input_digest=f"{made_for.image_sha256}:{made_for.reverse_image_policy}:{made_for.config_fingerprint}",
    )


def open_revision(
    deployment: Deployment,
    config: ProcessingConfig,
    scope: Scope,
    meme_id: MemeId,
    revision: int,
    sha256: Sha256,
    policy: ReverseImagePolicy,
    now: datetime,
) -> Job:
    """Return a new queued revision under ``config``, due at once."""
    return Job(
        scope=scope,
        job_id=JobId(deployment.ids.ordered(now)),
        meme_id=meme_id,
        revision=revision,
        image_sha256=sha256,
        reverse_image_policy=policy,
        config_fingerprint=config.fingerprint,
        status=JobStatus.QUEUED,
        stages=new_stages(),
        created_at=now,
        updated_at=now,
        due_at=now,
    )


async def gather(
    tx: Transaction,
    deployment: Deployment,
    meme_ids: Collection[MemeId],
    contexts: Mapping[MemeId, Context | None] = NOTHING_KNOWN,
) -> Gathered:
    """Read what `reconcile` decides on, with one statement a kind however many memes there are."""
    products, busy, config = await tx.together(
        tx.products.stamps(meme_ids, contexts), tx.tasks.busy(meme_ids), deployment.decides_with(tx)
    )
    return Gathered(config, products, frozenset(map(_work_of, busy)))


async def gather_facts(
    tx: Transaction,
    deployment: Deployment,
    due: Collection[Job],
    memes: Mapping[MemeId, Meme],
    contexts: Mapping[MemeId, Context | None] = NOTHING_KNOWN,
) -> list[Facts]:
    """As `gather`, of the memes of these jobs."""
    gathered = await gather(tx, deployment, {job.meme_id for job in due}, contexts)
    return [gathered.facts(job, memes.get(job.meme_id)) for job in due]


async def advance(
    tx: Transaction,
    deployment: Deployment,
    due: Collection[Job],
    memes: Mapping[MemeId, Meme],
    permits: Mapping[JobId, Permit],
    now: datetime,
) -> Plan:
    """Decide the next step of each live job and plan its writes. The caller holds the locks and calls `write`.

    An agent stage is opened only with a permit from ``permits``; without one its job stays due.
    """
    plan = Plan()
    await extend(tx, deployment, plan, due, memes, permits, now)
    return plan


async def extend(
    tx: Transaction,
    deployment: Deployment,
    plan: Plan,
    due: Collection[Job],
    memes: Mapping[MemeId, Meme],
    permits: Mapping[JobId, Permit],
    now: datetime,
    given_up: Collection[JobId] = (),
    contexts: Mapping[MemeId, Context | None] = NOTHING_KNOWN,
) -> None:
    """Like `advance`, into a plan that other decisions of the same transaction share.

    ``contexts`` are those it knows already, as `ProductStore.stamps` takes them. The stages of the jobs in ``given_up``
    ended without a call because of the configuration: these jobs are renewed.
    """
    live = [job for job in due if job.live]
    if not live:
        return
    for facts in await gather_facts(tx, deployment, live, memes, contexts):
        decision = reconcile(facts)
        # also where the job's configuration is in force again by now: its stage has no task any more
        if facts.job.job_id in given_up and not isinstance(decision, Close):
            decision = Renew(Diagnosis(ErrorCode.CONFIGURATION_CHANGED, "the processing configuration changed"))
        _apply(plan, deployment, facts, decision, permits.get(facts.job.job_id), now)


def begin(plan: Plan, deployment: Deployment, gathered: Gathered, job: Job, meme: Meme, now: datetime) -> Job:
    """Note a job that does not exist yet, decide its first step, and return it. The caller calls `write`.

    The job was made for the meme as it is, under the configuration that was gathered: where the first stage has no
    product either there is nothing to decide.
    """
    if gathered.lacks_all(job.meme_id):
        task = _task(deployment, job, STAGES[0], None, now)
        job = jobs.open_stage(job, STAGES[0], task.task_id, now)
        plan.open(job)
        plan.give(job, STAGES[0], task)
        return job
    plan.open(job)
    facts = gathered.facts(job, meme)
    _apply(plan, deployment, facts, reconcile(facts), None, now)
    return plan.jobs[job.job_id]


async def write(tx: Transaction, plan: Plan) -> None:
    """Write a plan: jobs that end before those that follow them, tasks before what names them."""
    ended: list[Job] = []
    going: list[Job] = []
    fresh: list[Job] = []
    for job_id, job in plan.jobs.items():
        (fresh if job_id in plan.fresh else going if job.live else ended).append(job)
    if ended:
        await tx.jobs.save(ended)
    await tx.together(
        tx.jobs.add(fresh),
        tx.tasks.add(plan.tasks),
        tx.attempts.add(plan.attempts),
        tx.grants.add(plan.grants),
        tx.jobs.save(going),
    )
    if plan.releases:
        await tx.releases.add(plan.releases)
    waiting = {task.task_type for task in plan.tasks if task.status is TaskStatus.QUEUED}
    if topics := plan.topics | {Topic(task_type.value) for task_type in waiting}:
        await tx.bell.ring(topics)


def _apply(
    plan: Plan, deployment: Deployment, facts: Facts, decision: Decision, permit: Permit | None, now: datetime
) -> None:
    job = facts.job
    match decision:
        case Nothing():
            plan.put(job, evolve(job, due_at=None), now)
        case AwaitTask():
            plan.put(job, jobs.postpone(job, deployment.limits.next_look(job.updated_at, now)), now)
        case OpenStage(stage, reused):
            _open(plan, deployment, job, jobs.reuse(job, reused), stage, permit, now)
        case Finish(reused):
            plan.put(job, jobs.finish(jobs.reuse(job, reused), now), now)
        case FailStage(stage, reused, diagnosis):
            plan.put(job, jobs.fail_stage(jobs.reuse(job, reused), stage, diagnosis, now), now)
        case Close(diagnosis):
            plan.put(job, jobs.close(job, diagnosis, now), now)
        case Renew(diagnosis):
            plan.put(job, jobs.close(job, diagnosis, now), now)
            following = open_revision(
                deployment,
                facts.config,
                job.scope,
                job.meme_id,
                job.revision + 1,
                job.image_sha256,
                job.reverse_image_policy,
                now,
            )
            plan.open(jobs.withhold(following, job.withheld))
            plan.topics.add(Topic.JOBS)
        case _:
            assert_never(decision)


def _open(
    plan: Plan, deployment: Deployment, before: Job, job: Job, stage: Stage, permit: Permit | None, now: datetime
) -> None:
    """Open a stage: at once where no permission is needed, else as the permit says."""
    if stage is not Stage.AGENT:
        _give_task(plan, deployment, before, job, stage, None, now)
        return
    if permit is None and plan.room > 0 and deployment.immediate is not None:
        plan.room -= 1
        request = agent_request(job)
        permit = Permit(request, acquire_now(deployment.immediate, request))
    match permit.permission if permit else None:
        case None:
            until = deployment.limits.next_look(job.updated_at, now) if permit else now
            plan.put(before, jobs.postpone(job, until), now)
            if permit is None:
                plan.topics.add(Topic.JOBS)
        case Denied() as denied:
            plan.put(before, jobs.block(job, stage, denied, now), now)
        case Granted() as granted:
            assert permit is not None, "a granted request has a permit"
            grant = _grant(deployment, job, permit.request, granted, now)
            _give_task(plan, deployment, before, job, stage, grant, now)


def _give_task(
    plan: Plan, deployment: Deployment, before: Job, job: Job, stage: Stage, grant: Grant | None, now: datetime
) -> None:
    task = _task(deployment, job, stage, grant, now)
    plan.put(before, jobs.open_stage(job, stage, task.task_id, now), now)
    plan.give(job, stage, task)
    if grant is not None:
        plan.grants.append(grant)
        plan.events.append(GrantMoved(job.scope, grant.task_id, grant.status))


def _task(deployment: Deployment, job: Job, stage: Stage, grant: Grant | None, now: datetime) -> Task:
    target = Target(job.job_id, job.meme_id, job.image_sha256, job.config_fingerprint, job.reverse_image_policy)
    return Task(
        scope=job.scope,
        task_id=grant.task_id if grant else TaskId(deployment.ids.ordered(now)),
        task_type=TASK_TYPE_OF[stage],
        status=TaskStatus.QUEUED,
        target=target,
        available_at=now,
        created_at=now,
        grant_id=grant.grant_id if grant else None,
    )


def _grant(deployment: Deployment, job: Job, request: OperationRequest, granted: Granted, now: datetime) -> Grant:
    return Grant(
        scope=job.scope,
        grant_id=GrantId(deployment.ids.ordered(now)),
        operation=request.operation,
        logical_request_key=request.logical_request_key,
        fingerprint=request.fingerprint,
        reservation=granted.reservation,
        task_id=TaskId(deployment.ids.ordered(now)),
        job_id=job.job_id,
        status=GrantStatus.ACQUIRED,
        created_at=now,
        updated_at=now,
    )


def _forfeits(before: Job, after: Job) -> bool:
    """Whether a reservation that a claimed reconcile may have made will never get its task.

    Only a job that was claimed can have asked the policy. Also a denied one: an earlier claim of it may have stalled
    before it asked, and be granted later what nobody will use.
    """
    if before.lease.generation == 0:
        return False
    agent = after.stage(Stage.AGENT)
    undecided = before.stage(Stage.AGENT).status is JobStatus.QUEUED
    decided = agent.status is not JobStatus.QUEUED or not after.live
    return undecided and decided and agent.task_id is None


def _work_of(task: Task) -> _Work | None:
    return (task.target.meme_id, task.target.image_sha256, task.stage) if task.target else None


def _wanted(facts: Facts) -> _Work:
    return (facts.job.meme_id, facts.job.image_sha256, facts.stale)
