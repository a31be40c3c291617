"""Which source a scope's searches read, and the epoch under which that was decided."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import evolve, frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import GenerationId, TaskId
from imgproc_domain.machine import Edges, move
from imgproc_domain.scope import Scope
from imgproc_domain.search import Source


class SearchMode(StrEnum):
    LEGACY_ONLY = "legacy_only"
    BACKFILL = "backfill"
    INCREMENTAL_ONLY = "incremental_only"


_M = SearchMode

EDGES: Final[Edges[SearchMode]] = {
    _M.LEGACY_ONLY: frozenset({_M.BACKFILL}),
    _M.BACKFILL: frozenset({_M.INCREMENTAL_ONLY, _M.LEGACY_ONLY}),
    _M.INCREMENTAL_ONLY: frozenset({_M.LEGACY_ONLY}),
}


@frozen
class SearchState:
    """The search state of a scope. A scope that never had a legacy generation starts as ``incremental_only``."""

    mode: SearchMode = SearchMode.INCREMENTAL_ONLY
    epoch: int = 1

    @property
    def source(self) -> Source:
        return Source.INCREMENTAL if self.mode is SearchMode.INCREMENTAL_ONLY else Source.LEGACY


@frozen
class Generation:
    """A legacy search index over a whole scope, made by one ``cache_generation`` task; readable once it is complete."""

    scope: Scope
    generation_id: GenerationId
    task_id: TaskId
    space: VectorSpace
    created_at: datetime
    completed_at: datetime | None = None
    entries: int = 0


def change(state: SearchState, mode: SearchMode) -> SearchState:
    """Every step raises the epoch; raises `IllegalTransition` for a step the table does not have."""
    return evolve(state, mode=move(EDGES, state.mode, mode), epoch=state.epoch + 1)
