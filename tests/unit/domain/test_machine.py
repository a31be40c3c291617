"""The transition tables as a whole: what each has an edge for happens, and nothing else."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import pytest

from imgproc_domain import attempt, grant, job, migration, task
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.machine import Edges, live, move

TABLES: dict[str, Edges[Any]] = {
    "task": task.EDGES,
    "attempt": attempt.EDGES,
    "grant": grant.EDGES,
    "job": job.EDGES,
    "search mode": migration.EDGES,
}
ENDLESS = {"search mode"}


def pairs() -> Iterator[Any]:
    for name, edges in TABLES.items():
        for source in edges:
            for target in edges:
                yield pytest.param(edges, source, target, id=f"{name}: {source} to {target}")


def reachable(edges: Edges[Any], source: StrEnum) -> set[StrEnum]:
    seen = {source}
    ahead = [source]
    while ahead:
        found = edges[ahead.pop()] - seen
        seen |= found
        ahead.extend(found)
    return seen


@pytest.mark.parametrize(("edges", "source", "target"), list(pairs()))
def test_a_move_is_made_exactly_where_the_table_has_an_edge(
    edges: Edges[Any], source: StrEnum, target: StrEnum
) -> None:
    if target in edges[source]:
        assert move(edges, source, target) is target
    else:
        with pytest.raises(IllegalTransition, match=rf"{type(source).__name__} has no edge {source} -> {target}"):
            move(edges, source, target)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_names_every_state_of_its_enumeration_once(name: str) -> None:
    edges = TABLES[name]
    states: type[StrEnum] = type(next(iter(edges)))
    assert list(edges) == list(states)
    assert all(isinstance(target, states) for targets in edges.values() for target in targets)


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached_from_the_first_one(name: str) -> None:
    edges = TABLES[name]
    assert reachable(edges, next(iter(edges))) == set(edges)


@pytest.mark.parametrize("name", TABLES)
def test_no_state_has_an_edge_to_itself(name: str) -> None:
    assert all(source not in targets for source, targets in TABLES[name].items())


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ENDLESS])
def test_a_terminal_state_never_becomes_active_again_and_every_active_one_can_end(name: str) -> None:
    edges = TABLES[name]
    active = set(live(edges))
    assert active == {state for state in edges if edges[state]}
    for state in edges:
        if state in active:
            assert reachable(edges, state) - active, f"{state} never ends"
        else:
            assert reachable(edges, state) == {state}


def test_a_search_mode_is_never_final() -> None:
    assert live(migration.EDGES) == tuple(migration.SearchMode)


def test_the_live_states_stand_in_the_order_of_their_declaration() -> None:
    assert live(attempt.EDGES) == (
        attempt.AttemptStatus.PREPARED,
        attempt.AttemptStatus.GRANT_COMMITTED,
        attempt.AttemptStatus.EXTERNAL_STARTED,
    )
    assert task.LIVE == (task.TaskStatus.QUEUED, task.TaskStatus.RUNNING)
    assert job.LIVE == (job.JobStatus.QUEUED, job.JobStatus.RUNNING)
    assert grant.LIVE == (grant.GrantStatus.ACQUIRED, grant.GrantStatus.COMMITTED)
