"""Domain values in any state, for tests that name only what they are about."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import evolve

from imgproc_adapters.testing.factories import (
    digest,
    make_attempt,
    make_context,
    make_grant,
    make_job,
    make_meme,
    make_task,
)
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Lease
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.context import Context, ContextStatus, Description, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import Sha256, WorkerId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.product import Products, TextStamp, VisualStamp
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage
from imgproc_domain.task import Task, TaskStatus

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE: Final = timedelta(seconds=30)
SECOND: Final = timedelta(seconds=1)
ME: Final = WorkerId("worker-me")
SOMEBODY_ELSE: Final = WorkerId("worker-else")
GENERATION: Final = 3

PICTURE: Final = digest("cat picture")
OTHER_PICTURE: Final = digest("dog picture")
CONFIG: Final = ProcessingConfig(VectorSpace("visual-1", 8), "agent-1", VectorSpace("text-1", 8))
TROUBLE: Final = Diagnosis(ErrorCode.AGENT_FAILED, "the agent answered with an error")
CHANGED: Final = Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was replaced")
UNKNOWN: Final = Diagnosis(ErrorCode.UNKNOWN_EXECUTION, "nobody knows how the call ended")
DESCRIPTION: Final = Description(title="a surprised cat", keywords=("cat", "猫"))


def cat() -> Meme:
    """Return a meme whose picture is `PICTURE`."""
    return make_meme(content="cat picture")


def job_in(
    status: JobStatus,
    stages: Sequence[JobStatus] = (JobStatus.QUEUED,) * len(STAGES),
    *,
    meme: Meme | None = None,
    revision: int = 1,
    policy: ReverseImagePolicy = ReverseImagePolicy.FORBID,
) -> Job:
    """Return a claimed job of the present configuration; `stages` are its stages' statuses in order."""
    job = make_job(meme or cat(), revision=revision, policy=policy, config_fingerprint=CONFIG.fingerprint)
    states = tuple(evolve(state, status=s) for state, s in zip(job.stages, stages, strict=True))
    return evolve(job, status=status, stages=states, lease=Lease(GENERATION, ME, NOW + LEASE))


def job_at(stage: Stage, status: JobStatus = JobStatus.RUNNING, *, meme: Meme | None = None) -> Job:
    """Return a running job whose stages before `stage` succeeded and which is itself in `status`."""
    at = STAGES.index(stage)
    before, after = (JobStatus.SUCCEEDED,) * at, (JobStatus.QUEUED,) * (len(STAGES) - at - 1)
    return job_in(JobStatus.RUNNING, (*before, status, *after), meme=meme)


def task_in(status: TaskStatus, stage: Stage = Stage.AGENT, *, meme: Meme | None = None) -> Task:
    """Return a leaf task claimed `GENERATION` times; a running one is held by `ME` until `NOW` + `LEASE`."""
    held = status is TaskStatus.RUNNING
    lease = Lease(GENERATION, ME, NOW + LEASE) if held else Lease(GENERATION)
    return evolve(make_task(make_job(meme or cat()), stage), status=status, lease=lease)


def running_task(stage: Stage = Stage.AGENT, *, meme: Meme | None = None, lease_losses: int = 0) -> Task:
    return evolve(task_in(TaskStatus.RUNNING, stage, meme=meme), lease_losses=lease_losses)


def attempt_in(status: AttemptStatus, task: Task | None = None) -> Attempt:
    return evolve(make_attempt(task or running_task()), status=status)


def grant_in(status: GrantStatus) -> Grant:
    return evolve(make_grant(running_task()), status=status)


def context_of(
    meme: Meme,
    description: Description = DESCRIPTION,
    *,
    status: ContextStatus = ContextStatus.READY,
    origin: Origin = Origin.AGENT,
    picture: Sha256 | None = None,
    revision: int = 1,
    policy: ReverseImagePolicy = ReverseImagePolicy.FORBID,
) -> Context:
    """Return a context made under `CONFIG` for the meme's picture, or for another one."""
    by_agent = origin is Origin.AGENT
    provenance = Provenance(
        origin,
        picture or meme.picture.sha256,
        agent_fingerprint=CONFIG.agent_fingerprint if by_agent else None,
        reverse_image_policy=policy if by_agent else None,
    )
    context = make_context(meme, status=status, revision=revision, origin=origin)
    return evolve(context, description=description, provenance=provenance)


def visual_stamp(picture: Sha256 = PICTURE) -> VisualStamp:
    return VisualStamp(picture, CONFIG.visual.id, CONFIG.visual.dimension)


def text_stamp(context: Context, picture: Sha256 = PICTURE) -> TextStamp:
    assert context.metadata_hash is not None, "this context has nothing to embed"
    return TextStamp(picture, context.metadata_hash, CONFIG.text.id, CONFIG.text.dimension)


def products_up_to(stage: Stage | None, meme: Meme, context: Context | None = None) -> Products:
    """Return valid products of every stage before `stage`, or of all three for None."""
    made = context or context_of(meme)
    valid = STAGES if stage is None else STAGES[: STAGES.index(stage)]
    return Products(
        visual=frozenset({visual_stamp(meme.picture.sha256)} if Stage.VISUAL in valid else ()),
        context=made if Stage.AGENT in valid else None,
        text=frozenset({text_stamp(made, meme.picture.sha256)} if Stage.TEXT in valid else ()),
    )
