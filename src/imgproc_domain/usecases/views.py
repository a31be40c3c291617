"""What people see of pictures, jobs and tasks: read in one transaction, a constant number of statements a page."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from imgproc_domain.attempt import Attempt
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.eligibility import Reason, why_not_searchable
from imgproc_domain.errors import MemeNotFound, TaskNotFound
from imgproc_domain.ids import JobId, MemeId, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.product import Products
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.validity import is_valid


class Validity(StrEnum):
    VALID = "valid"
    STALE = "stale"
    MISSING = "missing"


@frozen
class ImageView:
    """A picture with its products, its newest job, and why it cannot be found, if so."""

    meme: Meme
    products: Products
    job: Job | None
    validity: Mapping[Stage, Validity]
    not_searchable: Reason | None


@frozen
class ImagePage:
    images: tuple[ImageView, ...]
    after: MemeId | None


@frozen
class JobView:
    """A job, with the number of the last attempt of each stage's task (0 for none)."""

    job: Job
    attempts: Mapping[Stage, int]


@frozen
class JobViewPage:
    jobs: tuple[JobView, ...]
    after: JobId | None


@frozen
class TaskView:
    task: Task
    attempt: Attempt | None


@frozen
class TaskViewPage:
    tasks: tuple[TaskView, ...]
    after: TaskId | None


async def list_images(
    deployment: Deployment,
    scope: Scope,
    after: MemeId | None,
    limit: int,
    name_contains: str = "",
    status: JobStatus | None = None,
) -> ImagePage:
    """Return live pictures, newest first; with ``status``, those whose newest job has it."""
    async with deployment.uow.begin(scope) as tx:
        page = await tx.memes.page(after, limit, name_contains, status)
        return ImagePage(tuple(await _views(tx, deployment, page.memes)), page.after)


async def get_image(deployment: Deployment, scope: Scope, meme_id: MemeId) -> ImageView:
    """Return one live picture; raises `MemeNotFound` for unknown, deleted and foreign ids alike."""
    async with deployment.uow.begin(scope) as tx:
        meme = (await tx.memes.get([meme_id])).get(meme_id)
        if meme is None or not meme.exists:
            raise MemeNotFound("there is no such picture", meme_id=str(meme_id))
        (view,) = await _views(tx, deployment, [meme])
        return view


async def get_images(deployment: Deployment, scope: Scope, ids: Sequence[MemeId]) -> Mapping[MemeId, ImageView]:
    """Return the live pictures among ``ids``."""
    async with deployment.uow.begin(scope) as tx:
        memes = [meme for meme in (await tx.memes.get(ids)).values() if meme.exists]
        return {view.meme.meme_id: view for view in await _views(tx, deployment, memes)}


async def list_jobs(
    deployment: Deployment,
    scope: Scope,
    after: JobId | None,
    limit: int,
    status: JobStatus | None = None,
    stage: Stage | None = None,
) -> JobViewPage:
    async with deployment.uow.begin(scope) as tx:
        page = await tx.jobs.page(after, limit, status, stage)
        return JobViewPage(tuple(await _job_views(tx, page.jobs)), page.after)


async def get_job(deployment: Deployment, scope: Scope, job_id: JobId) -> JobView:
    """Return one job; raises `TaskNotFound` for unknown and foreign ids alike."""
    async with deployment.uow.begin(scope) as tx:
        job = (await tx.jobs.get([job_id])).get(job_id)
        if job is None:
            raise TaskNotFound("there is no such job", job_id=str(job_id))
        (view,) = await _job_views(tx, [job])
        return view


async def job_counts(deployment: Deployment, scope: Scope) -> Mapping[JobStatus, int]:
    async with deployment.uow.begin(scope) as tx:
        return await tx.jobs.counts()


async def list_tasks(
    deployment: Deployment,
    scope: Scope,
    after: TaskId | None,
    limit: int,
    task_type: TaskType | None = None,
    status: TaskStatus | None = None,
) -> TaskViewPage:
    async with deployment.uow.begin(scope) as tx:
        page = await tx.tasks.page(after, limit, task_type, status)
        last = await tx.attempts.last([task.task_id for task in page.tasks])
        return TaskViewPage(tuple(TaskView(t, last.get(t.task_id)) for t in page.tasks), page.after)


async def get_task(deployment: Deployment, scope: Scope, task_id: TaskId) -> TaskView:
    """Return one task; raises `TaskNotFound` for unknown and foreign ids alike."""
    async with deployment.uow.begin(scope) as tx:
        task = (await tx.tasks.get([task_id])).get(task_id)
        if task is None:
            raise TaskNotFound("there is no such task", task_id=str(task_id))
        return TaskView(task, (await tx.attempts.last([task_id])).get(task_id))


async def _views(tx: Transaction, deployment: Deployment, memes: Sequence[Meme]) -> list[ImageView]:
    ids = [meme.meme_id for meme in memes]
    products, newest, config, state = await tx.together(
        tx.products.stamps(ids), tx.jobs.newest(ids), deployment.decides_with(tx), tx.search.state()
    )
    # what the scope is searched in, whatever this process embeds with
    space = deployment.serving(state)
    return [_view(config, space, meme, products[meme.meme_id], newest.get(meme.meme_id)) for meme in memes]


def _view(config: ProcessingConfig, space: VectorSpace, meme: Meme, products: Products, job: Job | None) -> ImageView:
    policy = job.reverse_image_policy if job else ReverseImagePolicy.FORBID
    stored = {Stage.VISUAL: products.visual, Stage.AGENT: products.context, Stage.TEXT: products.text}
    validity = {}
    for stage in STAGES:
        valid = is_valid(stage, meme.picture.sha256, config, policy, products)
        missing = Validity.STALE if stored[stage] else Validity.MISSING
        validity[stage] = Validity.VALID if valid else missing
    return ImageView(meme, products, job, validity, why_not_searchable(meme, products, space))


async def _job_views(tx: Transaction, jobs: Sequence[Job]) -> list[JobView]:
    task_ids = [state.task_id for job in jobs for state in job.stages if state.task_id]
    last = await tx.attempts.last(task_ids)
    return [JobView(job, _attempts(job, last)) for job in jobs]


def _attempts(job: Job, last: Mapping[TaskId, Attempt]) -> Mapping[Stage, int]:
    found = {state.stage: last.get(state.task_id) if state.task_id else None for state in job.stages}
    return {stage: attempt.attempt_no if attempt else 0 for stage, attempt in found.items()}
