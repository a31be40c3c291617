"""The tables, with the unique keys, checks and references of the SQL schema."""

from collections.abc import Hashable, Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from imgproc_adapters.memory.table import Reference, Table
from imgproc_domain import attempt, grant, job, task
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Lease
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.context import Context
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GenerationId, GrantId, JobId, MemeId, Sha256, TaskId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.migration import Generation, SearchState
from imgproc_domain.policy import Operation
from imgproc_domain.ports.evidence import EVIDENCE_LIMIT, NAME_LIMIT, REASON_LIMIT, LateResult, Resolved
from imgproc_domain.ports.execution import Release
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.stage import STAGES, Lane, TaskType
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.words import Words


@frozen
class LaneSize:
    """How many slots a lane shall have, numbered from 1; those behind are on their way out."""

    lane: Lane
    size: int


@frozen
class ConfigurationRow:
    """The only row of its table."""

    id: int
    config: ProcessingConfig
    announced_at: datetime
    alive_until: datetime


@frozen
class SearchStateRow:
    state: SearchState


@frozen
class Findable:
    """A vector that may be found now, with the words beside it; None where they are not known yet."""

    product: TextProduct
    words: Words | None = None

    @property
    def meme_id(self) -> MemeId:
        return self.product.meme_id

    @property
    def space_id(self) -> str:
        return self.product.space_id


def _lease_follows(old: Lease | None, new: Lease) -> None:
    assert (new.owner is None) == (new.expires_at is None), "a lease has an owner and an end, or neither"
    assert old is None or new.generation >= old.generation, "I3: the claim generation never falls"


def _ended_stays(old_status: str | None, new_status: str, live: Iterable[str]) -> None:
    ended = old_status is not None and old_status not in live
    assert not ended or old_status == new_status, f"I10: {old_status} is terminal and never becomes {new_status}"


def _check_job(old: Job | None, new: Job) -> None:
    _lease_follows(old.lease if old else None, new.lease)
    _ended_stays(old.status if old else None, new.status, job.LIVE)
    assert tuple(state.stage for state in new.stages) == STAGES, "a job has its three stages, in order"
    assert new.live == (new.completed_at is None), "a job has an end exactly once it is over"
    assert new.live or (new.due_at is None and new.lease.owner is None), "a job that is over is neither due nor held"
    running = (state for state in new.stages if state.status is JobStatus.RUNNING)
    assert all(state.task_id is not None for state in running), "a running stage has its task"
    assert new.revision >= 1, "revisions count from 1"


def _check_task(old: Task | None, new: Task) -> None:
    _lease_follows(old.lease if old else None, new.lease)
    _ended_stays(old.status if old else None, new.status, task.LIVE)
    running = new.status is TaskStatus.RUNNING
    assert running == (new.lease.owner is not None), "a task is held exactly while it runs"
    assert new.live == (new.completed_at is None), "a task has an end exactly once it is over"
    assert new.status is not TaskStatus.FAILED or new.error is not None, "a failed task has its diagnosis"
    assert (new.task_type is TaskType.CONTEXT) == (new.grant_id is not None), "I7: agent tasks alone have a grant"
    assert (new.target is None) == (new.stage is None), "leaf tasks have a target, maintenance tasks have none"


def _check_attempt(old: Attempt | None, new: Attempt) -> None:
    _ended_stays(old.status if old else None, new.status, attempt.LIVE)
    assert new.live == (new.completed_at is None), "an attempt has an end exactly once it is over"
    assert (new.external_started_at is None) == (new.hard_deadline_at is None), "a started call has a hard deadline"
    begun = new.status in (AttemptStatus.EXTERNAL_STARTED, AttemptStatus.COMPLETED, AttemptStatus.UNKNOWN)
    assert not begun or new.external_started_at is not None, "I7: external_started is kept before the call is made"
    assert new.attempt_no >= 1, "attempts count from 1"


def _check_grant(old: Grant | None, new: Grant) -> None:
    _ended_stays(old.status if old else None, new.status, grant.LIVE)


def _check_resolution(old: Resolved | None, new: Resolved) -> None:
    assert old is None or old == new, "a resolution is never changed"
    said = new.resolution
    assert 1 <= len(said.reason) <= REASON_LIMIT, "a resolution has its reason"
    assert len(said.evidence) <= EVIDENCE_LIMIT, "evidence is bounded"
    assert 1 <= len(said.resolved_by) <= NAME_LIMIT, "a resolution has its author"


def _check_slot(_old: Slot | None, new: Slot) -> None:
    holder = (new.scope, new.task_id, new.generation)
    assert all(part is None for part in holder) or None not in holder, "a slot has a whole holder or none"
    assert new.number >= 1, "slots count from 1"
    assert new.scope is not None or new.free_at is None, "only a held slot waits for a time"


def _active_target(row: Task) -> Hashable | None:
    if row.target is None or not row.live:
        return None
    t = row.target
    return (t.meme_id, t.image_sha256, row.task_type, t.config_fingerprint, t.reverse_image_policy)


def _of_job(row: Job) -> Iterable[Reference]:
    yield ("memes", row.meme_id)
    yield from (("tasks", state.task_id) for state in row.stages if state.task_id is not None)


def _of_task(row: Task) -> Iterable[Reference]:
    if row.target is not None:
        yield ("memes", row.target.meme_id)
        yield ("jobs", row.target.job_id)
    if row.grant_id is not None:
        yield ("grants", row.grant_id)


def _of_meme_child(row: Context | VisualProduct | TextProduct | Findable) -> Iterable[Reference]:
    yield ("memes", row.meme_id)


@frozen
class GenerationEntry:
    """One vector of a legacy generation."""

    generation_id: GenerationId
    product: TextProduct


MEMES: Final[Table[MemeId, Meme]] = Table(
    "memes",
    key=lambda row: row.meme_id,
    unique={"live content": lambda row: row.picture.sha256 if row.exists else None},
)
CONTEXTS: Final[Table[MemeId, Context]] = Table("contexts", key=lambda row: row.meme_id, references=_of_meme_child)
JOBS: Final[Table[JobId, Job]] = Table(
    "jobs",
    key=lambda row: row.job_id,
    unique={
        "revision": lambda row: (row.meme_id, row.revision),
        "active job": lambda row: row.meme_id if row.live else None,
    },
    check=_check_job,
    references=_of_job,
)
TASKS: Final[Table[TaskId, Task]] = Table(
    "tasks",
    key=lambda row: row.task_id,
    unique={"active target": _active_target},
    check=_check_task,
    references=_of_task,
)
ATTEMPTS: Final[Table[AttemptId, Attempt]] = Table(
    "attempts",
    key=lambda row: row.attempt_id,
    unique={"number": lambda row: (row.task_id, row.attempt_no)},
    check=_check_attempt,
    references=lambda row: [("tasks", row.task_id)],
)
GRANTS: Final[Table[GrantId, Grant]] = Table(
    "grants",
    key=lambda row: row.grant_id,
    unique={"logical request": lambda row: (row.operation, row.logical_request_key)},
    check=_check_grant,
    references=lambda row: [("tasks", row.task_id), ("jobs", row.job_id)],
)
RELEASES: Final[Table[tuple[Operation, str], Release]] = Table(
    "releases", key=lambda row: (row.operation, row.logical_request_key)
)
LATE_RESULTS: Final[Table[tuple[TaskId, AttemptId, int], LateResult]] = Table(
    "late results",
    key=lambda row: (row.task_id, row.attempt_id, row.generation),
    references=lambda row: [("tasks", row.task_id)],
)
RESOLUTIONS: Final[Table[tuple[TaskId, AttemptId], Resolved]] = Table(
    "resolutions",
    key=lambda row: (row.task_id, row.attempt_id),
    check=_check_resolution,
    references=lambda row: [("tasks", row.task_id)],
)
SLOTS: Final[Table[tuple[Lane, int], Slot]] = Table(
    "slots", key=lambda row: (row.lane, row.number), check=_check_slot, shared=True
)
CONFIGURATION: Final[Table[int, ConfigurationRow]] = Table("configuration", key=lambda row: row.id, shared=True)
LANES: Final[Table[Lane, LaneSize]] = Table("lanes", key=lambda row: row.lane, shared=True)
VISUAL: Final[Table[tuple[MemeId, Sha256, str], VisualProduct]] = Table(
    "visual embeddings",
    key=lambda row: (row.meme_id, row.image_sha256, row.space_id),
    references=_of_meme_child,
)
TEXT: Final[Table[tuple[MemeId, Sha256, Sha256, str], TextProduct]] = Table(
    "text embeddings",
    key=lambda row: (row.meme_id, row.image_sha256, row.metadata_hash, row.space_id),
    references=_of_meme_child,
)
FINDABLE: Final[Table[tuple[str, UUID], Findable]] = Table(
    "search vectors", key=lambda row: (row.space_id, row.meme_id), references=_of_meme_child
)
THE_STATE: Final = "state"
"""The key of a scope's only search state."""

SEARCH_STATE: Final[Table[str, SearchStateRow]] = Table("search state", key=lambda _row: THE_STATE)
GENERATIONS: Final[Table[GenerationId, Generation]] = Table(
    "generations",
    key=lambda row: row.generation_id,
    references=lambda row: [("tasks", row.task_id)],
)
ENTRIES: Final[Table[tuple[GenerationId, MemeId], GenerationEntry]] = Table(
    "generation entries",
    key=lambda row: (row.generation_id, row.product.meme_id),
    references=lambda row: [("generations", row.generation_id)],
)
