"""Which source a scope's searches read, and the epoch under which that was decided."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from attrs import evolve, frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import IllegalTransition
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
    """The search state of a scope. A scope that never had a legacy generation starts as ``incremental_only``.

    ``serving`` is the space its incremental searches read: None until its first vector is published, which pins it.
    ``filling`` is the space that is being filled beside it, to take its place in one step.
    """

    mode: SearchMode = SearchMode.INCREMENTAL_ONLY
    epoch: int = 1
    serving: VectorSpace | None = None
    filling: VectorSpace | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing is being completed that a switch would make answer."""
        return self.filling is None and self.mode is not SearchMode.BACKFILL

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


def start(state: SearchState) -> SearchState:
    """The legacy index still answers, and what is findable beside it is being completed."""
    return change(state, SearchMode.BACKFILL)


def switch(state: SearchState, serving: VectorSpace) -> SearchState:
    """Searches read what is findable now, in ``serving``; what was being filled is filled, or was given up."""
    return evolve(change(state, SearchMode.INCREMENTAL_ONLY), serving=serving, filling=None)


def rollback(state: SearchState) -> SearchState:
    """Searches read the newest complete generation again."""
    return change(state, SearchMode.LEGACY_ONLY)


def begin_filling(state: SearchState, own: VectorSpace, space: VectorSpace) -> SearchState:
    """Fill ``space`` beside the serving one, which is ``own`` from now on where the scope has none yet.

    Raises `IllegalTransition` if a space is being filled, or this one serves already.
    """
    serving = state.serving or own
    if state.filling is not None or space.id == serving.id:
        raise IllegalTransition(f"{space.id} cannot be filled beside {serving.id}")
    return _next(state, serving=serving, filling=space)


def serve(state: SearchState) -> SearchState:
    """What was filled serves; raises `IllegalTransition` if nothing was."""
    if state.filling is None:
        raise IllegalTransition("no space is being filled that could serve")
    return _next(state, serving=state.filling, filling=None)


def unfill(state: SearchState) -> SearchState:
    """Give up what is being filled; raises `IllegalTransition` if nothing is."""
    if state.filling is None:
        raise IllegalTransition("no space is being filled that could be given up")
    return _next(state, serving=state.serving, filling=None)


def change(state: SearchState, mode: SearchMode) -> SearchState:
    """Every step raises the epoch; raises `IllegalTransition` for a step the table does not have."""
    return evolve(state, mode=move(EDGES, state.mode, mode), epoch=state.epoch + 1)


def _next(state: SearchState, serving: VectorSpace | None, filling: VectorSpace | None) -> SearchState:
    return evolve(state, epoch=state.epoch + 1, serving=serving, filling=filling)
