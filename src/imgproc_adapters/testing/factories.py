"""Builders of domain values with sensible defaults; every call makes another one."""

import hashlib
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from imgproc_adapters.system import SystemIds
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Context, ContextStatus, Description, Origin, Provenance
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import AttemptId, GrantId, JobId, MemeId, Sha256, TaskId
from imgproc_domain.job import Job, JobStatus, new_stages
from imgproc_domain.meme import Meme, Picture
from imgproc_domain.policy import Operation, OperationRequest
from imgproc_domain.ports.execution import Release
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.scope import LOCAL, Scope
from imgproc_domain.stage import TASK_TYPE_OF, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Target, Task, TaskStatus
from imgproc_domain.vector import Vector
from imgproc_domain.words import Words, words_of

LONG_AGO: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Before the present of every clock, so that what is made by default is due and available."""

_IDS: Final = SystemIds()


def new_id() -> UUID:
    """Return an id greater than every one before it."""
    return _IDS.ordered(LONG_AGO)


def digest(text: str) -> Sha256:
    return Sha256(hashlib.sha256(text.encode()).hexdigest())


def make_picture(content: str | None = None) -> Picture:
    """Return a picture whose digest is that of ``content``, by default of something never seen before."""
    sha256 = digest(content if content is not None else _IDS.secret())
    return Picture(sha256, "image/png", 1_000, 640, 480, 1, f"{sha256}.png")


def make_meme(
    scope: Scope = LOCAL,
    *,
    content: str | None = None,
    filename: str = "cat.png",
    at: datetime = LONG_AGO,
    deleted_at: datetime | None = None,
) -> Meme:
    return Meme(
        scope=scope,
        meme_id=MemeId(new_id()),
        filename=filename,
        picture=make_picture(content),
        created_at=at,
        updated_at=at,
        deleted_at=deleted_at,
    )


def make_job(
    meme: Meme,
    *,
    revision: int = 1,
    policy: ReverseImagePolicy = ReverseImagePolicy.FORBID,
    config_fingerprint: str = "config-1",
    at: datetime = LONG_AGO,
    due_at: datetime | None = LONG_AGO,
) -> Job:
    """Return a queued job of the meme's present picture."""
    return Job(
        scope=meme.scope,
        job_id=JobId(new_id()),
        meme_id=meme.meme_id,
        revision=revision,
        image_sha256=meme.picture.sha256,
        reverse_image_policy=policy,
        config_fingerprint=config_fingerprint,
        status=JobStatus.QUEUED,
        stages=new_stages(),
        created_at=at,
        updated_at=at,
        due_at=due_at,
    )


def make_task(
    job: Job, stage: Stage = Stage.VISUAL, *, available_at: datetime = LONG_AGO, grant_id: GrantId | None = None
) -> Task:
    """Return a queued leaf task of the job; an agent task names a grant, which `make_grant` makes."""
    if stage is Stage.AGENT and grant_id is None:
        grant_id = GrantId(new_id())
    target = Target(job.job_id, job.meme_id, job.image_sha256, job.config_fingerprint, job.reverse_image_policy)
    return Task(
        scope=job.scope,
        task_id=TaskId(new_id()),
        task_type=TASK_TYPE_OF[stage],
        status=TaskStatus.QUEUED,
        target=target,
        available_at=available_at,
        created_at=LONG_AGO,
        grant_id=grant_id,
    )


def make_maintenance_task(scope: Scope = LOCAL, *, available_at: datetime = LONG_AGO) -> Task:
    return Task(
        scope=scope,
        task_id=TaskId(new_id()),
        task_type=TaskType.CACHE,
        status=TaskStatus.QUEUED,
        target=None,
        available_at=available_at,
        created_at=LONG_AGO,
    )


def make_attempt(task: Task, number: int = 1, *, attempt_id: str | None = None) -> Attempt:
    """Return a prepared attempt of the task's present generation."""
    return Attempt(
        scope=task.scope,
        task_id=task.task_id,
        attempt_no=number,
        attempt_id=AttemptId(attempt_id or _IDS.secret()),
        request_id=_IDS.secret(),
        session_id=_IDS.secret(),
        generation=task.lease.generation,
        status=AttemptStatus.PREPARED,
        input_digest=digest(f"input of {task.task_id}"),
        created_at=LONG_AGO,
    )


def make_grant(task: Task, *, key: str | None = None, operation: Operation = Operation.ANALYSIS_AGENT) -> Grant:
    """Return the acquired grant that the task names, or another one associated with it."""
    assert task.target is not None, "only leaf tasks have grants"
    return Grant(
        scope=task.scope,
        grant_id=task.grant_id or GrantId(new_id()),
        operation=operation,
        logical_request_key=key or f"agent:{task.task_id}",
        fingerprint=digest(str(task.task_id)).hex,
        reservation=f"reservation:{task.task_id}",
        task_id=task.task_id,
        job_id=task.target.job_id,
        status=GrantStatus.ACQUIRED,
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )


def make_release(key: str, *, at: datetime = LONG_AGO, operation: Operation = Operation.ANALYSIS_AGENT) -> Release:
    return Release(operation, key, f"reservation:{key}", at)


def make_request(key: str = "agent:1", scope: Scope = LOCAL, *, resource: str = "meme-1") -> OperationRequest:
    return OperationRequest(
        scope=scope,
        operation=Operation.ANALYSIS_AGENT,
        logical_request_key=key,
        resource=resource,
        task=TaskType.CONTEXT.value,
        source="contract",
        input_digest=digest(resource).hex,
    )


def make_context(
    meme: Meme,
    title: str = "a surprised cat",
    *,
    status: ContextStatus = ContextStatus.READY,
    revision: int = 1,
    origin: Origin = Origin.AGENT,
) -> Context:
    """Return a context of the meme's present picture; a blank title leaves nothing to embed."""
    return Context(
        scope=meme.scope,
        meme_id=meme.meme_id,
        status=status,
        revision=revision,
        description=Description(title=title),
        provenance=Provenance(origin, meme.picture.sha256),
        updated_at=LONG_AGO,
    )


def vector(*components: float, dimension: int = 8) -> Vector:
    """Return a unit vector of these first components, the others being 0."""
    return Vector.unit([*components, *[0.0] * (dimension - len(components))])


def make_text_product(meme: Meme, context: Context, made: Vector, space: VectorSpace) -> TextProduct:
    assert context.metadata_hash is not None, "a context without embeddable text has no vector"
    return TextProduct(meme.meme_id, meme.picture.sha256, context.metadata_hash, space.id, made)


def make_words(*pairs: tuple[Meme, Context]) -> dict[MemeId, Words]:
    return {meme.meme_id: words_of(context.description, meme.filename) for meme, context in pairs}


def make_visual_product(meme: Meme, made: Vector, space: VectorSpace) -> VisualProduct:
    return VisualProduct(meme.meme_id, meme.picture.sha256, space.id, made)
