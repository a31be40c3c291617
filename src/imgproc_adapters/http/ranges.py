"""Conditional and partial requests (RFC 9110), for one representation of known size."""

import re
from typing import Final

from attrs import frozen

from imgproc_adapters.http.errors import RangeNotSatisfiable

_ONE_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)


@frozen
class Span:
    """The bytes from ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def content_range(self, size: int) -> str:
        return f"bytes {self.first}-{self.last}/{size}"


def parse_range(header: str | None, size: int) -> Span | None:
    """Return the one range asked for; None if the whole is wanted or the header asks for what is not offered.

    Raises:
        RangeNotSatisfiable: the range begins behind the last byte.
    """
    match = _ONE_RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        if length == 0:
            raise RangeNotSatisfiable(size)
        return Span(size - length, size - 1)
    first = int(match[1])
    if match[2] and int(match[2]) < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return Span(first, min(int(match[2]), size - 1) if match[2] else size - 1)


def matches(header: str | None, etag: str) -> bool:
    """Tell whether an If-None-Match header names this entity tag; compared weakly, as RFC 9110 says."""
    if header is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags
