"""Identity and randomness from the operating system."""

import os
import secrets
import threading
from datetime import datetime
from typing import Final
from uuid import UUID

from imgproc_domain.ids import uuid7

_RANDOM_BITS: Final = 74
_LOW_BITS: Final = 62
_STEP_BYTES: Final = 4


class SystemIds:
    """`Ids` for a running process; safe to share between threads.

    Within one millisecond, or when the clock steps back, the random part is counted up by a random step instead of
    being drawn again, so that ids keep the order they were made in and still cannot be guessed from each other.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._unix_ms = 0
        self._random = 0

    def ordered(self, at: datetime) -> UUID:
        """Return a UUIDv7 of ``at`` (timezone-aware), greater than every earlier one of this object."""
        unix_ms = int(at.timestamp() * 1000)
        with self._guard:
            counted = self._random + 1 + int.from_bytes(os.urandom(_STEP_BYTES))
            if unix_ms > self._unix_ms:
                self._unix_ms, self._random = unix_ms, secrets.randbits(_RANDOM_BITS)
            elif counted >> _RANDOM_BITS:
                self._unix_ms, self._random = self._unix_ms + 1, secrets.randbits(_RANDOM_BITS)
            else:
                self._random = counted
            return uuid7(self._unix_ms, _entropy(self._random))

    def secret(self) -> str:
        """Return 32 hexadecimal digits: 128 bits from the operating system's generator."""
        return os.urandom(16).hex()


def _entropy(random: int) -> bytes:
    """Spread 74 bits around the version and variant bits of a UUIDv7, most significant first."""
    high, low = divmod(random, 1 << _LOW_BITS)
    return (high << 64 | low).to_bytes(10, "big")
