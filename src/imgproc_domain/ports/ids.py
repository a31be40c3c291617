"""Identity and randomness for use cases, which have no entropy of their own."""

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Ids(Protocol):
    def ordered(self, at: datetime) -> UUID:
        """Return a UUIDv7 of this time; ids made one after the other in one process sort in that order."""
        ...

    def secret(self) -> str:
        """Return 32 hexadecimal digits from at least 128 bits of cryptographic randomness."""
        ...
