"""From the domain's values to the wire: one function a class, and nothing that the domain keeps to itself."""

from typing import Any, Final, assert_never
from uuid import UUID

from attrs import asdict, frozen
from litestar import Request

from imgproc_adapters.http import wire
from imgproc_adapters.http.errors import problem_of
from imgproc_adapters.http.identifiers import PageOf, write_cursor
from imgproc_domain.context import Context, ContextStatus, Reference
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.errors import ImgprocError
from imgproc_domain.job import Job, JobStatus, StageState
from imgproc_domain.meme import parse_filename
from imgproc_domain.policy import Denied, Operation
from imgproc_domain.search import Answer, Coverage, Hit
from imgproc_domain.stage import Stage
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.ingest import Uploaded
from imgproc_domain.usecases.migrate_search import SearchReading
from imgproc_domain.usecases.submit import Submitted
from imgproc_domain.usecases.views import ImagePage, ImageView, JobView, JobViewPage, TaskView, TaskViewPage
from imgproc_domain.words import Field

MEDIA_ROUTE: Final = "imgproc.media"


@frozen
class Links:
    """Where pictures are served, wherever a host has mounted the router."""

    media: str

    @classmethod
    def of(cls, request: Request[Any, Any, Any]) -> "Links":
        path = request.app.route_reverse(MEDIA_ROUTE, meme_id="-").removesuffix("/-")
        return cls(request.scope.get("root_path", "").rstrip("/") + path)

    def original(self, meme_id: UUID) -> str:
        return f"{self.media}/{meme_id}"

    def thumbnail(self, meme_id: UUID) -> str:
        return f"{self.media}/{meme_id}/thumbnail"


def error_of(error: ImgprocError) -> wire.ErrorBody:
    """Return an error as part of an answer that is not itself one."""
    problem = problem_of(error)
    if problem is None:
        raise error
    return wire.ErrorBody(problem.code, problem.message, dict(problem.details) or None)


def diagnosis(found: Diagnosis | None) -> wire.ErrorBody | None:
    return wire.ErrorBody(found.code.value, found.message) if found else None


def job_summary(job: Job) -> wire.JobSummary:
    return wire.JobSummary(job_id=job.job_id, status=job.status.value, error=diagnosis(job.error))


def uploaded(result: Uploaded) -> wire.UploadItem:
    return wire.UploadItem(
        filename=result.meme.filename,
        status=result.status.value,
        meme_id=result.meme.meme_id,
        job=job_summary(result.job) if result.job else None,
        error=error_of(result.conflict) if result.conflict else None,
    )


def rejected(filename: str | None, error: ImgprocError) -> wire.UploadItem:
    return wire.UploadItem(filename=parse_filename(filename), status="rejected", error=error_of(error))


def image(view: ImageView, links: Links) -> wire.ImageSummary:
    meme, context = view.meme, view.products.context
    return wire.ImageSummary(
        meme_id=meme.meme_id,
        filename=meme.filename,
        title=_title(context),
        media_url=links.original(meme.meme_id),
        thumbnail_url=links.thumbnail(meme.meme_id),
        media_type=meme.picture.media_type,
        byte_size=meme.picture.byte_size,
        width=meme.picture.width,
        height=meme.picture.height,
        frames=meme.picture.frames,
        image_sha256=meme.picture.sha256.hex,
        context_status=context.status.value if context else ContextStatus.PENDING.value,
        products=wire.ProductValidity(
            visual=view.validity[Stage.VISUAL].value,
            agent=view.validity[Stage.AGENT].value,
            text_embedding=view.validity[Stage.TEXT].value,
        ),
        not_searchable=view.not_searchable.value if view.not_searchable else None,
        job=job_summary(view.job) if view.job else None,
        created_at=meme.created_at,
        updated_at=meme.updated_at,
    )


def image_page(page: ImagePage, links: Links) -> wire.ImagePage:
    return wire.ImagePage(
        items=[image(view, links) for view in page.images], next_cursor=write_cursor(PageOf.IMAGES, page.after)
    )


def image_detail(view: ImageView, links: Links) -> wire.ImageDetail:
    found = view.products.context
    summary = asdict(image(view, links), recurse=False)
    return wire.ImageDetail(**summary, context=context(found) if found else None)


def context(found: Context) -> wire.ContextBody:
    described = found.description
    return wire.ContextBody(
        context_status=found.status.value,
        context_revision=found.revision,
        title=described.title,
        summary=described.summary,
        subjects=list(described.subjects),
        visible_text=described.visible_text,
        references=[_reference(item) for item in described.references],
        meaning=described.meaning,
        keywords=list(described.keywords),
        search_queries=list(described.search_queries),
        uncertainties=list(described.uncertainties),
        source_urls=list(described.source_urls),
        provenance=_provenance(found),
        updated_at=found.updated_at,
    )


def _reference(item: Reference) -> wire.ReferenceItem:
    return wire.ReferenceItem(name=item.name, confirmed=item.confirmed, url=item.url)


def _provenance(found: Context) -> wire.ProvenanceBody | None:
    """Leave the attempt out: whoever knows its id could claim its result."""
    made = found.provenance
    if made is None:
        return None
    return wire.ProvenanceBody(
        origin=made.origin.value,
        image_sha256=made.image_sha256.hex,
        schema_version=made.schema_version,
        agent_fingerprint=made.agent_fingerprint,
        reverse_image_policy=made.reverse_image_policy.value if made.reverse_image_policy else None,
    )


def _title(found: Context | None) -> str | None:
    return (found.description.title or None) if found else None


def processing(answer: Submitted) -> wire.ProcessingResult:
    return wire.ProcessingResult("created" if answer.created else "reused", job_summary(answer.job))


def job(view: JobView) -> wire.JobBody:
    found = view.job
    return wire.JobBody(
        job_id=found.job_id,
        meme_id=found.meme_id,
        revision=found.revision,
        image_sha256=found.image_sha256.hex,
        reverse_image_policy=found.reverse_image_policy.value,
        status=found.status.value,
        current_stage=found.current_stage.value if found.current_stage else None,
        progress=found.progress,
        message=_job_message(found),
        stages=[_stage(state, view.attempts[state.stage]) for state in found.stages],
        error=diagnosis(found.error),
        retry_at=found.retry_at,
        created_at=found.created_at,
        updated_at=found.updated_at,
        completed_at=found.completed_at,
    )


def _stage(state: StageState, attempt: int) -> wire.StageBody:
    blocked = state.status is JobStatus.BLOCKED
    return wire.StageBody(
        stage=state.stage.value,
        status=state.status.value,
        reused=state.reused,
        task_id=state.task_id,
        attempt=attempt,
        error=diagnosis(state.error),
        reason=state.error.code.value if blocked and state.error else None,
        retry_at=state.retry_at,
    )


def _job_message(found: Job) -> str:
    if found.error:
        return found.error.message
    match found.status:
        case JobStatus.QUEUED:
            return "waiting to be processed"
        case JobStatus.RUNNING:
            return f"at the {found.current_stage} stage" if found.current_stage else "finishing"
        case JobStatus.SUCCEEDED:
            return "all stages succeeded"
        case JobStatus.FAILED | JobStatus.BLOCKED | JobStatus.UNKNOWN:
            return f"ended as {found.status}"
        case _:
            assert_never(found.status)


def job_page(page: JobViewPage) -> wire.JobPage:
    return wire.JobPage(items=[job(view) for view in page.jobs], next_cursor=write_cursor(PageOf.JOBS, page.after))


def task(view: TaskView) -> wire.TaskBody:
    found = view.task
    return wire.TaskBody(
        task_id=found.task_id,
        task_type=found.task_type.value,
        status=found.status.value,
        progress=1.0 if found.status is TaskStatus.SUCCEEDED else None,
        message=task_message(found),
        stage=found.stage.value if found.stage else None,
        job_id=found.target.job_id if found.target else None,
        attempt=view.attempt.attempt_no if view.attempt else 0,
        created_at=found.created_at,
        started_at=found.started_at,
        completed_at=found.completed_at,
        error=diagnosis(found.error),
    )


def task_message(found: Task) -> str:
    if found.error:
        return found.error.message
    match found.status:
        case TaskStatus.QUEUED:
            return "waiting for a worker"
        case TaskStatus.RUNNING:
            return "running"
        case TaskStatus.SUCCEEDED:
            return "succeeded"
        case TaskStatus.FAILED:
            return "failed"
        case _:
            assert_never(found.status)


def task_page(page: TaskViewPage) -> wire.TaskPage:
    return wire.TaskPage(items=[task(view) for view in page.tasks], next_cursor=write_cursor(PageOf.TASKS, page.after))


def search_result(hit: Hit, view: ImageView, links: Links) -> wire.SearchResult:
    return wire.SearchResult(
        meme_id=hit.meme_id,
        media_url=links.original(hit.meme_id),
        thumbnail_url=links.thumbnail(hit.meme_id),
        filename=view.meme.filename,
        title=_title(view.products.context),
        score=hit.score,
        matched=[name.value if isinstance(name, Field) else name for name in hit.matched],
    )


def search_answer(answer: Answer, results: list[wire.SearchResult]) -> wire.SearchAnswer:
    return wire.SearchAnswer(
        source=answer.source.value,
        epoch=answer.epoch,
        mode=answer.ranking.value,
        results=results,
        coverage=coverage(answer.coverage),
        next_offset=answer.next_offset,
    )


def coverage(found: Coverage) -> wire.CoverageBody:
    return wire.CoverageBody(found.searchable, found.total)


def search_status(found: SearchReading) -> wire.SearchStatusBody:
    state = found.state
    return wire.SearchStatusBody(
        mode=state.mode.value,
        epoch=state.epoch,
        model=found.read.id,
        filling=state.filling.id if state.filling else None,
        coverage=coverage(found.coverage),
    )


def availability(operation: Operation, denied: Denied | None) -> wire.Availability:
    if denied is None:
        return wire.Availability(operation=operation.value, available=True)
    return wire.Availability(
        operation=operation.value,
        available=False,
        reason=denied.reason.value,
        message=denied.message,
        retry_at=denied.retry_at,
    )
