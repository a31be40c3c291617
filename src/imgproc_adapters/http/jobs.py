"""Jobs and the tasks they wait for."""

from typing import Annotated, Final

from litestar import post, route
from litestar.params import JSONBody, QueryParameter

from imgproc_adapters.http import convert, wire
from imgproc_adapters.http.bodies import StrictBody
from imgproc_adapters.http.documents import (
    READ,
    ApiOperation,
    Cursor,
    JobIdPath,
    Limit,
    OptionalBodyOperation,
    TaskIdPath,
    answers,
    by_method,
)
from imgproc_adapters.http.examples import JOB, JOBS, TASK, TASKS
from imgproc_adapters.http.identifiers import PageOf, parse_job_id, parse_task_id, read_cursor
from imgproc_adapters.http.provided import Served
from imgproc_adapters.http.scopes import Call
from imgproc_domain.ids import JobId, TaskId
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import Stage, TaskType, parse_policy
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases import views
from imgproc_domain.usecases.retry import retry_job

JobStatusQuery = Annotated[JobStatus | None, QueryParameter(description="Only jobs of this status.")]
StageQuery = Annotated[Stage | None, QueryParameter(description="Only jobs that are, or ended, at this stage.")]
TaskTypeQuery = Annotated[TaskType | None, QueryParameter(description="Only tasks of this type.")]
TaskStatusQuery = Annotated[TaskStatus | None, QueryParameter(description="Only tasks of this status.")]

_SAME_AGAIN: Final = wire.RetryRequest()
"""What an empty body asks for."""


@route(
    "/images/processing",
    http_method=READ,
    operation_id=by_method("list_jobs"),
    operation_class=ApiOperation,
    summary="List jobs",
    description="Newest first, of one status or at one current stage where given.",
    tags=["processing"],
    responses=answers({200: (wire.JobPage, JOBS, "A page of jobs, newest first")}, errors=("validation_error",)),
)
async def list_jobs(
    deployment: Served,
    request: Call,
    status: JobStatusQuery = None,
    stage: StageQuery = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> wire.JobPage:
    found = read_cursor(PageOf.JOBS, cursor)
    after = JobId(found) if found else None
    return convert.job_page(await views.list_jobs(deployment, request.auth, after, limit, status, stage))


@route(
    "/images/processing/{job_id:str}",
    http_method=READ,
    operation_id=by_method("get_job"),
    operation_class=ApiOperation,
    summary="One job with its stages",
    tags=["processing"],
    responses=answers(
        {200: (wire.JobBody, JOB, "The job, its stages and the last attempt of each")}, errors=("task_not_found",)
    ),
)
async def get_job(deployment: Served, request: Call, job_id: JobIdPath) -> wire.JobBody:
    return convert.job(await views.get_job(deployment, request.auth, parse_job_id(job_id)))


@post(
    "/images/processing/{job_id:str}/retry",
    operation_id="retry_job",
    operation_class=OptionalBodyOperation,
    summary="Retry a job",
    description=(
        "Opens the next revision of a job that ended as `failed`, `blocked` or `unknown_execution` and returns it. "
        "The old job stays as it is. Without a policy the new revision has the old one's."
    ),
    tags=["processing"],
    dto=StrictBody[wire.RetryRequest],
    return_dto=None,
    status_code=202,
    responses=answers(
        {202: (wire.JobBody, JOB, "The job of the new revision")},
        errors=(
            "invalid_reverse_image_policy",
            "unknown_field",
            "task_not_found",
            "meme_not_found",
            "job_not_retryable",
            "generation_policy_conflict",
            "payload_too_large",
            "unsupported_media",
            "validation_error",
        ),
    ),
)
async def retry(
    deployment: Served, request: Call, job_id: JobIdPath, data: JSONBody[wire.RetryRequest] = _SAME_AGAIN
) -> wire.JobBody:
    policy = parse_policy(data.reverse_image_policy) if data.reverse_image_policy else None
    revision = await retry_job(deployment, request.auth, parse_job_id(job_id), policy)
    return convert.job(await views.get_job(deployment, request.auth, revision.job_id))


@route(
    "/tasks",
    http_method=READ,
    operation_id=by_method("list_tasks"),
    operation_class=ApiOperation,
    summary="List tasks",
    description="Newest first, of one type or status where given.",
    tags=["tasks"],
    responses=answers({200: (wire.TaskPage, TASKS, "A page of tasks, newest first")}, errors=("validation_error",)),
)
async def list_tasks(
    deployment: Served,
    request: Call,
    type: TaskTypeQuery = None,  # noqa: A002 - the name of the query parameter
    status: TaskStatusQuery = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> wire.TaskPage:
    found = read_cursor(PageOf.TASKS, cursor)
    after = TaskId(found) if found else None
    return convert.task_page(await views.list_tasks(deployment, request.auth, after, limit, type, status))


@route(
    "/tasks/{task_id:str}",
    http_method=READ,
    operation_id=by_method("get_task"),
    operation_class=ApiOperation,
    summary="One task",
    tags=["tasks"],
    responses=answers({200: (wire.TaskBody, TASK, "The task and its last attempt")}, errors=("task_not_found",)),
)
async def get_task(deployment: Served, request: Call, task_id: TaskIdPath) -> wire.TaskBody:
    return convert.task(await views.get_task(deployment, request.auth, parse_task_id(task_id)))
