"""Answers planned ahead, for the scripted models."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field

A = TypeVar("A")
C = TypeVar("C")


@define(eq=False)
class Held(Generic[A]):
    """An answer that waits until the test releases it, so that a call is in flight for as long as needed."""

    answer: A | Exception
    started: asyncio.Event = field(factory=asyncio.Event)
    released: asyncio.Event = field(factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


class Script(Generic[C, A]):
    """First the planned answers, one a call, then ``usual`` for every call after them. An exception is raised."""

    def __init__(self, usual: Callable[[C], A]) -> None:
        self._usual = usual
        self._planned: deque[A | Exception | Held[A]] = deque()

    def then(self, *answers: A | Exception | Held[A]) -> None:
        """Plan the next answers."""
        self._planned.extend(answers)

    def always(self, usual: Callable[[C], A]) -> None:
        """Change how calls without a planned answer are answered."""
        self._usual = usual

    async def answer(self, call: C) -> A:
        planned = self._planned.popleft() if self._planned else self._usual(call)
        if isinstance(planned, Held):
            planned.started.set()
            await planned.released.wait()
            planned = planned.answer
        if isinstance(planned, Exception):
            raise planned
        return planned
