"""What travels: the classes of every JSON body. An optional field is null when there is nothing to say."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from attrs import frozen
from litestar.params import Parameter

from imgproc_adapters.http.bodies import PolicyName
from imgproc_adapters.http.wire_similar import NearDuplicate

StatusName = Literal["queued", "running", "succeeded", "failed", "blocked", "unknown_execution"]
TaskStatusName = Literal["queued", "running", "succeeded", "failed"]
TaskTypeName = Literal[
    "visual_embedding_generation", "meme_context_generation", "text_embedding_generation", "cache_generation"
]
StageName = Literal["visual", "agent", "text_embedding"]
ValidityName = Literal["valid", "stale", "missing"]
ContextStatusName = Literal["pending", "partial", "ready", "repair_required"]
SearchModeName = Literal["legacy_only", "backfill", "incremental_only"]
SearchRanking = Literal["semantic", "hybrid"]
Matched = Literal["meaning", "title", "visible_text", "keywords", "file_name"]
OperationName = Literal["analysis.agent", "analysis.reverse_image_search", "image.upload", "image.delete"]


@frozen
class ErrorBody:
    """Every error: a stable identifier, a sentence for a person and, for some, plain details."""

    error: str
    message: str
    details: dict[str, object] | None = None


@frozen(kw_only=True)
class JobSummary:
    """The job that stands for a picture; ``error`` is its diagnosis if it ended without success."""

    job_id: UUID
    status: StatusName
    error: ErrorBody | None = None


@frozen(kw_only=True)
class UploadItem:
    """What became of one file. ``error`` says why a file was rejected, or why a kept one got no job of its own.

    ``near_duplicates`` are pictures that were there before and look the same; null if nobody knows.
    """

    filename: str
    status: Literal["created", "duplicate", "rejected"]
    meme_id: UUID | None = None
    job: JobSummary | None = None
    near_duplicates: list[NearDuplicate] | None = None
    error: ErrorBody | None = None


@frozen
class UploadResult:
    """One item a file, in the order of the form."""

    items: list[UploadItem]


@frozen
class ProductValidity:
    """Whether what each stage made still fits the picture, its context and the configuration."""

    visual: ValidityName
    agent: ValidityName
    text_embedding: ValidityName


@frozen(kw_only=True)
class ImageSummary:
    """A picture as lists show it. ``not_searchable`` says why searches cannot find it; null if they can."""

    meme_id: UUID
    filename: str
    title: str | None = None
    media_url: str
    thumbnail_url: str
    media_type: str
    byte_size: int
    width: int
    height: int
    frames: int
    image_sha256: str
    context_status: ContextStatusName
    products: ProductValidity
    not_searchable: str | None = None
    job: JobSummary | None = None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class ImagePage:
    """Newest first; ``next_cursor`` is null on the last page."""

    items: list[ImageSummary]
    next_cursor: str | None = None


@frozen(kw_only=True)
class ReferenceItem:
    name: str
    confirmed: bool
    url: str | None = None


@frozen(kw_only=True)
class ProvenanceBody:
    """Who described the picture, and which version of it."""

    origin: Literal["agent", "person"]
    image_sha256: str
    schema_version: str
    agent_fingerprint: str | None = None
    reverse_image_policy: PolicyName | None = None


@frozen(kw_only=True)
class ContextBody:
    """The structured description; ``context_revision`` rises with every change."""

    context_status: ContextStatusName
    context_revision: int
    title: str
    summary: str
    subjects: list[str]
    visible_text: str
    references: list[ReferenceItem]
    meaning: str | None = None
    keywords: list[str]
    search_queries: list[str]
    uncertainties: list[str]
    source_urls: list[str]
    provenance: ProvenanceBody | None = None
    updated_at: datetime


@frozen(kw_only=True)
class ImageDetail(ImageSummary):
    """A picture as lists show it, and its context, null while there is none."""

    context: ContextBody | None = None


@frozen
class ProcessingRequest:
    """Ask for one picture to be processed again."""

    reverse_image_policy: PolicyName = "forbid"


@frozen
class RetryRequest:
    """Retry under another policy, or under the job's own if none is given."""

    reverse_image_policy: PolicyName | None = None


@frozen
class ProcessingResult:
    """The job that now stands for the request: a new one, or one that is active or whose products are all valid."""

    outcome: Literal["created", "reused"]
    job: JobSummary


@frozen(kw_only=True)
class StageBody:
    """One of the three stages. ``reused``: its product was already valid, no task was needed."""

    stage: StageName
    status: StatusName
    reused: bool
    task_id: UUID | None = None
    attempt: int
    error: ErrorBody | None = None
    reason: str | None = None
    retry_at: datetime | None = None


@frozen(kw_only=True)
class JobBody:
    """One revision of processing one picture. ``progress`` is the share of finished stages, from 0 to 1."""

    job_id: UUID
    meme_id: UUID
    revision: int
    image_sha256: str
    reverse_image_policy: PolicyName
    status: StatusName
    current_stage: StageName | None = None
    progress: float
    message: str
    stages: list[StageBody]
    error: ErrorBody | None = None
    retry_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None


@frozen(kw_only=True)
class JobPage:
    """Newest first; ``next_cursor`` is null on the last page."""

    items: list[JobBody]
    next_cursor: str | None = None


@frozen(kw_only=True)
class TaskBody:
    """One leaf task. ``progress`` is null where nobody can tell."""

    task_id: UUID
    task_type: TaskTypeName
    status: TaskStatusName
    progress: float | None = None
    message: str
    stage: StageName | None = None
    job_id: UUID | None = None
    attempt: int
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: ErrorBody | None = None


@frozen(kw_only=True)
class TaskPage:
    """Newest first; ``next_cursor`` is null on the last page."""

    items: list[TaskBody]
    next_cursor: str | None = None


@frozen
class SearchRequest:
    """``query`` is up to 1,000 characters, ``n_results`` 1 to 100, ``min_score`` -1 to 1.

    ``mode`` ``hybrid`` ranks by meaning and words together, ``semantic`` by meaning alone. ``offset`` is how many
    results to pass over, from the ``next_offset`` of an answer.
    """

    query: Annotated[str, Parameter(min_length=1, max_length=1000)]
    n_results: Annotated[int, Parameter(ge=1, le=100)] = 10
    mode: SearchRanking = "hybrid"
    min_score: Annotated[float, Parameter(ge=-1, le=1)] | None = None
    offset: Annotated[int, Parameter(ge=0, le=10_000)] = 0


@frozen(kw_only=True)
class SearchResult:
    """``score`` is the cosine similarity, from -1 to 1, also where words decided the order.

    ``matched`` says why: ``meaning`` where it is among the nearest, and the fields that have the query's words.
    """

    meme_id: UUID
    media_url: str
    thumbnail_url: str
    filename: str
    title: str | None = None
    score: float
    matched: list[Matched]


@frozen
class CoverageBody:
    """How many pictures can be found, of how many there are."""

    searchable: int
    total: int


@frozen
class SearchAnswer:
    """Best first. All results come from one ``source``.

    ``mode`` is how they were ranked: ``semantic`` where the source knows no words, whatever was asked for.
    ``next_offset`` is the ``offset`` of the next page, null where no more was found.
    """

    source: Literal["incremental", "legacy"]
    epoch: int
    mode: SearchRanking
    results: list[SearchResult]
    coverage: CoverageBody
    next_offset: int | None = None


@frozen(kw_only=True)
class SearchStatusBody:
    """What searches read now, and with which model.

    ``filling`` is the model that is being filled to take its place, null if none is.
    """

    mode: SearchModeName
    epoch: int
    model: str
    filling: str | None = None
    coverage: CoverageBody


@frozen(kw_only=True)
class Availability:
    """Whether an operation would be allowed now; asking reserves nothing, and ``retry_at`` is a hint only."""

    operation: OperationName
    available: bool
    reason: str | None = None
    message: str | None = None
    retry_at: datetime | None = None


@frozen
class Health:
    status: Literal["live", "ready"]
