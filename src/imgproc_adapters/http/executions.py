"""Executions of which nobody can prove how they ended, and how an operator closes them."""

from typing import Annotated, Final

from litestar import post, route
from litestar.params import Body, QueryParameter

from imgproc_adapters.http import convert_executions as convert
from imgproc_adapters.http import wire_executions as wire
from imgproc_adapters.http.bodies import StrictBody
from imgproc_adapters.http.documents import READ, ApiOperation, Cursor, Limit, TaskIdPath, answers, by_method, shown
from imgproc_adapters.http.examples import EXECUTION, EXECUTIONS, RESOLVE_REQUEST, RESOLVED
from imgproc_adapters.http.identifiers import PageOf, parse_task_id, read_cursor
from imgproc_adapters.http.provided import Served
from imgproc_adapters.http.scopes import Call
from imgproc_domain.ids import TaskId
from imgproc_domain.ports.evidence import parse_resolution
from imgproc_domain.usecases.unknown import list_unknown, resolve_unknown, show_unknown

ResolvedQuery = Annotated[bool | None, QueryParameter(description="Only those that were, or were not, resolved.")]
ResolveBody = Annotated[wire.ResolveRequest, Body(examples=shown(RESOLVE_REQUEST))]

_NOBODY_NAMED: Final = "api"


@route(
    "/executions/unknown",
    http_method=READ,
    operation_id=by_method("list_unknown_executions"),
    operation_class=ApiOperation,
    summary="List unknown executions",
    description=(
        "Executions whose call may have been made and whose outcome cannot be proven, newest task first. They are "
        "never repeated by themselves."
    ),
    tags=["executions"],
    responses=answers(
        {200: (wire.UnknownExecutionPage, EXECUTIONS, "A page of unknown executions, newest task first")},
        errors=("validation_error",),
    ),
)
async def list_executions(
    deployment: Served,
    request: Call,
    resolved: ResolvedQuery = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> wire.UnknownExecutionPage:
    found = read_cursor(PageOf.EXECUTIONS, cursor)
    after = TaskId(found) if found else None
    return convert.execution_page(await list_unknown(deployment, request.auth, after, limit, resolved=resolved))


@route(
    "/executions/unknown/{task_id:str}",
    http_method=READ,
    operation_id=by_method("get_unknown_execution"),
    operation_class=ApiOperation,
    summary="One unknown execution",
    description="With the ids by which its provider can be asked, its grant, and what came back too late.",
    tags=["executions"],
    responses=answers(
        {200: (wire.UnknownExecutionDetail, EXECUTION, "The execution and everything that is known of it")},
        errors=("task_not_found", "execution_not_unknown"),
    ),
)
async def get_execution(deployment: Served, request: Call, task_id: TaskIdPath) -> wire.UnknownExecutionDetail:
    return convert.execution_detail(await show_unknown(deployment, request.auth, parse_task_id(task_id)))


@post(
    "/executions/unknown/{task_id:str}/resolve",
    operation_id="resolve_unknown_execution",
    operation_class=ApiOperation,
    summary="Resolve an unknown execution",
    description=(
        "Records, once and for all, that an operator closed it, why, and how they know. Task, job and grant stay as "
        "they are; retry the job to try again. `owner_dead` vouches that the worker that made the call is gone, "
        "`call_over` that the provider does nothing for it any more: both together free its place in the agent lane "
        "at once, and both are needed until the call's hard deadline has passed."
    ),
    tags=["executions"],
    dto=StrictBody[wire.ResolveRequest],
    return_dto=None,
    status_code=200,
    responses=answers(
        {200: (wire.UnknownExecutionDetail, RESOLVED, "The execution with its resolution")},
        errors=(
            "unknown_field",
            "task_not_found",
            "execution_not_unknown",
            "execution_already_resolved",
            "call_may_be_running",
            "payload_too_large",
            "unsupported_media",
            "validation_error",
        ),
    ),
)
async def resolve_execution(
    deployment: Served, request: Call, task_id: TaskIdPath, data: ResolveBody
) -> wire.UnknownExecutionDetail:
    key = parse_task_id(task_id)
    resolution = parse_resolution(
        data.reason,
        data.evidence,
        owner_dead=data.owner_dead,
        call_over=data.call_over,
        resolved_by=_NOBODY_NAMED if data.resolved_by is None else data.resolved_by,
    )
    await resolve_unknown(deployment, request.auth, key, resolution)
    return convert.execution_detail(await show_unknown(deployment, request.auth, key))
