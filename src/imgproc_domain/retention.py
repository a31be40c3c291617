"""What of the history may go: nothing that anybody still decides on, or could be asked about.

A store tells facts, these functions decide, and the store decides nothing.
"""

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.config import ProcessingConfig
from imgproc_domain.errors import InvalidValue
from imgproc_domain.ids import GenerationId, JobId, TaskId
from imgproc_domain.meme import Meme
from imgproc_domain.policy import Operation
from imgproc_domain.product import Products, TextStamp, VisualStamp

LEAST_AGE: Final = timedelta(days=1)
USUAL_AGE: Final = timedelta(days=90)
LONGEST_PERIOD: Final = timedelta(days=32)
"""Longer than every period in which reservations are counted: no month has more than 31 days."""

_MOST_DAYS: Final = 36_500
_AGE: Final = re.compile(r"(\d{1,6})([hdw])")
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Kind(StrEnum):
    """What is counted when it goes. Stages, contexts and search vectors go with their job or meme."""

    JOBS = "jobs"
    TASKS = "tasks"
    ATTEMPTS = "attempts"
    GRANTS = "grants"
    LATE_RESULTS = "late_results"
    RESOLUTIONS = "resolutions"
    GENERATIONS = "generations"
    GENERATION_ENTRIES = "generation_entries"
    MEMES = "memes"
    BLOBS = "blobs"
    VISUAL_VECTORS = "visual_vectors"
    TEXT_VECTORS = "text_vectors"
    TOMBSTONES = "tombstones"
    RESERVATIONS = "reservations"


@frozen
class TaskFacts:
    """What decides whether a task may go.

    ``in_slot``: a lane slot names it. ``undecided``: an attempt of it ended as unknown, and nobody resolved that.
    ``running_until``: the latest hard deadline of its attempts. ``describes``: its meme's context came from it.
    ``releasing``: the release of its grant is still on its way.
    """

    task_id: TaskId
    completed_at: datetime | None
    in_slot: bool = False
    undecided: bool = False
    running_until: datetime | None = None
    describes: bool = False
    releasing: bool = False


@frozen
class JobFacts:
    """What decides whether a job may go, with all its tasks.

    ``newest``: no later revision has the same target: meme, picture and policy. ``last_agent``: no later revision of
    that target has an agent task, and this one has. ``releasing``: the release of its request is still on its way.
    """

    job_id: JobId
    completed_at: datetime | None
    newest: bool = False
    last_agent: bool = False
    releasing: bool = False
    tasks: tuple[TaskFacts, ...] = ()


@frozen
class MemeFacts:
    meme: Meme
    jobs: tuple[JobFacts, ...] = ()


@frozen
class MaintenanceFacts:
    """A maintenance task, and the generation that it began.

    ``superseded_at``: when a later generation was first complete. ``complete``: its own one is.
    """

    task: TaskFacts
    generation_id: GenerationId | None = None
    complete: bool = False
    superseded_at: datetime | None = None


@frozen
class KeyFacts:
    """A logical request that is remembered so that it is not granted again.

    ``settled_at``: the last thing that became of it; None while something is still to be done. ``in_use``: its job or
    its grant is there.
    """

    operation: Operation
    logical_request_key: str
    settled_at: datetime | None
    in_use: bool = False


@frozen
class Cutoff:
    """Older than ``before`` is old enough at ``now``; keys only when nobody can ask for them again."""

    now: datetime
    before: datetime
    keys_before: datetime
    reservations_before: datetime

    @classmethod
    def at(cls, now: datetime, older_than: timedelta, longest_claim: timedelta) -> "Cutoff":
        """``longest_claim``: how long a worker may go on with what it claimed, and its call with it.

        Whoever asks for a key holds a claim of its job; nobody claims a job that is over. So a key whose job ended
        longer ago than that is asked for by nobody. A day is added for what a clock or a stopped process may add.
        """
        keys = now - max(older_than, LEAST_AGE + longest_claim)
        return cls(now, now - older_than, keys, min(keys, now - LONGEST_PERIOD))


def parse_age(raw: str) -> timedelta:
    """Return the duration of a text like ``36h``, ``90d`` or ``12w``.

    Raises `InvalidValue` for anything else, for less than a day, and for more than a century.
    """
    match = _AGE.fullmatch(raw.strip())
    age = int(match[1]) * _UNITS[match[2]] if match else timedelta(0)
    if not LEAST_AGE <= age <= timedelta(days=_MOST_DAYS):
        raise InvalidValue("an age is a number of hours, days or weeks, at least one day: 36h, 90d or 12w")
    return age


def job_may_go(job: JobFacts, cutoff: Cutoff) -> bool:
    """Whether a superseded job may go: neither a submission nor a search for its target's last call looks at it."""
    needed = job.newest or job.last_agent or any(task.describes for task in job.tasks)
    return not needed and _is_over(job, cutoff)


def meme_may_go(facts: MemeFacts, cutoff: Cutoff) -> bool:
    """Whether a deleted meme may go with all its jobs: nobody submits it again, but a person may have to look."""
    deleted_at = facts.meme.deleted_at
    return deleted_at is not None and deleted_at < cutoff.before and all(_is_over(job, cutoff) for job in facts.jobs)


def maintenance_may_go(facts: MaintenanceFacts, cutoff: Cutoff) -> bool:
    """Whether a maintenance task may go with its generation: a complete one serves until a later one has for long."""
    superseded = facts.superseded_at is not None and facts.superseded_at < cutoff.before
    return _has_ended(facts.task, cutoff) and (superseded or not facts.complete)


def tombstone_may_go(key: KeyFacts, cutoff: Cutoff) -> bool:
    return not key.in_use and key.settled_at is not None and key.settled_at < cutoff.keys_before


def reservation_may_go(key: KeyFacts, cutoff: Cutoff) -> bool:
    """As a tombstone, and no period in which it is counted goes on."""
    return not key.in_use and key.settled_at is not None and key.settled_at < cutoff.reservations_before


def stale_vectors(
    meme: Meme, products: Products, config: ProcessingConfig, spaces: Collection[str], cutoff: Cutoff
) -> tuple[Iterable[VisualStamp], Iterable[TextStamp]]:
    """Return the vectors of a meme that are of no use any more, under the configuration in force.

    ``spaces`` are the text spaces that are configured, served or filled. A vector of the present picture and words
    stays in each of them, and in an abandoned space as long as it is in none of them. One of the present picture goes
    only where another has taken its place. What became stale lately may be wanted back, as a person's undo.
    """
    context, picture = products.context, meme.picture.sha256
    changed_at = max(meme.updated_at, context.updated_at) if context else meme.updated_at
    if not meme.exists or changed_at >= cutoff.before:
        return (), ()
    seen = any((stamp.image_sha256, stamp.space_id) == (picture, config.visual.id) for stamp in products.visual)
    visual = [s for s in products.visual if s.image_sha256 != picture or (seen and s.space_id != config.visual.id)]
    words = context.metadata_hash if context else None
    current = {s for s in products.text if (s.image_sha256, s.metadata_hash) == (picture, words)}
    used = {s for s in current if s.space_id in spaces}
    abandoned = current - used if used else set()
    text = [s for s in products.text - current if s.image_sha256 != picture or current] + sorted(
        abandoned, key=lambda stamp: stamp.space_id
    )
    return visual, text


def _is_over(job: JobFacts, cutoff: Cutoff) -> bool:
    ended = job.completed_at is not None and job.completed_at < cutoff.before
    return ended and not job.releasing and all(_has_ended(task, cutoff) for task in job.tasks)


def _has_ended(task: TaskFacts, cutoff: Cutoff) -> bool:
    ended = task.completed_at is not None and task.completed_at < cutoff.before
    running = task.running_until is not None and task.running_until > cutoff.now
    return ended and not (running or task.in_slot or task.undecided or task.releasing)
