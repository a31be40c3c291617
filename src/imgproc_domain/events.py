"""Facts to observe. They carry ids and codes only: never agent text, file names or secrets."""

from attrs import frozen

from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.ids import AttemptId, JobId, TaskId
from imgproc_domain.job import JobStatus
from imgproc_domain.migration import SearchMode
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Stage, TaskType


@frozen
class JobOpened:
    scope: Scope
    job_id: JobId
    revision: int


@frozen
class StageOpened:
    scope: Scope
    job_id: JobId
    stage: Stage
    task_id: TaskId


@frozen
class JobEnded:
    scope: Scope
    job_id: JobId
    status: JobStatus
    code: ErrorCode | None


@frozen
class TaskClaimed:
    scope: Scope
    task_id: TaskId
    task_type: TaskType
    generation: int


@frozen
class TaskSettled:
    scope: Scope
    task_id: TaskId
    task_type: TaskType
    status: str
    code: ErrorCode | None


@frozen
class LeaseExpired:
    scope: Scope
    task_id: TaskId
    task_type: TaskType
    losses: int


@frozen
class WriteBackFenced:
    """A write-back of a claim that is no longer current was rejected; ``attempt_id`` names the late evidence."""

    scope: Scope
    task_id: TaskId
    generation: int
    reason: Fence
    attempt_id: AttemptId | None


@frozen
class GrantMoved:
    scope: Scope
    task_id: TaskId
    step: str


@frozen
class ExecutionResolved:
    """A person closed an unknown execution; ``slots_freed`` lane slots no longer wait for its hard deadline."""

    scope: Scope
    task_id: TaskId
    attempt_id: AttemptId
    slots_freed: int


@frozen
class SearchMoved:
    """A scope's search made a step: its mode, or the space that serves or is filled, is another one."""

    scope: Scope
    mode: SearchMode
    epoch: int


@frozen
class VectorsFilled:
    """A backfill looked at a window of a scope: pictures found in the history, embedded, and passed over as failed."""

    scope: Scope
    adopted: int
    embedded: int
    failed: int


Event = (
    JobOpened
    | StageOpened
    | JobEnded
    | TaskClaimed
    | TaskSettled
    | LeaseExpired
    | WriteBackFenced
    | GrantMoved
    | ExecutionResolved
    | SearchMoved
    | VectorsFilled
)
