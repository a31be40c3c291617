"""Transition tables: each state machine is data that SQL CHECKs, diagrams and tests read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from imgproc_domain.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)

Edges = Mapping[S, frozenset[S]]


def move(edges: Edges[S], source: S, target: S) -> S:
    """Return ``target`` if the table has the edge; raises `IllegalTransition` otherwise."""
    if target not in edges[source]:
        raise IllegalTransition(f"{type(source).__name__} has no edge {source} -> {target}")
    return target


def live(edges: Edges[S]) -> tuple[S, ...]:
    """Return the states that can still change, in declaration order."""
    return tuple(state for state, targets in edges.items() if targets)
