"""The invariants of the domain, checked on what is stored.

`violations` looks at one moment, `regressions` at two moments one after the other. Both return sentences that begin
with the invariant's number; none means that everything holds.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from imgproc_adapters.testing.view import View
from imgproc_domain import attempt, grant, job, task
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.context import USABLE, Context
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.stage import Lane, TaskType
from imgproc_domain.task import Task

T = TypeVar("T")
Rows = Sequence[T]

_LIVE: Final[Collection[StrEnum]] = [*job.LIVE, *task.LIVE, *grant.LIVE, *attempt.LIVE]
_SPENT = (GrantStatus.COMMITTED, GrantStatus.UNKNOWN)
_OVER = (AttemptStatus.COMPLETED, AttemptStatus.FAILED)


def check_invariants(view: View, before: View | None = None) -> None:
    """Raise `AssertionError` with every invariant that does not hold, now or since ``before``."""
    broken = [*violations(view), *(regressions(before, view) if before else ())]
    assert not broken, "\n".join(broken)


def violations(view: View) -> list[str]:
    """Return the invariants that one moment breaks: I1, I2, I5-I8, I10, I11, I14, I18 as far as rows can show them."""
    checks = (_references, _active_once, _attempts, _grants, _ended, _stages, _findable, _slots)
    return [sentence for check in checks for sentence in check(view)]


def regressions(before: View, after: View) -> list[str]:
    """Return what must not have happened between two moments: I3, I9 and I10."""
    return [*_generations(before, after), *_revivals(before, after), *_replays(before, after)]


def _repeated(values: Iterable[Hashable]) -> list[Hashable]:
    return [value for value, count in Counter(values).items() if count > 1]


def _references(view: View) -> Iterator[str]:
    memes = {row.meme_id for row in view.memes}
    jobs = {row.job_id for row in view.jobs}
    tasks = {row.task_id for row in view.tasks}
    scoped: Rows[Meme | Context | Job | Task | Attempt | Grant]
    scoped = (*view.memes, *view.contexts, *view.jobs, *view.tasks, *view.attempts, *view.grants)
    yield from (f"I1: a row of {row.scope} is in {view.scope}" for row in scoped if row.scope != view.scope)
    of_memes: Rows[Context | Job | VisualProduct | TextProduct]
    of_memes = (*view.contexts, *view.jobs, *view.visual, *view.text, *view.findable)
    yield from (f"I1: meme {row.meme_id} is not in its scope" for row in of_memes if row.meme_id not in memes)
    targets = (row.target for row in view.tasks if row.target)
    yield from (f"I1: job {target.job_id} is not in its scope" for target in targets if target.job_id not in jobs)
    of_tasks: Rows[Attempt | Grant] = (*view.attempts, *view.grants)
    yield from (f"I1: task {row.task_id} is not in its scope" for row in of_tasks if row.task_id not in tasks)


def _active_once(view: View) -> Iterator[str]:
    for meme_id in _repeated(row.meme_id for row in view.jobs if row.live):
        yield f"I2: meme {meme_id} has two active jobs"
    leaves = (row for row in view.tasks if row.live and row.target)
    for key in _repeated((row.target.meme_id, row.target.image_sha256, row.task_type) for row in leaves if row.target):
        yield f"I2: two active tasks do the same: {key}"


def _attempts_by_task(view: View) -> dict[Task, list[Attempt]]:
    by_id = {row.task_id: row for row in view.tasks}
    grouped: dict[Task, list[Attempt]] = {}
    for row in sorted(view.attempts, key=lambda row: row.attempt_no):
        if row.task_id in by_id:
            grouped.setdefault(by_id[row.task_id], []).append(row)
    return grouped


def _attempts(view: View) -> Iterator[str]:
    for row, made in _attempts_by_task(view).items():
        if [a.attempt_no for a in made] != list(range(1, len(made) + 1)):
            yield f"I6: the attempts of task {row.task_id} are not counted from 1"
        if any(a.status not in _OVER for a in made[:-1]):
            yield f"I6: task {row.task_id} has an attempt behind one whose outcome is not known"
        if not row.live and made[-1].live:
            yield f"I6: task {row.task_id} is over, its attempt is not"


def _grants(view: View) -> Iterator[str]:
    by_id = {row.grant_id: row for row in view.grants}
    called = {row.task_id for row in view.attempts if row.external_started_at is not None}
    for row in (row for row in view.tasks if row.task_type is TaskType.CONTEXT):
        held = by_id.get(row.grant_id) if row.grant_id else None
        if held is None or held.task_id != row.task_id:
            yield f"I7: agent task {row.task_id} has no grant of its own"
        elif row.task_id in called and held.status not in _SPENT:
            yield f"I7: task {row.task_id} made a call under a grant that is {held.status}"
    for grant_row in view.grants:
        if grant_row.status is GrantStatus.RELEASED and grant_row.task_id in called:
            yield f"I8: the grant of task {grant_row.task_id} was released after a call"
    for key in _repeated((row.operation, row.logical_request_key) for row in view.grants):
        yield f"I8: {key} was granted twice"


def _claimable(view: View) -> Rows[Job | Task]:
    return (*view.jobs, *view.tasks)


def _ended(view: View) -> Iterator[str]:
    for row in _claimable(view):
        if row.live != (row.completed_at is None):
            yield f"I10: {_name(row)} has an end, or none, against its status {row.status}"
        if not row.live and row.lease.owner is not None:
            yield f"I10: {_name(row)} is over and still held"


def _stages(view: View) -> Iterator[str]:
    live = {row.task_id for row in view.tasks if row.live}
    for row in view.jobs:
        statuses = [state.status for state in row.stages]
        done = next((i for i, status in enumerate(statuses) if status is not JobStatus.SUCCEEDED), len(statuses))
        if any(status is not JobStatus.QUEUED for status in statuses[done + 1 :]):
            yield f"I11: the stages of job {row.job_id} are out of order"
        if row.status is JobStatus.SUCCEEDED and done < len(statuses):
            yield f"I11: job {row.job_id} succeeded without all its stages"
        for state in row.stages:
            if state.status is JobStatus.RUNNING and state.task_id not in live:
                yield f"I11: the {state.stage} stage of job {row.job_id} runs without a live task"


def _findable(view: View) -> Iterator[str]:
    eligible = {
        (meme.meme_id, meme.picture.sha256, context.metadata_hash)
        for meme in view.memes
        for context in view.contexts
        if context.meme_id == meme.meme_id and meme.exists and context.status in USABLE
    }
    found = {(row.space_id, row.meme_id, row.image_sha256, row.metadata_hash) for row in view.findable}
    for row in view.findable:
        if (row.meme_id, row.image_sha256, row.metadata_hash) not in eligible:
            yield f"I14: meme {row.meme_id} is found by a vector that is not current"
    for row in view.text:
        made_of = (row.meme_id, row.image_sha256, row.metadata_hash)
        if made_of in eligible and (row.space_id, *made_of) not in found:
            yield f"I14: meme {row.meme_id} has a current vector and is not found"


def _slots(view: View) -> Iterator[str]:
    holders = [(row.lane, row.scope, row.task_id, row.generation) for row in view.slots if row.task_id is not None]
    yield from (f"I18: {holder} holds two slots" for holder in _repeated(holders))
    taken = {(row.lane, row.task_id) for row in view.slots if not _is_past(row.free_at, view)}
    agent_tasks = {row.task_id for row in view.tasks if row.task_type is TaskType.CONTEXT}
    for row in view.attempts:
        undecided = row.status in (AttemptStatus.EXTERNAL_STARTED, AttemptStatus.UNKNOWN)
        in_flight = undecided and not _is_past(row.hard_deadline_at, view) and row.attempt_id not in view.attested
        if row.task_id in agent_tasks and in_flight and (Lane.AGENT, row.task_id) not in taken:
            yield f"I18: the call of task {row.task_id} may be running without a slot"


def _is_past(time: datetime | None, view: View) -> bool:
    return time is not None and time <= view.now


def _name(row: Job | Task) -> str:
    return f"job {row.job_id}" if isinstance(row, Job) else f"task {row.task_id}"


def _generations(before: View, after: View) -> Iterator[str]:
    old = {_name(row): row.lease.generation for row in _claimable(before)}
    for row in _claimable(after):
        if row.lease.generation < old.get(_name(row), 0):
            yield f"I3: the generation of {_name(row)} fell"


def _statuses(view: View) -> dict[str, StrEnum]:
    """The status of every row that must stay as it is once it is over."""
    return {
        **{_name(row): row.status for row in _claimable(view)},
        **{f"grant {row.grant_id}": row.status for row in view.grants},
        **{f"attempt {row.attempt_no} of task {row.task_id}": row.status for row in view.attempts},
    }


def _revivals(before: View, after: View) -> Iterator[str]:
    new = _statuses(after)
    for name, status in _statuses(before).items():
        if status not in _LIVE and new.get(name) is not status:
            yield f"I10: {name} was {status} and is {new.get(name)}"


def _replays(before: View, after: View) -> Iterator[str]:
    unknown = {row.task_id for row in before.attempts if row.status is AttemptStatus.UNKNOWN}
    known = {row.attempt_id for row in before.attempts}
    for row in after.attempts:
        if row.task_id in unknown and row.attempt_id not in known:
            yield f"I9: task {row.task_id} was tried again after an unknown outcome"
