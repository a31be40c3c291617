"""What travels about unknown executions. As in `wire`, an optional field is null when there is nothing to say."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from attrs import frozen
from litestar.params import Parameter

from imgproc_adapters.http.wire import ErrorBody, StatusName, TaskTypeName

AttemptStatusName = Literal[
    "prepared", "grant_committed", "external_started", "completed", "failed", "unknown_execution"
]
GrantStatusName = Literal["acquired", "committed", "released", "unknown"]
FenceName = Literal["missing", "not_running", "generation", "owner", "expired", "attempt", "slot"]
OutcomeName = Literal["succeeded", "already_valid", "retry", "failed", "unknown", "given_back", "postponed", "blocked"]


@frozen(kw_only=True)
class ResolutionBody:
    """How a person closed an unknown execution. It is never changed."""

    reason: str
    evidence: str
    owner_dead: bool
    call_over: bool
    resolved_by: str
    resolved_at: datetime


@frozen(kw_only=True)
class UnknownExecutionBody:
    """An execution of which nobody can prove how it ended.

    ``may_be_running`` until ``hard_deadline_at``, unless its end was vouched for; ``slots_held`` places of the agent
    lane wait for it, until ``slots_free_at``. ``error`` is what was known when it was given up.
    """

    task_id: UUID
    task_type: TaskTypeName
    job_id: UUID
    meme_id: UUID
    filename: str | None = None
    attempt: int
    started_at: datetime | None = None
    hard_deadline_at: datetime | None = None
    may_be_running: bool
    slots_held: int
    slots_free_at: datetime | None = None
    error: ErrorBody | None = None
    resolution: ResolutionBody | None = None


@frozen(kw_only=True)
class UnknownExecutionPage:
    """Newest task first; ``next_cursor`` is null on the last page."""

    items: list[UnknownExecutionBody]
    next_cursor: str | None = None


@frozen(kw_only=True)
class AttemptBody:
    """One attempt of the task. By ``request_id`` and ``session_id`` the provider can be asked for it."""

    attempt: int
    attempt_id: str
    request_id: str
    session_id: str
    generation: int
    status: AttemptStatusName
    created_at: datetime
    started_at: datetime | None = None
    hard_deadline_at: datetime | None = None
    completed_at: datetime | None = None
    error: ErrorBody | None = None


@frozen(kw_only=True)
class GrantBody:
    """The policy's permission for the call; ``reservation`` is the policy's own name for it."""

    status: GrantStatusName
    operation: str
    logical_request_key: str
    reservation: str
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class LateResultBody:
    """What a worker wanted to write back after its claim was gone, and why it was refused; never what it had made."""

    attempt_id: str
    generation: int
    fence: FenceName
    outcome: OutcomeName
    error: ErrorBody | None = None
    noted_at: datetime


@frozen(kw_only=True)
class NewestJobBody:
    """The newest job of the picture: another one than the execution's if it was tried again since."""

    job_id: UUID
    revision: int
    status: StatusName


@frozen(kw_only=True)
class UnknownExecutionDetail(UnknownExecutionBody):
    """An unknown execution with everything that helps to find out what became of it."""

    task_error: ErrorBody | None = None
    task_created_at: datetime
    task_completed_at: datetime | None = None
    attempts: list[AttemptBody]
    grant: GrantBody | None = None
    late_results: list[LateResultBody]
    newest_job: NewestJobBody | None = None


@frozen(kw_only=True)
class ResolveRequest:
    """Why the execution is closed, and how it is known. ``resolved_by`` defaults to ``api``."""

    reason: Annotated[str, Parameter(min_length=1, max_length=500)]
    evidence: Annotated[str, Parameter(min_length=1, max_length=4000)]
    owner_dead: bool
    call_over: bool
    resolved_by: Annotated[str, Parameter(min_length=1, max_length=200)] | None = None
