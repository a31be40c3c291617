"""A question is parsed once; its answers stand in one order, each at most once."""

import math
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.errors import InvalidQuery
from imgproc_domain.ids import MemeId
from imgproc_domain.search import MAX_RESULTS, QUERY_LIMIT, Hit, Neighbour, Query, parse_query, rank

IDS = [MemeId(UUID(int=n)) for n in range(1, 9)]
NEIGHBOURS = st.lists(st.builds(Neighbour, st.sampled_from(IDS), st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])))
QUERIES = st.builds(Query, st.just("cat"), st.integers(1, 10), st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0]))


def test_a_question_is_cleaned() -> None:
    assert parse_query("  猫\0 on monday\n") == Query("猫 on monday", 10, None)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\0", "\ud800"])
def test_a_blank_question_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="blank"):
        parse_query(text)


def test_a_question_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert len(parse_query("x" * QUERY_LIMIT).text) == QUERY_LIMIT
    for length in (QUERY_LIMIT + 1, QUERY_LIMIT + 2, 100_000):
        with pytest.raises(InvalidQuery, match=str(QUERY_LIMIT)):
            parse_query("x" * length)


def test_a_question_that_is_too_long_is_refused_wherever_its_blanks_are() -> None:
    with pytest.raises(InvalidQuery):
        parse_query("cat" + " " * 2_000 + "dog")


@pytest.mark.parametrize("n_results", [1, 50, MAX_RESULTS])
def test_between_one_and_a_hundred_answers_may_be_asked_for(n_results: int) -> None:
    assert parse_query("cat", n_results).n_results == n_results


@pytest.mark.parametrize("n_results", [-1, 0, MAX_RESULTS + 1])
def test_no_other_number_of_answers_may_be_asked_for(n_results: int) -> None:
    with pytest.raises(InvalidQuery, match="n_results"):
        parse_query("cat", n_results)


@pytest.mark.parametrize("min_score", [-1.0, 0.0, 1.0])
def test_a_score_lies_between_minus_one_and_one(min_score: float) -> None:
    assert parse_query("cat", min_score=min_score).min_score == min_score


@pytest.mark.parametrize("min_score", [-1.01, 1.01, math.inf, -math.inf, math.nan])
def test_no_other_score_may_be_asked_for(min_score: float) -> None:
    with pytest.raises(InvalidQuery, match="min_score"):
        parse_query("cat", min_score=min_score)


@given(NEIGHBOURS, QUERIES, st.randoms())
def test_the_order_of_the_answers_does_not_depend_on_the_order_they_were_found_in(
    neighbours: list[Neighbour], query: Query, random: Random
) -> None:
    shuffled = list(neighbours)
    random.shuffle(shuffled)
    assert rank(shuffled, query) == rank(neighbours, query)


@given(NEIGHBOURS, QUERIES)
def test_answers_come_best_first_then_by_id_and_never_twice(neighbours: list[Neighbour], query: Query) -> None:
    hits = rank(neighbours, query)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.meme_id))
    assert len({hit.meme_id for hit in hits}) == len(hits)


@given(NEIGHBOURS, QUERIES)
def test_answers_are_the_best_ones_above_the_cut_off_and_as_many_as_were_asked_for(
    neighbours: list[Neighbour], query: Query
) -> None:
    best: dict[MemeId, float] = {}
    for neighbour in neighbours:
        best[neighbour.meme_id] = max(best.get(neighbour.meme_id, -math.inf), 1.0 - neighbour.distance)
    wanted = [score for score in best.values() if query.min_score is None or score >= query.min_score]
    hits = rank(neighbours, query)
    assert [hit.score for hit in hits] == sorted(wanted, reverse=True)[: query.n_results]
    assert all(hit.score == best[hit.meme_id] for hit in hits)


def test_a_tie_is_broken_by_the_older_picture() -> None:
    tied = [Neighbour(IDS[2], 0.5), Neighbour(IDS[0], 0.5), Neighbour(IDS[1], 0.25)]
    assert rank(tied, Query("cat")) == (Hit(IDS[1], 0.75), Hit(IDS[0], 0.5), Hit(IDS[2], 0.5))
