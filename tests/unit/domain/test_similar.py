"""How matches are named and ordered."""

import pytest

from imgproc_adapters.testing.factories import new_id
from imgproc_domain.errors import InvalidQuery
from imgproc_domain.ids import MemeId
from imgproc_domain.search import Neighbour
from imgproc_domain.similar import Likeness, Match, Wanted, matches, parse_wanted

NEAR = 0.9
ONE, TWO, THREE = (MemeId(new_id()) for _ in range(3))


def test_the_threshold_itself_is_near_and_anything_under_it_is_only_similar() -> None:
    found = matches([Neighbour(ONE, 0.25), Neighbour(TWO, 0.25000001)], Wanted(10), 0.75)
    assert [match.kind for match in found] == [Likeness.NEAR, Likeness.SIMILAR]


def test_the_most_alike_come_first_and_equals_by_id() -> None:
    neighbours = [Neighbour(THREE, 0.5), Neighbour(TWO, 0.5), Neighbour(ONE, 0.75)]
    assert [match.meme_id for match in matches(neighbours, Wanted(10), NEAR)] == [TWO, THREE, ONE]


def test_the_same_bytes_come_first_also_before_a_vector_that_is_as_near() -> None:
    found = matches([Neighbour(ONE, 0.0), Neighbour(TWO, 0.1)], Wanted(10), NEAR, exact=TWO)
    assert found == (Match(TWO, 1.0, Likeness.EXACT), Match(ONE, 1.0, Likeness.NEAR))


def test_the_same_bytes_count_among_the_results() -> None:
    found = matches([Neighbour(ONE, 0.0), Neighbour(THREE, 0.5)], Wanted(2), NEAR, exact=TWO)
    assert [match.meme_id for match in found] == [TWO, ONE]


def test_a_picture_is_named_once_by_its_best_score() -> None:
    found = matches([Neighbour(ONE, 0.5), Neighbour(ONE, 0.25)], Wanted(10), NEAR)
    assert [(match.meme_id, match.score) for match in found] == [(ONE, 0.75)]


def test_nothing_under_the_least_score_is_named() -> None:
    found = matches([Neighbour(ONE, 0.5), Neighbour(TWO, 0.500001)], Wanted(10, 0.5), NEAR, exact=THREE)
    assert [match.meme_id for match in found] == [THREE, ONE]


@pytest.mark.parametrize("n_results", [1, 100])
def test_what_can_be_wanted_is_taken_as_it_is(n_results: int) -> None:
    assert parse_wanted(n_results, -1.0) == Wanted(n_results, -1.0)
    assert parse_wanted(n_results) == Wanted(n_results)


@pytest.mark.parametrize(
    ("n_results", "min_score"), [(0, None), (101, None), (10, 1.01), (10, -1.01), (10, float("nan"))]
)
def test_what_cannot_be_wanted_is_refused(n_results: int, min_score: float | None) -> None:
    with pytest.raises(InvalidQuery):
        parse_wanted(n_results, min_score)
