"""Bounded budgets, and fairness between scopes."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import Factory, frozen

from imgproc_domain.ids import TaskId
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane


@frozen
class LaneLimits:
    """How many tasks each lane may execute at once: per process, but for the agent lane over all processes."""

    limits: Mapping[Lane, int] = Factory(lambda: {Lane.VISUAL: 4, Lane.AGENT: 2, Lane.TEXT: 4, Lane.MAINTENANCE: 1})
    agent_backpressure: int = 256

    def __getitem__(self, lane: Lane) -> int:
        return self.limits[lane]


@frozen
class Slot:
    """One unit of a lane's budget over all processes. Free if it has no holder, or its holder's call is over."""

    lane: Lane
    number: int
    scope: Scope | None = None
    task_id: TaskId | None = None
    generation: int | None = None
    free_at: datetime | None = None


def shares(free: int, ready: Sequence[Scope]) -> list[tuple[Scope, int]]:
    """Split ``free`` places over the ready scopes, evenly, the first ones getting what is left over.

    A scope with 10 queued tasks gets as many places a turn as one with 100,000; the caller rotates ``ready`` from
    turn to turn.
    """
    if not ready or free <= 0:
        return []
    even, left = divmod(free, len(ready))
    return [(scope, even + (i < left)) for i, scope in enumerate(ready) if even + (i < left) > 0]
