"""Ids and cursors as they travel in paths and queries."""

import base64
import binascii
from typing import Final
from uuid import UUID

from imgproc_domain.errors import InvalidValue, MemeNotFound, TaskNotFound
from imgproc_domain.ids import JobId, MemeId, TaskId

_CURSOR_LENGTH: Final = 22


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


def write_cursor(after: UUID | None) -> str | None:
    """Return the opaque form of a page's end: 22 characters of base64url."""
    return None if after is None else base64.urlsafe_b64encode(after.bytes).rstrip(b"=").decode()


def read_cursor(raw: str | None) -> UUID | None:
    """Return the id in a cursor that `write_cursor` made.

    Raises:
        InvalidValue: for anything else.
    """
    if raw is None:
        return None
    try:
        data = base64.urlsafe_b64decode(raw + "==") if len(raw) == _CURSOR_LENGTH else b""
        found = UUID(bytes=data)
    except (ValueError, binascii.Error) as error:
        raise InvalidValue("the cursor was not made by this service", field="cursor") from error
    if write_cursor(found) != raw:
        raise InvalidValue("the cursor was not made by this service", field="cursor")
    return found
