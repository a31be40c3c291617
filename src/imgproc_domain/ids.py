"""Identifiers and parse-once values.

Row ids are UUIDv7 made by the application, so that they sort by age without a sequence. Attempt, request and
session ids are random strings of at least 128 bits, because whoever can guess one could claim its result.
"""

import hashlib
import re
from json.encoder import encode_basestring_ascii
from typing import NewType, Self
from uuid import UUID

from attrs import frozen

from imgproc_domain.errors import InvalidValue

MemeId = NewType("MemeId", UUID)
JobId = NewType("JobId", UUID)
TaskId = NewType("TaskId", UUID)
GrantId = NewType("GrantId", UUID)
GenerationId = NewType("GenerationId", UUID)
AttemptId = NewType("AttemptId", str)
WorkerId = NewType("WorkerId", str)

_SHA256 = re.compile(r"[0-9a-f]{64}")


@frozen(order=True, slots=False)
class Sha256:
    """A SHA-256 digest as 64 lower-case hexadecimal digits."""

    hex: str

    @classmethod
    def parse(cls, raw: str) -> Self:
        """Return the digest written in ``raw``; raises `InvalidValue` for anything else."""
        if not _SHA256.fullmatch(raw):
            raise InvalidValue("a SHA-256 digest is 64 lower-case hexadecimal digits")
        return cls(raw)

    @classmethod
    def of(cls, *parts: str) -> Self:
        """Return the digest of ``parts``, joined so that no two different lists of cleaned text agree."""
        # as `json.dumps` writes a list of texts, which makes an encoder at every call
        listed = f"[{', '.join(map(encode_basestring_ascii, parts))}]"
        return cls(hashlib.sha256(listed.encode()).hexdigest())

    def __str__(self) -> str:
        return self.hex


def uuid7(unix_ms: int, entropy: bytes) -> UUID:
    """Build a UUIDv7 (RFC 9562) from milliseconds since 1970 and 10 random bytes."""
    value = (unix_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(entropy[:10], "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
