"""Which source a scope searches, and the epoch that counts every change."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.migration import (
    EDGES,
    SearchMode,
    SearchState,
    begin_filling,
    change,
    rollback,
    serve,
    start,
    switch,
    unfill,
)
from imgproc_domain.search import Source

M = SearchMode
OLD, NEW, THIRD = (VectorSpace(name, 8) for name in ("old", "new", "third"))


@pytest.mark.parametrize(("source", "target"), list(product(SearchMode, repeat=2)))
def test_a_mode_changes_exactly_where_the_table_has_an_edge_and_raises_the_epoch(
    source: SearchMode, target: SearchMode
) -> None:
    state = SearchState(source, epoch=7)
    if target in EDGES[source]:
        assert change(state, target) == SearchState(target, epoch=8)
    else:
        with pytest.raises(IllegalTransition):
            change(state, target)


def test_a_scope_without_a_legacy_generation_searches_incremental_vectors_from_the_start() -> None:
    assert SearchState() == SearchState(SearchMode.INCREMENTAL_ONLY, epoch=1)
    assert SearchState().source is Source.INCREMENTAL


@pytest.mark.parametrize("mode", SearchMode)
def test_every_mode_reads_exactly_one_source_and_the_legacy_one_until_the_switch(mode: SearchMode) -> None:
    switched = mode is SearchMode.INCREMENTAL_ONLY
    assert SearchState(mode).source is (Source.INCREMENTAL if switched else Source.LEGACY)


@given(st.lists(st.sampled_from(SearchMode), max_size=30))
def test_no_two_states_in_the_life_of_a_scope_share_an_epoch(wishes: list[SearchMode]) -> None:
    state = SearchState()
    epochs = [state.epoch]
    for wish in wishes:
        if wish in EDGES[state.mode]:
            state = change(state, wish)
            epochs.append(state.epoch)
    assert epochs == list(range(1, len(epochs) + 1))


def test_a_scope_goes_from_its_legacy_index_to_findable_vectors_and_back() -> None:
    legacy = SearchState(M.LEGACY_ONLY, 3, serving=OLD)
    begun = start(legacy)
    assert begun == SearchState(M.BACKFILL, 4, serving=OLD)
    assert switch(begun, OLD) == SearchState(M.INCREMENTAL_ONLY, 5, serving=OLD)
    assert rollback(switch(begun, OLD)) == SearchState(M.LEGACY_ONLY, 6, serving=OLD)
    assert rollback(begun) == SearchState(M.LEGACY_ONLY, 5, serving=OLD)


def test_a_switch_from_the_legacy_index_may_end_at_the_space_that_was_filled() -> None:
    begun = SearchState(M.BACKFILL, 4, serving=OLD, filling=NEW)
    assert switch(begun, NEW) == SearchState(M.INCREMENTAL_ONLY, 5, serving=NEW)


def test_a_space_is_filled_beside_the_serving_one_and_takes_its_place() -> None:
    filling = begin_filling(SearchState(epoch=2, serving=OLD), THIRD, NEW)
    assert filling == SearchState(epoch=3, serving=OLD, filling=NEW)
    assert serve(filling) == SearchState(epoch=4, serving=NEW)
    assert unfill(filling) == SearchState(epoch=4, serving=OLD)


def test_a_scope_that_serves_no_space_yet_serves_the_one_it_is_embedded_in_while_another_is_filled() -> None:
    assert begin_filling(SearchState(), OLD, NEW) == SearchState(epoch=2, serving=OLD, filling=NEW)


@pytest.mark.parametrize("mode", SearchMode)
def test_filling_a_space_leaves_the_source_alone(mode: SearchMode) -> None:
    filling = begin_filling(SearchState(mode, serving=OLD), OLD, NEW)
    assert {state.mode for state in (filling, serve(filling), unfill(filling))} == {mode}


@pytest.mark.parametrize(
    "step",
    {
        "fill what serves": lambda: begin_filling(SearchState(serving=OLD), NEW, OLD),
        "fill what would serve": lambda: begin_filling(SearchState(), OLD, OLD),
        "fill two": lambda: begin_filling(SearchState(serving=OLD, filling=NEW), OLD, THIRD),
        "fill it twice": lambda: begin_filling(SearchState(serving=OLD, filling=NEW), OLD, NEW),
        "serve nothing": lambda: serve(SearchState(serving=OLD)),
        "give up nothing": lambda: unfill(SearchState(serving=OLD)),
        "start again": lambda: start(SearchState(M.BACKFILL)),
        "start without a legacy index": lambda: start(SearchState(M.INCREMENTAL_ONLY)),
        "switch at once": lambda: switch(SearchState(M.LEGACY_ONLY), OLD),
        "switch again": lambda: switch(SearchState(M.INCREMENTAL_ONLY), OLD),
        "roll back again": lambda: rollback(SearchState(M.LEGACY_ONLY)),
    }.values(),
)
def test_other_steps_are_none(step: Callable[[], SearchState]) -> None:
    with pytest.raises(IllegalTransition):
        step()


@pytest.mark.parametrize("mode", SearchMode)
def test_a_state_is_settled_when_nothing_is_being_completed(mode: SearchMode) -> None:
    assert SearchState(mode, serving=OLD).settled is (mode is not M.BACKFILL)
    assert not SearchState(mode, serving=OLD, filling=NEW).settled
