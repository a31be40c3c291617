"""Where facts go: logs, metrics, traces."""

from typing import Protocol

from imgproc_domain.events import Event


class Observer(Protocol):
    def note(self, event: Event) -> None:
        """Take note of a committed fact. Never blocks and never raises."""
        ...
