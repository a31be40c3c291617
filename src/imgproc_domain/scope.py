"""The tenant boundary: part of every key, resolved by the server, never taken from a client."""

import re
from typing import Final, NewType

from imgproc_domain.errors import InvalidValue

Scope = NewType("Scope", str)

LOCAL: Final = Scope("local")

_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


def parse_scope(raw: str) -> Scope:
    """Return ``raw`` as a scope: 1-100 characters of ``A-Z a-z 0-9 _ . : -``, not starting with punctuation.

    Raises:
        InvalidValue: for anything else.
    """
    if not _SCOPE.fullmatch(raw):
        raise InvalidValue("a scope is 1-100 characters of A-Z a-z 0-9 _ . : - and starts with a letter or digit")
    return Scope(raw)
