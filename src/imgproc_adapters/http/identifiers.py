"""Ids and cursors as they travel in paths and queries."""

import base64
import binascii
from enum import Enum
from typing import Final
from uuid import UUID

from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_domain.errors import InvalidValue, MemeNotFound, TaskNotFound
from imgproc_domain.ids import JobId, MemeId, TaskId

_CURSOR_LENGTH: Final = 23


def parse_meme_id(raw: str) -> MemeId:
    """Return the id; what is no id at all is answered as an id that nobody has.

    Raises:
        MemeNotFound: not a UUID in its canonical form.
    """
    found = _uuid(raw)
    if found is None:
        raise MemeNotFound("there is no such picture")
    return MemeId(found)


def parse_job_id(raw: str) -> JobId:
    """Return the id; raises `TaskNotFound` for what is not a UUID in its canonical form."""
    found = _uuid(raw)
    if found is None:
        raise TaskNotFound("there is no such job")
    return JobId(found)


def parse_task_id(raw: str) -> TaskId:
    """Return the id; raises `TaskNotFound` for what is not a UUID in its canonical form."""
    found = _uuid(raw)
    if found is None:
        raise TaskNotFound("there is no such task")
    return TaskId(found)


def _uuid(raw: str) -> UUID | None:
    try:
        found = UUID(raw)
    except ValueError:
        return None
    return found if str(found) == raw.lower() else None


class PageOf(Enum):
    """The list that a cursor belongs to; no list takes the cursor of another."""

    IMAGES = b"i"
    JOBS = b"j"
    TASKS = b"t"
    EXECUTIONS = b"e"
    GENERATIONS = b"g"


def write_cursor(of: PageOf, after: UUID | None) -> str | None:
    """Return the opaque form of a page's end: 23 characters of base64url."""
    return None if after is None else base64.urlsafe_b64encode(of.value + after.bytes).rstrip(b"=").decode()


def read_cursor(of: PageOf, raw: str | None) -> UUID | None:
    """Return the id in a cursor that `write_cursor` made for the same list.

    Raises:
        InvalidValue: for anything else.
    """
    if raw is None:
        return None
    try:
        data = base64.urlsafe_b64decode(raw + "=") if len(raw) == _CURSOR_LENGTH else b""
        found = UUID(bytes=data[1:])
    except (ValueError, binascii.Error) as error:
        raise _no_cursor() from error
    if write_cursor(of, found) != raw:
        raise _no_cursor()
    return found


def _no_cursor() -> InvalidValue:
    return refused(Refusal("query", "cursor", "the next_cursor of a page of this list"))
