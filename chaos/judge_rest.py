"""Judges of what is left over when nothing happens any more: jobs, grants, reservations and slots."""

from collections.abc import Iterator

from chaos.evidence import Evidence, Kind, Offence
from imgproc_adapters.testing.invariants import violations
from imgproc_adapters.testing.view import View
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.stage import Lane, TaskType


def judge_rest(evidence: Evidence) -> Iterator[Offence]:
    known = {(job.scope, job.job_id) for view in evidence.views for job in view.jobs}
    for job_id, scope in evidence.promised.items():
        if (scope, job_id) not in known:
            yield Offence(Kind.LOST, f"job {job_id} of {scope} was promised and does not exist")
    for view in evidence.views:
        yield from _lost(view)
        yield from _leaked_grants(view)
        yield from (Offence(Kind.INVARIANT, sentence) for sentence in violations(view))
    yield from (Offence(Kind.LEAKED_GRANT, f"the policy was never told of release {key}") for key in evidence.pending)
    yield from _leaked_reservations(evidence)
    yield from _leaked_slots(evidence)


def _lost(view: View) -> Iterator[Offence]:
    newest: dict[object, Job] = {}
    for job in view.jobs:
        newest[job.meme_id] = max(job, newest.get(job.meme_id, job), key=lambda each: each.revision)
        if job.live:
            yield Offence(Kind.LOST, f"job {job.job_id} is {job.status} and nothing happens")
    yield from (Offence(Kind.LOST, f"task {t.task_id} is {t.status} and nothing happens") for t in view.tasks if t.live)
    found = {row.meme_id for row in view.findable}
    for meme in view.memes:
        last = newest.get(meme.meme_id)
        if last is None:
            yield Offence(Kind.LOST, f"meme {meme.meme_id} has no job")
        elif meme.exists and last.status is JobStatus.SUCCEEDED and meme.meme_id not in found:
            yield Offence(Kind.LOST, f"meme {meme.meme_id} was processed (job {last.job_id}) and is not found")
        elif meme.exists and last.image_sha256 != meme.picture.sha256:
            yield Offence(Kind.LOST, f"the present picture of meme {meme.meme_id} has no job")


def _leaked_grants(view: View) -> Iterator[Offence]:
    tasks = {task.task_id: task for task in view.tasks}
    for grant in view.grants:
        task = tasks.get(grant.task_id)
        if task is None or task.task_type is not TaskType.CONTEXT or task.grant_id != grant.grant_id:
            yield Offence(Kind.LEAKED_GRANT, f"grant {grant.grant_id} belongs to no task")
        elif grant.status is GrantStatus.ACQUIRED and not task.live:
            yield Offence(Kind.LEAKED_GRANT, f"grant {grant.grant_id} is acquired for ever: its task is {task.status}")


def _leaked_reservations(evidence: Evidence) -> Iterator[Offence]:
    """What the policy reserved is given back, or spent by a grant that says so."""
    grants = {(g.scope, g.logical_request_key): g for view in evidence.views for g in view.grants}
    for entry in evidence.reserved:
        if entry.returned:
            continue
        grant = grants.get((entry.scope, entry.key))
        if not entry.committed:
            yield Offence(Kind.LEAKED_GRANT, f"{entry.key} of {entry.scope} is reserved for ever")
        elif grant is None or grant.status is GrantStatus.RELEASED:
            state = grant.status if grant else "not there"
            yield Offence(Kind.LEAKED_GRANT, f"{entry.key} of {entry.scope} is spent, and its grant is {state}")


def _leaked_slots(evidence: Evidence) -> Iterator[Offence]:
    if not evidence.views:
        return
    view = evidence.views[0]
    slots = [slot for slot in view.slots if slot.lane is Lane.AGENT]
    if len(slots) != evidence.lane:
        yield Offence(Kind.LEAKED_SLOT, f"a lane of {evidence.lane} has {len(slots)} slots")
    for slot in slots:
        if slot.task_id is not None and slot.free_at is None:
            yield Offence(Kind.LEAKED_SLOT, f"slot {slot.number} is held for ever, by task {slot.task_id}")
        elif slot.free_at is not None and slot.free_at > view.now:
            yield Offence(Kind.LEAKED_SLOT, f"slot {slot.number} is held until {slot.free_at}, and nothing runs")
