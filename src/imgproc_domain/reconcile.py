"""From what is stored to the one next step of a job."""

from functools import cached_property

from attrs import frozen

from imgproc_domain.config import ProcessingConfig
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.product import Products
from imgproc_domain.stage import STAGES, Stage
from imgproc_domain.validity import first_stale_stage


@frozen(slots=False)
class Facts:
    """What a reconcile reads, all under the locks of the meme and the job.

    ``busy`` says that a live leaf task exists for this picture version and the job's first stale stage, whatever
    its origin.
    """

    job: Job
    meme: Meme | None
    products: Products
    busy: bool
    config: ProcessingConfig

    @cached_property
    def stale(self) -> Stage | None:
        """The first stage without a valid product; None if all three have theirs."""
        job = self.job
        return first_stale_stage(job.image_sha256, self.config, job.reverse_image_policy, self.products)


@frozen
class Nothing:
    """The job is over, or its task is live and will make it due."""


@frozen
class AwaitTask:
    """A live task of another origin works on the same picture version: look again later."""


@frozen
class OpenStage:
    """Give ``stage`` its task; the stages in ``reused`` were valid already."""

    stage: Stage
    reused: tuple[Stage, ...]


@frozen
class Finish:
    """All three products are valid."""

    reused: tuple[Stage, ...]


@frozen
class FailStage:
    """The stage cannot succeed whatever runs."""

    stage: Stage
    reused: tuple[Stage, ...]
    diagnosis: Diagnosis


@frozen
class Close:
    """The picture is gone or another one: the job ends."""

    diagnosis: Diagnosis


@frozen
class Renew:
    """The job ends and the next revision is opened in the same transaction."""

    diagnosis: Diagnosis


Decision = Nothing | AwaitTask | OpenStage | Finish | FailStage | Close | Renew


def reconcile(facts: Facts) -> Decision:
    """Walk the stages in order; the first stale one decides."""
    job, meme = facts.job, facts.meme
    if not job.live:
        return Nothing()
    if meme is None or not meme.exists or meme.picture.sha256 != job.image_sha256:
        return Close(Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was deleted or replaced"))
    if job.config_fingerprint != facts.config.fingerprint:
        return Renew(Diagnosis(ErrorCode.CONFIGURATION_CHANGED, "the processing configuration changed"))
    return Finish(STAGES) if facts.stale is None else _advance(facts, facts.stale)


def _advance(facts: Facts, stale: Stage) -> Decision:
    reused = STAGES[: STAGES.index(stale)]
    if any(facts.job.stage(stage).status is JobStatus.RUNNING for stage in reused):
        return Nothing()
    state = facts.job.stage(stale)
    if state.status is JobStatus.SUCCEEDED:
        message = f"the product of the {stale} stage was replaced after the stage had succeeded"
        return Renew(Diagnosis(ErrorCode.TARGET_CHANGED, message))
    if stale is Stage.AGENT and facts.job.withheld is not None:
        return FailStage(stale, reused, facts.job.withheld)
    if facts.busy:
        return Nothing() if state.status is JobStatus.RUNNING else AwaitTask()
    if stale is Stage.TEXT and facts.products.context and facts.products.context.metadata_hash is None:
        message = "the context has no title, summary, text or keyword to embed"
        return FailStage(stale, reused, Diagnosis(ErrorCode.NO_EMBEDDABLE_TEXT, message))
    return OpenStage(stale, reused)
