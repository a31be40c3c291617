"""The create-or-reuse table: one function for every entry that wants a picture processed."""

from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.stage import ReverseImagePolicy, Stage
from imgproc_domain.task import Task


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

FIRST: Final = NewRevision(1)
"""What becomes of a submission whose meme has no job, whoever asks and for what."""


def decide(newest: Job | None, wanted: Signature, mode: Mode, *, all_valid: bool, tried: Job | None = None) -> Verdict:
    """Apply the table to the meme's newest job. ``all_valid``: all three products are valid under ``wanted``.

    ``tried`` is the newest job of the wanted target where that is another one: see `asks_for_tried`.
    """
    if newest is None:
        return FIRST
    if newest.live:
        return _active(newest, wanted)
    following = NewRevision(newest.revision + 1)
    last = newest if tried is None else tried
    same = Signature(last.image_sha256, last.reverse_image_policy, last.config_fingerprint) == wanted
    if not same and not (mode is Mode.AUTOMATIC and _is_undecided(last, wanted)):
        return following
    if last.status is JobStatus.SUCCEEDED:
        return Reuse(newest) if all_valid and last is newest else following
    return Reuse(last) if mode is Mode.AUTOMATIC else following


def asks_for_tried(newest: Job | None, sha256: Sha256, policy: ReverseImagePolicy, mode: Mode) -> bool:
    """Whether an earlier job of the same picture may answer: the newest one is over and of another policy.

    A job from before the picture was replaced does not: a person put this picture back, and wants it processed.
    """
    if newest is None or newest.live or mode is Mode.EXPLICIT:
        return False
    return newest.image_sha256 == sha256 and newest.reverse_image_policy is not policy


def why_withheld(last: Task | None) -> Diagnosis | None:
    """Return why no job that nobody asked for may call the agent behind ``last``, its target's newest agent task."""
    if last is None or last.error is None or last.error.code is not ErrorCode.UNKNOWN_EXECUTION:
        return None
    message = f"nobody knows how an earlier call for this picture ended, task {last.task_id}: retry it to call again"
    return Diagnosis(ErrorCode.UNKNOWN_EXECUTION, message)


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
