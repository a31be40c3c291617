"""What an operator wants to know about a scope at one glance, and how it is written down."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from imgproc_adapters.postgres.lost_calls import slots_of_lost_calls
from imgproc_app.cli.jobs import failure_of, running_tasks
from imgproc_app.cli.output import one_line
from imgproc_app.lifecycle import Runtime
from imgproc_domain.ids import JobId
from imgproc_domain.job import RETRYABLE, Job, JobStatus
from imgproc_domain.scope import Scope
from imgproc_domain.stage import LANE_OF, TASK_TYPE_OF, Lane, TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.configuration import configuration_in_force
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.views import JobView, get_images, job_counts

_SHOWN: Final = 20
_PAGE: Final = 200
_COUNTED: Final = 100_000
_SCOPES: Final = 100


@frozen
class LaneState:
    """``waiting`` tasks are of all scopes, at most 100,000; ``running`` ones of this scope, at most 200.

    ``lost`` is when each slot that a lost call may still occupy is free again, soonest first.
    """

    lane: Lane
    waiting: int
    running: int
    limit: int
    lost: tuple[datetime, ...] = ()


@frozen
class Stuck:
    """The newest job of a picture, which did not succeed."""

    filename: str
    job: Job


@frozen
class Overview:
    """``unattended``: work waits that a worker would have taken by now.

    ``superseded``: other models or another agent than those of this command's settings are in force.
    """

    counts: Mapping[JobStatus, int]
    lanes: tuple[LaneState, ...]
    stuck: tuple[Stuck, ...]
    more_stuck: bool
    unattended: bool = False
    superseded: bool = False

    @property
    def empty(self) -> bool:
        return not any(self.counts.values())

    def document(self) -> Mapping[str, object]:
        return {
            "pictures": {status.value: self.counts.get(status, 0) for status in JobStatus},
            "lanes": {
                lane.lane.value: {
                    "waiting": lane.waiting,
                    "running": lane.running,
                    "limit": lane.limit,
                    "slots_of_lost_calls_free_at": lane.lost,
                }
                for lane in self.lanes
            },
            "not_succeeded": [_stuck_document(stuck) for stuck in self.stuck],
            "more_not_succeeded": self.more_stuck,
            "no_worker": self.unattended,
            "superseded": self.superseded,
        }

    def remarks(self) -> Sequence[str]:
        """Return why work does not go on, one sentence a reason."""
        found = [_lost_in_words(lane.lane, lane.lost) for lane in self.lanes if lane.lost]
        if self.superseded:
            found.append("other models or another agent are in force: workers with these settings wait for their end")
        if self.unattended:
            found.append("no worker is running: 'imgproc serve' or 'imgproc worker' processes what waits")
        return found

    def count_rows(self) -> Sequence[tuple[str, str]]:
        return [(status.value.replace("_", " "), str(self.counts.get(status, 0))) for status in JobStatus]

    def lane_rows(self) -> Sequence[tuple[str, str, str, str]]:
        return [
            (
                lane.lane.value,
                f"{lane.waiting}+" if lane.waiting >= _COUNTED else str(lane.waiting),
                str(lane.running),
                f"{lane.limit} over all processes" if lane.lane is Lane.AGENT else f"{lane.limit} a process",
            )
            for lane in self.lanes
        ]

    def stuck_rows(self) -> Sequence[tuple[str, ...]]:
        rows = []
        for stuck in self.stuck:
            stage, code, message = failure_of(stuck.job)
            what = f"{stage} ({stuck.job.status.value})"
            rows.append((stuck.filename, what, code, one_line(message, 120), _hint(stuck.job), str(stuck.job.job_id)))
        return rows


async def look(runtime: Runtime) -> Overview:
    counts = await job_counts(runtime.deployment, runtime.scope)
    lanes = [await _lane(runtime, kind) for kind in TASK_TYPE_OF.values()]
    stuck: list[Job] = []
    async for job in not_succeeded(runtime.deployment, runtime.scope):
        stuck.append(job)
        if len(stuck) > _SHOWN:
            break
    pictures = await get_images(runtime.deployment, runtime.scope, [job.meme_id for job in stuck])
    named = [Stuck(pictures[job.meme_id].meme.filename, job) for job in stuck if job.meme_id in pictures]
    unattended = await _unattended(runtime, lanes)
    in_force = await configuration_in_force(runtime.deployment, runtime.scope)
    superseded = in_force.fingerprint != runtime.deployment.config.fingerprint
    return Overview(counts, tuple(lanes), tuple(named[:_SHOWN]), len(named) > _SHOWN, unattended, superseded)


async def not_succeeded(deployment: Deployment, scope: Scope) -> AsyncIterator[Job]:
    """Yield the newest job of each picture whose newest job failed, is blocked or unknown; newest first a status."""
    for status in (JobStatus.FAILED, JobStatus.BLOCKED, JobStatus.UNKNOWN):
        after: JobId | None = None
        while True:
            async with deployment.uow.begin(scope) as tx:
                page = await tx.jobs.page(after, _PAGE, status)
                newest = await tx.jobs.newest({job.meme_id for job in page.jobs})
            for job in page.jobs:
                if newest[job.meme_id].job_id == job.job_id:
                    yield job
            if page.after is None:
                break
            after = page.after


def job_document(view: JobView) -> Mapping[str, object]:
    job = view.job
    return {
        "job_id": job.job_id,
        "meme_id": job.meme_id,
        "revision": job.revision,
        "status": job.status.value,
        "current_stage": job.current_stage.value if job.current_stage else None,
        "progress": job.progress,
        "reverse_image_policy": job.reverse_image_policy.value,
        "stages": [
            {
                "stage": state.stage.value,
                "status": state.status.value,
                "reused": state.reused,
                "task_id": state.task_id,
                "attempt": view.attempts[state.stage],
                "error": state.error.code.value if state.error else None,
                "message": state.error.message if state.error else None,
                "retry_at": state.retry_at,
            }
            for state in job.stages
        ],
        "retryable": job.status in RETRYABLE,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "completed_at": job.completed_at,
    }


def stage_rows(view: JobView) -> Sequence[tuple[str, ...]]:
    return [
        (
            state.stage.value,
            f"{state.status.value} (reused)" if state.reused else state.status.value,
            str(view.attempts[state.stage]),
            state.error.code.value if state.error else "",
            one_line(state.error.message) if state.error else "",
            str(state.task_id or ""),
        )
        for state in view.job.stages
    ]


async def _lane(runtime: Runtime, kind: TaskType) -> LaneState:
    lane = LANE_OF[kind]
    async with runtime.deployment.uow.begin(runtime.scope) as tx:
        running = await tx.tasks.page(None, _PAGE, kind, TaskStatus.RUNNING)
    waiting = await runtime.dispatch.queued(kind, _COUNTED)
    lost = await slots_of_lost_calls(runtime.engine, lane)
    return LaneState(lane, waiting, len(running.tasks), runtime.deployment.limits.lanes[lane], tuple(lost))


async def _unattended(runtime: Runtime, lanes: Sequence[LaneState]) -> bool:
    """Return whether tasks of this scope could be taken, or taken over, and nobody works on any."""
    if await running_tasks(runtime):
        return False
    full = {lane.lane for lane in lanes if len(lane.lost) >= lane.limit}
    for kind in TASK_TYPE_OF.values():
        if LANE_OF[kind] not in full and runtime.scope in await runtime.dispatch.ready_scopes(kind, None, _SCOPES):
            return True
    return runtime.scope in await runtime.dispatch.expired_scopes(list(TASK_TYPE_OF.values()), None, _SCOPES)


def _lost_in_words(lane: Lane, free_at: Sequence[datetime]) -> str:
    slots, wait, calls = ("slot", "waits", "a call") if len(free_at) == 1 else ("slots", "wait", "calls")
    until = f"{free_at[-1].astimezone():%H:%M:%S}"
    return f"{len(free_at)} {lane.value} {slots} {wait} until {until} for {calls} of a worker that was lost"


def _stuck_document(stuck: Stuck) -> Mapping[str, object]:
    stage, code, message = failure_of(stuck.job)
    return {
        "job_id": stuck.job.job_id,
        "meme_id": stuck.job.meme_id,
        "filename": stuck.filename,
        "status": stuck.job.status.value,
        "stage": stage,
        "error": code,
        "message": message,
        "retry_at": stuck.job.retry_at,
    }


def _hint(job: Job) -> str:
    if job.retry_at is not None:
        return f"not before {job.retry_at:%Y-%m-%d %H:%M}"
    return "imgproc unknown list" if job.status is JobStatus.UNKNOWN else "imgproc retry"
