"""An observer that remembers, and lets a test wait for what it wants to see."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from imgproc_domain.events import Event

E = TypeVar("E")

PATIENCE = 30.0
"""Seconds after which a test that waits for events has failed."""


class RecordingObserver:
    """Keeps every event. Noted and awaited on one event loop."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._noted = asyncio.Event()

    def note(self, event: Event) -> None:
        self.events.append(event)
        self._noted.set()

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, done: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Wait until ``done()`` holds, looking again at every event; raises `TimeoutError` when patience ends."""
        async with asyncio.timeout(patience):
            while not done():
                self._noted.clear()
                await self._noted.wait()
