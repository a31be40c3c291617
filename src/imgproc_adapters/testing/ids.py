"""Identity without entropy, so that a failing run can be repeated exactly."""

import hashlib
from datetime import datetime
from uuid import UUID

from imgproc_domain.ids import uuid7


class CountedIds:
    """`Ids` that count: the same calls give the same ids. For tests alone, as anybody can guess them."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0
        self._unix_ms = 0

    def ordered(self, at: datetime) -> UUID:
        self._count += 1
        self._unix_ms = max(self._unix_ms, int(at.timestamp() * 1000))
        return uuid7(self._unix_ms, self._count.to_bytes(10, "big"))

    def secret(self) -> str:
        self._count += 1
        return hashlib.sha256(f"{self._seed}/{self._count}".encode()).hexdigest()[:32]
