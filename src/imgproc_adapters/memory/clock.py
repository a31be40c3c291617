"""The store's clock, in the place of a database's."""

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

DAWN: Final = datetime(2025, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the present, timezone-aware UTC."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """Time that passes only when told to."""

    def __init__(self, now: datetime = DAWN) -> None:
        assert now.tzinfo is not None, "a clock's time has a timezone"
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Let ``by`` pass and return the new time."""
        self._now += by
        return self._now
