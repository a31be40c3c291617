"""Unknown executions from the domain's values to the wire."""

from attrs import asdict

from imgproc_adapters.http import wire_executions as wire
from imgproc_adapters.http.convert import diagnosis
from imgproc_adapters.http.identifiers import PageOf, write_cursor
from imgproc_domain.attempt import Attempt
from imgproc_domain.grant import Grant
from imgproc_domain.job import Job
from imgproc_domain.ports.evidence import LateResult, Resolved
from imgproc_domain.usecases.unknown import UnknownDetail, UnknownExecution, UnknownExecutionPage


def execution(found: UnknownExecution) -> wire.UnknownExecutionBody:
    target, attempt = found.target, found.attempt
    return wire.UnknownExecutionBody(
        task_id=found.task.task_id,
        task_type=found.task.task_type.value,
        job_id=target.job_id,
        meme_id=target.meme_id,
        filename=found.meme.filename if found.meme else None,
        attempt=attempt.attempt_no,
        started_at=attempt.external_started_at,
        hard_deadline_at=attempt.hard_deadline_at,
        may_be_running=found.running_until is not None,
        slots_held=len(found.slots),
        slots_free_at=max((slot.free_at for slot in found.slots if slot.free_at is not None), default=None),
        error=diagnosis(attempt.error),
        resolution=_resolution(found.resolved) if found.resolved else None,
    )


def execution_page(page: UnknownExecutionPage) -> wire.UnknownExecutionPage:
    return wire.UnknownExecutionPage(
        items=[execution(found) for found in page.executions],
        next_cursor=write_cursor(PageOf.EXECUTIONS, page.after),
    )


def execution_detail(found: UnknownDetail) -> wire.UnknownExecutionDetail:
    task = found.execution.task
    summary = asdict(execution(found.execution), recurse=False)
    return wire.UnknownExecutionDetail(
        **summary,
        task_error=diagnosis(task.error),
        task_created_at=task.created_at,
        task_completed_at=task.completed_at,
        attempts=[_attempt(attempt) for attempt in found.attempts],
        grant=_grant(found.grant) if found.grant else None,
        late_results=[_late_result(late) for late in found.late],
        newest_job=_newest(found.newest) if found.newest else None,
    )


def _attempt(found: Attempt) -> wire.AttemptBody:
    """Show the ids: every attempt of such a task is over, so that knowing one gives no right to anything here."""
    return wire.AttemptBody(
        attempt=found.attempt_no,
        attempt_id=found.attempt_id,
        request_id=found.request_id,
        session_id=found.session_id,
        generation=found.generation,
        status=found.status.value,
        created_at=found.created_at,
        started_at=found.external_started_at,
        hard_deadline_at=found.hard_deadline_at,
        completed_at=found.completed_at,
        error=diagnosis(found.error),
    )


def _grant(found: Grant) -> wire.GrantBody:
    return wire.GrantBody(
        status=found.status.value,
        operation=found.operation.value,
        logical_request_key=found.logical_request_key,
        reservation=found.reservation,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


def _late_result(found: LateResult) -> wire.LateResultBody:
    return wire.LateResultBody(
        attempt_id=found.attempt_id,
        generation=found.generation,
        fence=found.fence.value,
        outcome=found.outcome.value,
        error=diagnosis(found.error),
        noted_at=found.noted_at,
    )


def _newest(found: Job) -> wire.NewestJobBody:
    return wire.NewestJobBody(job_id=found.job_id, revision=found.revision, status=found.status.value)


def _resolution(found: Resolved) -> wire.ResolutionBody:
    said = found.resolution
    return wire.ResolutionBody(
        reason=said.reason,
        evidence=said.evidence,
        owner_dead=said.owner_dead,
        call_over=said.call_over,
        resolved_by=said.resolved_by,
        resolved_at=found.resolved_at,
    )
