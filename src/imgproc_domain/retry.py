"""When a transient failure may be tried again, from the number of failures alone."""

from datetime import timedelta

from attrs import frozen


@frozen
class RetryPolicy:
    """Bounds for automatic retries of one task; explicit retries open a new revision instead."""

    max_attempts: int = 5
    max_lease_losses: int = 3
    base: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=5)

    def backoff(self, failures: int, retry_after: timedelta | None = None) -> timedelta:
        """Return the wait after the ``failures``-th transient failure (1 is the first).

        Doubles from `base` up to `longest`; a provider's Retry-After lengthens it, at most to one hour, and never
        shortens it.
        """
        own = min(self.base * (1 << min(failures - 1, 30)), self.longest)
        asked = min(retry_after, timedelta(hours=1)) if retry_after is not None else own
        return max(own, asked)
