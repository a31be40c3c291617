"""A question is parsed once; its answers stand in one order, each at most once."""

import math
from uuid import UUID

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.errors import InvalidQuery
from imgproc_domain.ids import MemeId
from imgproc_domain.search import (
    HEAD,
    MAX_OFFSET,
    MAX_RESULTS,
    MEANING,
    QUERY_LIMIT,
    Hit,
    Neighbour,
    Query,
    Ranking,
    WordMatch,
    page,
    parse_query,
    wanted,
)

IDS = [MemeId(UUID(int=n)) for n in range(1, 2 * HEAD + 51)]
SCORES = st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0])
QUERIES = st.builds(Query, st.just("cat"), st.integers(1, 10), SCORES, st.just(Ranking.HYBRID), st.integers(0, 8))
DISTANCES = (0.0, 0.25, 0.5, 1.0, 2.0)


@frozen
class Library:
    """What can be found: every meme with its distance, and those that have words of the query with their shares."""

    distances: dict[MemeId, float]
    shares: dict[MemeId, float]

    @property
    def nearest(self) -> list[Neighbour]:
        found = [Neighbour(meme_id, distance) for meme_id, distance in self.distances.items()]
        return sorted(found, key=lambda n: (n.distance, n.meme_id))

    @property
    def worded(self) -> list[WordMatch]:
        found = [WordMatch(meme_id, share, self.distances[meme_id]) for meme_id, share in self.shares.items()]
        return sorted(found, key=lambda match: (-match.share, match.meme_id))[:HEAD]

    def asked(self, query: Query) -> list[Hit]:
        """Return a page, found with no more than `page` says that it needs."""
        return list(page(query, self.nearest[: wanted(query)], self.worded).hits)

    def order(self, min_score: float | None = None) -> list[MemeId]:
        everything = Query("cat", 10 * len(IDS), min_score)
        return [hit.meme_id for hit in page(everything, self.nearest, self.worded).hits]


@st.composite
def libraries(draw: st.DrawFn) -> Library:
    size = draw(st.sampled_from([0, 1, 3, 8, HEAD, HEAD + 2, len(IDS)]))
    random = draw(st.randoms(use_true_random=False))
    distances = {meme_id: random.choice(DISTANCES) for meme_id in IDS[:size]}
    worded = random.sample(IDS[:size], random.randint(0, size))
    return Library(distances, {meme_id: random.choice([0.3, 0.5, 1.0]) for meme_id in worded})


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


@pytest.mark.parametrize("offset", [0, 1, MAX_OFFSET])
def test_results_may_be_passed_over(offset: int) -> None:
    assert parse_query("cat", offset=offset).offset == offset


@pytest.mark.parametrize("offset", [-1, MAX_OFFSET + 1])
def test_no_other_number_of_results_may_be_passed_over(offset: int) -> None:
    with pytest.raises(InvalidQuery, match="offset"):
        parse_query("cat", offset=offset)


def test_meaning_and_words_are_ranked_together_unless_somebody_wants_meaning_alone() -> None:
    assert parse_query("cat").ranking is Ranking.HYBRID
    assert parse_query("cat", ranking=Ranking.SEMANTIC).ranking is Ranking.SEMANTIC


def test_what_an_approximate_index_missed_stays_behind_what_it_found_on_every_page() -> None:
    found = [Neighbour(MemeId(UUID(int=n)), distance) for n, distance in enumerate((0.1, 0.3, 0.4, 0.2, 0.5), start=1)]
    order = [neighbour.meme_id for neighbour in found]
    for offset in range(5):
        query = Query("cat", 1, ranking=Ranking.SEMANTIC, offset=offset)
        assert [hit.meme_id for hit in page(query, found[: wanted(query)]).hits] == order[offset : offset + 1]


@given(libraries(), SCORES, st.integers(1, 60))
def test_pages_follow_each_other_without_gap_or_repetition_to_the_last_meme(
    library: Library, min_score: float | None, n_results: int
) -> None:
    seen: list[MemeId] = []
    offset: int | None = 0
    while offset is not None:
        query = Query("cat", n_results, min_score, offset=offset)
        found = page(query, library.nearest[: wanted(query)], library.worded)
        seen.extend(hit.meme_id for hit in found.hits)
        assert len(found.hits) == n_results or found.next_offset is None
        offset = found.next_offset
    assert seen == library.order(min_score)
    limit = -math.inf if min_score is None else min_score
    assert sorted(seen) == sorted(key for key, distance in library.distances.items() if 1 - distance >= limit)


@given(libraries(), QUERIES)
def test_a_score_is_a_cosine_whatever_decided_the_order(library: Library, query: Query) -> None:
    assert all(hit.score == 1.0 - library.distances[hit.meme_id] for hit in library.asked(query))


@given(libraries(), QUERIES)
def test_by_meaning_alone_answers_come_nearest_first_and_then_by_id(library: Library, query: Query) -> None:
    library = Library(library.distances, {})
    hits = library.asked(query)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.meme_id))
    assert all(hit.matched == (MEANING,) for hit in hits)


@given(libraries(), QUERIES)
def test_what_is_on_a_page_is_near_or_has_words(library: Library, query: Query) -> None:
    near = {neighbour.meme_id for neighbour in library.nearest[: query.end]}
    for hit in library.asked(query):
        assert (MEANING in hit.matched) == (hit.meme_id in near)
        assert hit.matched or hit.meme_id in library.shares


def test_a_meme_is_given_once_where_it_came_first() -> None:
    twice = [Neighbour(IDS[0], 0.25), Neighbour(IDS[1], 0.3), Neighbour(IDS[0], 0.5)]
    assert page(Query("cat"), twice).hits == (Hit(IDS[0], 0.75), Hit(IDS[1], 0.7))


def test_equal_ranks_by_meaning_and_by_words_are_decided_by_distance_and_then_by_age() -> None:
    nearest = [Neighbour(IDS[2], 0.5)]
    for other, distance, first in ((IDS[1], 0.5, IDS[1]), (IDS[3], 0.5, IDS[2]), (IDS[1], 0.6, IDS[2])):
        found = page(Query("cat"), nearest, [WordMatch(other, 1.0, distance)]).hits
        assert found[0].meme_id == first


def test_a_page_ends_where_the_memes_end() -> None:
    two = [Neighbour(IDS[0], 0.25), Neighbour(IDS[1], 0.5)]
    assert page(Query("cat", 1), two).next_offset == 1
    assert page(Query("cat", 2), two).next_offset is None
    assert page(Query("cat", 1, min_score=0.7), two).next_offset is None
    assert page(Query("cat", 1, offset=2), two).hits == ()


def _spread(size: int) -> dict[MemeId, float]:
    return {meme_id: place / size for place, meme_id in enumerate(IDS[:size])}


def test_a_meme_with_all_words_comes_second_at_worst_however_little_it_means_the_same() -> None:
    distances = _spread(len(IDS))
    last = IDS[-1]
    assert Library(distances, {last: 1.0}).order()[:3] == [IDS[0], last, IDS[1]]
    assert Library(distances, {IDS[50]: 1.0}).order()[:2] == [IDS[50], IDS[0]]


def test_few_words_lift_a_meme_less_than_many() -> None:
    orders = [Library(_spread(len(IDS)), {IDS[-1]: share}).order().index(IDS[-1]) for share in (1.0, 0.94, 0.5, 0.3)]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)


def test_the_best_by_words_comes_first_among_equals_by_meaning() -> None:
    library = Library(_spread(3), {IDS[1]: 0.5, IDS[2]: 1.0})
    assert library.order() == [IDS[2], IDS[1], IDS[0]]
