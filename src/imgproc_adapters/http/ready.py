"""What the service needs to be of use."""

from collections.abc import Mapping
from typing import Protocol


class Readiness(Protocol):
    """The application's checks: schema revision, blob store, models and whatever else a request would need."""

    async def __call__(self) -> Mapping[str, str | None]:
        """Return each check by name: None if it is fine, else a reason that may be shown to anybody."""
        ...
