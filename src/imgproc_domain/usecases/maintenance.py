"""Explicit maintenance: tasks that no picture's processing waits for."""

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import StaleClaim, TaskNotFound
from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.migration import Generation
from imgproc_domain.outcome import Failed, Outcome, Succeeded
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task, TaskStatus, why_fenced
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment

_PAGE = 1_000


@frozen
class GenerationView:
    """A task that builds a generation, and the generation as soon as it has begun one."""

    task: Task
    generation: Generation | None


@frozen
class GenerationPage:
    """Newest first; ``after`` is the cursor of the next page, None at the end."""

    generations: tuple[GenerationView, ...]
    after: TaskId | None


async def list_generations(deployment: Deployment, scope: Scope, after: TaskId | None, limit: int) -> GenerationPage:
    """Return the scope's generations, complete or not. The entries of each are counted: let ``limit`` be small."""
    async with deployment.uow.begin(scope) as tx:
        page = await tx.tasks.page(after, limit, TaskType.CACHE)
        views = [GenerationView(task, await tx.generations.of_task(task.task_id)) for task in page.tasks]
    return GenerationPage(tuple(views), page.after)


async def show_generation(deployment: Deployment, scope: Scope, task_id: TaskId) -> GenerationView:
    """Return the generation of one task; raises `TaskNotFound` for a task that builds none, or that is not there."""
    async with deployment.uow.begin(scope) as tx:
        task = (await tx.tasks.get([task_id])).get(task_id)
        if task is None or task.task_type is not TaskType.CACHE:
            raise TaskNotFound("there is no such task", task_id=str(task_id))
        return GenerationView(task, await tx.generations.of_task(task_id))


async def request_generation(deployment: Deployment, scope: Scope) -> Task:
    """Queue the building of a legacy generation over the whole scope and return its task."""
    async with deployment.uow.begin(scope) as tx:
        now = await tx.now()
        task = Task(
            scope=scope,
            task_id=TaskId(deployment.ids.ordered(now)),
            task_type=TaskType.CACHE,
            status=TaskStatus.QUEUED,
            target=None,
            available_at=now,
            created_at=now,
        )
        await tx.tasks.add([task])
        await tx.bell.ring([Topic.CACHE])
        return task


async def to_copy(deployment: Deployment, scope: Scope) -> int:
    """Return how many pictures a generation would have that is begun now, whatever searches read."""
    async with deployment.uow.begin(scope) as tx:
        space = deployment.serving(await tx.search.state())
        return (await tx.search.coverage(space.id)).searchable


async def build_generation(deployment: Deployment, execution: Execution) -> Outcome:
    """Copy the scope's findable vectors into a generation, page by page, each in its own fenced transaction.

    A task that was lost half-way goes on behind the last page it committed.
    """
    scope = execution.task.scope
    try:
        async with deployment.uow.begin(scope) as tx:
            generation = await _generation(tx, deployment, execution)
        after: MemeId | None = None
        while True:
            async with deployment.uow.begin(scope) as tx:
                await _ensure_current(tx, execution)
                after = await tx.generations.copy_page(generation.generation_id, after, _PAGE)
                if after is None:
                    await tx.generations.complete(generation.generation_id)
                    return Succeeded(None)
    except StaleClaim as stale:
        return Failed(Diagnosis(ErrorCode.MAINTENANCE_FAILED, stale.message))


async def _generation(tx: Transaction, deployment: Deployment, execution: Execution) -> Generation:
    await _ensure_current(tx, execution)
    begun = await tx.generations.of_task(execution.task.task_id)
    if begun is not None:
        return begun
    now = await tx.now()
    generation = Generation(
        scope=tx.scope,
        generation_id=GenerationId(deployment.ids.ordered(now)),
        task_id=execution.task.task_id,
        space=deployment.serving(await tx.search.state()),
        created_at=now,
    )
    await tx.generations.add(generation)
    return generation


async def _ensure_current(tx: Transaction, execution: Execution) -> None:
    """Raise `StaleClaim` unless the task is still this execution's: nothing is written without the fence (I4)."""
    locked = await tx.claims.lock([execution.claim])
    fence = why_fenced(locked.get(execution.task.task_id), execution.claim, await tx.now())
    if fence is not None:
        raise StaleClaim(f"the claim on this task is no longer current: {fence}")
