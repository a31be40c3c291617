"""Unknown executions as they are printed: rows for people, documents for machines."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from rich.table import Table

from imgproc_app.cli.output import one_line, table_of
from imgproc_domain.attempt import Attempt
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.grant import Grant
from imgproc_domain.ports.evidence import LateResult, Resolved
from imgproc_domain.usecases.unknown import UnknownDetail, UnknownExecution

_MESSAGE: Final = 120


def executions_table(executions: Sequence[UnknownExecution]) -> Table:
    columns = ("task id", "file", "call", "resolved")
    return table_of("unknown executions", columns, [_row(found) for found in executions], whole=columns[:1])


def detail_tables(found: UnknownDetail) -> Sequence[Table]:
    """Return what `imgproc unknown show` prints, one table a subject that there is anything to say about."""
    columns = ("no.", "generation", "status", "started, ended", "attempt, request and session id")
    rows = [_attempt_row(attempt) for attempt in found.attempts]
    tables = [
        _headless(table_of("unknown execution", ("", ""), _facts(found))),
        table_of("attempts", columns, rows, right=columns[:2], whole=columns[-1:]),
    ]
    if found.late:
        late = ("generation", "came", "outcome", "refused because", "message")
        tables.append(table_of("came too late", late, [_late_row(row) for row in found.late]))
    if found.execution.resolved:
        said = _resolution_rows(found.execution.resolved)
        tables.append(_headless(table_of("resolution", ("", ""), said)))
    return tables


def execution_document(found: UnknownExecution) -> Mapping[str, object]:
    attempt = found.attempt
    return {
        "task_id": found.task.task_id,
        "task_type": found.task.task_type.value,
        "job_id": found.target.job_id,
        "meme_id": found.target.meme_id,
        "filename": found.meme.filename if found.meme else None,
        "attempt": attempt.attempt_no,
        "attempt_id": attempt.attempt_id,
        "started_at": attempt.external_started_at,
        "hard_deadline_at": attempt.hard_deadline_at,
        "may_be_running": found.running_until is not None,
        "slots_held": [
            {"lane": slot.lane.value, "number": slot.number, "free_at": slot.free_at} for slot in found.slots
        ],
        **_error(attempt.error),
        "resolution": resolution_document(found.resolved) if found.resolved else None,
    }


def detail_document(found: UnknownDetail) -> Mapping[str, object]:
    newest = found.newest
    return {
        **execution_document(found.execution),
        "attempts": [_attempt_document(attempt) for attempt in found.attempts],
        "grant": _grant_document(found.grant) if found.grant else None,
        "late_results": [_late_document(late) for late in found.late],
        "newest_job": {"job_id": newest.job_id, "revision": newest.revision, "status": newest.status.value}
        if newest
        else None,
    }


def resolution_document(resolved: Resolved) -> Mapping[str, object]:
    said = resolved.resolution
    return {
        "reason": said.reason,
        "evidence": said.evidence,
        "owner_dead": said.owner_dead,
        "call_over": said.call_over,
        "resolved_by": said.resolved_by,
        "resolved_at": resolved.resolved_at,
    }


def _row(found: UnknownExecution) -> tuple[str, ...]:
    said = found.resolved.resolution if found.resolved else None
    slots = f"\n{_slots(len(found.slots))} held" if found.slots else ""
    return (
        str(found.task.task_id),
        found.meme.filename if found.meme else "",
        f"started {_time(found.attempt.external_started_at)}\n{_call(found)}{slots}",
        one_line(f"{said.resolved_by}: {said.reason}", _MESSAGE) if said else "no",
    )


def _facts(found: UnknownDetail) -> Sequence[tuple[str, str]]:
    execution, newest, grant = found.execution, found.newest, found.grant
    free_at = [slot.free_at for slot in execution.slots if slot.free_at is not None]
    until = f" until {_time(max(free_at))}" if free_at else ""
    return [
        ("task", f"{execution.task.task_id} ({execution.task.task_type.value})"),
        ("file", execution.meme.filename if execution.meme else ""),
        ("picture", str(execution.target.meme_id)),
        ("job", str(execution.target.job_id)),
        ("newest job", f"revision {newest.revision}, {newest.status.value}: {newest.job_id}" if newest else ""),
        ("call", _call(execution)),
        ("what is known", _known(execution.attempt.error)),
        ("lane", f"{_slots(len(execution.slots))} held{until}" if execution.slots else "no slot held"),
        ("grant", f"{grant.status.value}, reservation {grant.reservation}" if grant else "none"),
        ("resolved", "yes" if execution.resolved else "no"),
    ]


def _attempt_row(attempt: Attempt) -> tuple[str, ...]:
    return (
        str(attempt.attempt_no),
        str(attempt.generation),
        attempt.status.value,
        f"{_time(attempt.external_started_at)}\n{_time(attempt.completed_at)}",
        f"{attempt.attempt_id}\n{attempt.request_id}\n{attempt.session_id}",
    )


def _late_row(late: LateResult) -> tuple[str, ...]:
    return (str(late.generation), _time(late.noted_at), late.outcome.value, late.fence.value, _known(late.error))


def _resolution_rows(resolved: Resolved) -> Sequence[tuple[str, str]]:
    said = resolved.resolution
    return [
        ("by", f"{one_line(said.resolved_by)}, {_time(resolved.resolved_at)}"),
        ("reason", one_line(said.reason, len(said.reason))),
        ("evidence", said.evidence),
        ("worker dead", "vouched for" if said.owner_dead else "not said"),
        ("call over", "vouched for" if said.call_over else "not said"),
    ]


def _attempt_document(attempt: Attempt) -> Mapping[str, object]:
    return {
        "attempt": attempt.attempt_no,
        "attempt_id": attempt.attempt_id,
        "request_id": attempt.request_id,
        "session_id": attempt.session_id,
        "generation": attempt.generation,
        "status": attempt.status.value,
        "created_at": attempt.created_at,
        "started_at": attempt.external_started_at,
        "hard_deadline_at": attempt.hard_deadline_at,
        "completed_at": attempt.completed_at,
        **_error(attempt.error),
    }


def _grant_document(grant: Grant) -> Mapping[str, object]:
    return {
        "status": grant.status.value,
        "operation": grant.operation.value,
        "logical_request_key": grant.logical_request_key,
        "reservation": grant.reservation,
        "created_at": grant.created_at,
        "updated_at": grant.updated_at,
    }


def _late_document(late: LateResult) -> Mapping[str, object]:
    return {
        "attempt_id": late.attempt_id,
        "generation": late.generation,
        "fence": late.fence.value,
        "outcome": late.outcome.value,
        "noted_at": late.noted_at,
        **_error(late.error),
    }


def _headless(table: Table) -> Table:
    table.show_header = False
    return table


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def _error(error: Diagnosis | None) -> Mapping[str, object]:
    return {"error": error.code.value if error else None, "message": error.message if error else None}


def _known(error: Diagnosis | None) -> str:
    return one_line(f"{error.code.value}: {error.message}", _MESSAGE) if error else ""


def _call(found: UnknownExecution) -> str:
    if found.running_until is not None:
        return f"may be running until {_time(found.running_until)}"
    vouched = found.resolved is not None and found.resolved.resolution.attested
    return "over: vouched for" if vouched else "over: past its hard deadline"


def _time(at: datetime | None) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else ""
