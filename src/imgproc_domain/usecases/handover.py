"""Claim what a settling transaction has just opened, for the worker that settles.

The next stage of a job is then claimed in the transaction that opens it: one transaction, and one version of the task's
row, less a stage. Nothing is skipped for that: such a task has its lease, its generation, its attempt and, in the agent
lane, its slot, all written before anybody can see it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from imgproc_domain import attempt as attempts
from imgproc_domain import grant as grants
from imgproc_domain import task as tasks
from imgproc_domain.context import Context
from imgproc_domain.events import GrantMoved
from imgproc_domain.ids import GrantId, MemeId, TaskId, WorkerId
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Succeeded
from imgproc_domain.policy import Granted
from imgproc_domain.ports.policy import ImmediatePolicy
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.product import ContextProduct, VisualProduct
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import Lane, TaskType
from imgproc_domain.task import Task
from imgproc_domain.usecases.advance import Plan
from imgproc_domain.usecases.claim import Execution, attempt_of, held, prepare
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.permission import commit_now
from imgproc_domain.usecases.start import asked
from imgproc_domain.values import evolve

_NEXT: Final[Mapping[type, TaskType]] = {VisualProduct: TaskType.CONTEXT, ContextProduct: TaskType.TEXT}


@frozen
class Handover:
    """What a worker would take over from its own settling.

    ``places`` is how many tasks of each type it has room for: none of a type that others may be waiting for. ``room``
    is how many agent tasks may be opened at all on an immediate policy's word. ``begun`` is the event loop's time
    before the transaction began.
    """

    owner: WorkerId
    places: Mapping[TaskType, int]
    room: int
    begun: float


def opened_by(items: Iterable[Settling]) -> Counter[TaskType]:
    """Return how many tasks of each type these results open, as far as that can be told before anything is read."""
    products = (item.outcome.product for item in items if isinstance(item.outcome, Succeeded))
    return Counter(_NEXT[type(product)] for product in products if type(product) in _NEXT)


async def hand_over(
    tx: Transaction,
    deployment: Deployment,
    handover: Handover,
    plan: Plan,
    memes: Mapping[MemeId, Meme],
    contexts: Mapping[MemeId, Context],
    now: datetime,
) -> list[Execution]:
    """Claim tasks of a plan that is not written yet, as far as there is room, and return them ready to run.

    The caller writes the plan, and then adds the attempts.
    """
    if not plan.tasks or await deployment.is_superseded(tx):
        return []
    chosen = _chosen(plan.tasks, handover.places, contexts)
    agents = sum(task.lane is Lane.AGENT for task in chosen)
    slots = list(await tx.slots.take(Lane.AGENT, agents)) if agents else []
    taken: dict[TaskId, Task] = {}
    holding: list[Slot] = []
    for task in chosen:
        if task.lane is Lane.AGENT and len(holding) == len(slots):
            continue
        taken[task.task_id] = tasks.claim(task, handover.owner, now, deployment.limits.lease)
        if task.lane is Lane.AGENT:
            holding.append(held(slots[len(holding)], taken[task.task_id]))
    if holding:
        await tx.slots.hold(holding)
    plan.tasks = [taken.get(task.task_id, task) for task in plan.tasks]
    reservations = {grant.grant_id: grant.reservation for grant in plan.grants}
    prepared = [
        prepare(deployment, _execution(task, memes, contexts, reservations), 1, now, handover.begun)
        for task in taken.values()
    ]
    return _committed(deployment.immediate, plan, prepared, now) if agents and deployment.immediate else prepared


def _chosen(opened: Sequence[Task], places: Mapping[TaskType, int], contexts: Mapping[MemeId, Context]) -> list[Task]:
    """Return the tasks there are places for; a text is embedded from the context that this transaction has read."""
    left = dict(places)
    chosen = []
    for task in opened:
        readable = task.task_type is not TaskType.TEXT or (task.target and task.target.meme_id in contexts)
        if readable and left.get(task.task_type, 0) > 0:
            left[task.task_type] -= 1
            chosen.append(task)
    return chosen


def _committed(policy: ImmediatePolicy, plan: Plan, prepared: list[Execution], now: datetime) -> list[Execution]:
    """Commit the grants of a plan's agent tasks as far as the policy consents at once; `start` asks for the others.

    No call is announced by that: `external_started` has a transaction of its own. Nothing outside of this one is told,
    so that there is nothing that a crash between the policy's word and ours could leave.
    """
    spent: set[GrantId] = set()
    after: list[Execution] = []
    for execution in prepared:
        grant_id = execution.task.grant_id
        if grant_id is not None and isinstance(commit_now(policy, *asked(execution)), Granted):
            spent.add(grant_id)
            after.append(evolve(execution, attempt=attempts.commit_grant(attempt_of(execution))))
        else:
            after.append(execution)
    plan.grants = [grants.commit(grant, now) if grant.grant_id in spent else grant for grant in plan.grants]
    plan.events.extend(GrantMoved(g.scope, g.task_id, g.status) for g in plan.grants if g.grant_id in spent)
    return after


def _execution(
    task: Task,
    memes: Mapping[MemeId, Meme],
    contexts: Mapping[MemeId, Context],
    reservations: Mapping[GrantId, str],
) -> Execution:
    assert task.target is not None, "stages have leaf tasks"
    reservation = reservations[task.grant_id] if task.grant_id else None
    meme_id = task.target.meme_id
    return Execution(task, meme=memes[meme_id], context=contexts.get(meme_id), reservation=reservation)
