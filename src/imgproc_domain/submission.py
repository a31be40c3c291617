"""The create-or-reuse table: one function for every entry that wants a picture processed."""

from enum import StrEnum

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.stage import ReverseImagePolicy, Stage


class Mode(StrEnum):
    """Who asks: ``automatic`` is upload, replacement and seeding; ``explicit`` is a person's retry."""

    AUTOMATIC = "automatic"
    EXPLICIT = "explicit"


@frozen
class Submission:
    """One request to have one meme processed."""

    meme_id: MemeId
    policy: ReverseImagePolicy
    mode: Mode


@frozen
class Signature:
    """What a job was made for; a terminal job of another signature does not count as an earlier try."""

    image_sha256: Sha256
    policy: ReverseImagePolicy
    config_fingerprint: str


@frozen
class Reuse:
    """Return this job as it is, with its diagnosis if it has one."""

    job: Job


@frozen
class Conflict:
    """An active job runs under another policy."""

    job: Job


@frozen
class NewRevision:
    """Open the next revision; ``closes`` is an active job that ends first, with its reason."""

    revision: int
    closes: Job | None = None
    reason: Diagnosis | None = None


Verdict = Reuse | Conflict | NewRevision


def decide(newest: Job | None, wanted: Signature, mode: Mode, *, all_valid: bool) -> Verdict:
    """Apply the table to the meme's newest job. ``all_valid``: all three products are valid under ``wanted``."""
    if newest is None:
        return NewRevision(1)
    if newest.live:
        return _active(newest, wanted)
    same = Signature(newest.image_sha256, newest.reverse_image_policy, newest.config_fingerprint) == wanted
    if not same and not (mode is Mode.AUTOMATIC and _is_undecided(newest, wanted)):
        return NewRevision(newest.revision + 1)
    if newest.status is JobStatus.SUCCEEDED:
        return Reuse(newest) if all_valid else NewRevision(newest.revision + 1)
    return Reuse(newest) if mode is Mode.AUTOMATIC else NewRevision(newest.revision + 1)


def _is_undecided(job: Job, wanted: Signature) -> bool:
    """Whether this picture's call may have been made under another configuration: a person decides, not an upload."""
    same = (job.image_sha256, job.reverse_image_policy) == (wanted.image_sha256, wanted.policy)
    return same and job.status is JobStatus.UNKNOWN


def _active(job: Job, wanted: Signature) -> Verdict:
    if job.image_sha256 != wanted.image_sha256:
        reason = Diagnosis(ErrorCode.TARGET_CHANGED, "the picture was replaced")
        return NewRevision(job.revision + 1, job, reason)
    if job.reverse_image_policy is not wanted.policy:
        return Conflict(job)
    if job.stage(Stage.AGENT).status is JobStatus.RUNNING:
        # under a former configuration it is renewed when its agent's task ends, unless that ends as unknown: a revision
        # opened before would not know and call again (I9)
        return Reuse(job)
    if job.config_fingerprint != wanted.config_fingerprint:
        reason = Diagnosis(ErrorCode.CONFIGURATION_CHANGED, "the processing configuration changed")
        return NewRevision(job.revision + 1, job, reason)
    return Reuse(job)
