"""Which source a scope searches, and the epoch that counts every change."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.errors import IllegalTransition
from imgproc_domain.migration import EDGES, SearchMode, SearchState, change
from imgproc_domain.search import Source


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
