"""What travels about maintenance. As in `wire`, an optional field is null when there is nothing to say."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from attrs import frozen
from litestar.params import Parameter

from imgproc_adapters.http.wire import CoverageBody, ErrorBody, SearchModeName, TaskStatusName

MOST_MISSING: Final = 1_000_000_000
Missing = Annotated[int, Parameter(ge=0, le=MOST_MISSING)]


@frozen(kw_only=True)
class CacheGenerationBody:
    """A copy of a library's search index, and the task that makes it.

    ``generation_id``, ``model`` and ``dimension`` are null until the task has begun; ``entries`` were copied so far.
    It can be read once it has a ``completed_at``.
    """

    task_id: UUID
    status: TaskStatusName
    message: str
    generation_id: UUID | None = None
    model: str | None = None
    dimension: int | None = None
    entries: int
    created_at: datetime
    completed_at: datetime | None = None
    error: ErrorBody | None = None


@frozen(kw_only=True)
class CacheGenerationPage:
    """Newest first; ``next_cursor`` is null on the last page."""

    items: list[CacheGenerationBody]
    next_cursor: str | None = None


@frozen
class SpaceBody:
    """The vectors of one text model."""

    model: str
    dimension: int


@frozen(kw_only=True)
class SearchMigrationBody:
    """What searches read, and what a switch would change.

    ``read`` is searched with, and ``coverage`` what is found there. It is ``serving``, or the space of the legacy
    index as long as that is read. ``filling`` is filled beside ``serving``, null if nothing is. ``missing`` pictures
    lack a vector in ``target``, which a switch would serve. ``generation_id`` is the newest complete copy, which the
    legacy index consists of.
    """

    mode: SearchModeName
    epoch: int
    read: SpaceBody
    serving: SpaceBody
    filling: SpaceBody | None = None
    target: SpaceBody
    missing: int
    coverage: CoverageBody
    generation_id: UUID | None = None


@frozen
class NothingMore:
    """There is nothing to say: a body may be left out, or be an empty object."""


@frozen
class SwitchRequest:
    """``allow_missing`` pictures may stay unfindable."""

    allow_missing: Missing = 0


@frozen
class RollbackRequest:
    """Stop filling, or go back ``to`` a model by its name in ``serving``, or to ``legacy``."""

    to: Annotated[str, Parameter(min_length=1, max_length=200)] | None = None
    allow_missing: Missing = 0
