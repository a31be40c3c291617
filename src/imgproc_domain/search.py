"""A question, its answers, and the order they stand in."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, Literal, TypeAlias

from attrs import frozen

from imgproc_domain.errors import InvalidQuery
from imgproc_domain.ids import MemeId
from imgproc_domain.text import clean
from imgproc_domain.words import Field

QUERY_LIMIT: Final = 1_000
MAX_RESULTS: Final = 100
MAX_OFFSET: Final = 10_000

MEANING: Final = "meaning"
Matched: TypeAlias = Literal["meaning"] | Field

HEAD: Final = 100
"""So many memes nearest by meaning, and as many that are best by words, are ranked together."""

_RANK: Final = 60
"""The usual constant of reciprocal rank fusion: how little the very first ranks differ from those behind them."""


class Source(StrEnum):
    """Where one query's answers come from: exactly one of the two (I15)."""

    INCREMENTAL = "incremental"
    LEGACY = "legacy"


class Ranking(StrEnum):
    """By meaning alone, or by meaning and words together."""

    SEMANTIC = "semantic"
    HYBRID = "hybrid"


@frozen
class Query:
    """A parsed search: 1..100 results behind the first ``offset`` ones, scores from -1 to 1."""

    text: str
    n_results: int = 10
    min_score: float | None = None
    ranking: Ranking = Ranking.HYBRID
    offset: int = 0

    @property
    def end(self) -> int:
        """The position behind the last one asked for."""
        return self.offset + self.n_results


def parse_query(
    text: str,
    n_results: int = 10,
    min_score: float | None = None,
    ranking: Ranking = Ranking.HYBRID,
    offset: int = 0,
) -> Query:
    """Parse a search from outside.

    Raises:
        InvalidQuery: blank or over-long text, ``n_results`` outside 1..100, ``min_score`` outside -1..1, ``offset``
            outside 0..10,000.
    """
    cleaned = clean(text, max(len(text), 1))
    if not cleaned:
        raise InvalidQuery("the query is blank")
    if len(cleaned) > QUERY_LIMIT:
        raise InvalidQuery(f"the query is longer than {QUERY_LIMIT} characters")
    expect_bounds(n_results, min_score)
    if not 0 <= offset <= MAX_OFFSET:
        raise InvalidQuery(f"offset is a number from 0 to {MAX_OFFSET}")
    return Query(cleaned, n_results, min_score, ranking, offset)


def expect_bounds(n_results: int, min_score: float | None) -> None:
    """Raise `InvalidQuery` unless 1..100 results are asked for, and scores from -1 to 1."""
    if not 1 <= n_results <= MAX_RESULTS:
        raise InvalidQuery(f"n_results is a number from 1 to {MAX_RESULTS}")
    if min_score is not None and not -1.0 <= min_score <= 1.0:
        raise InvalidQuery("min_score is a number from -1 to 1")


@frozen
class Neighbour:
    """A findable vector and its cosine distance (0..2) to the query."""

    meme_id: MemeId
    distance: float


@frozen
class WordMatch:
    """A findable meme with its ``share`` (0..1) of the query's words, and its cosine distance (0..2) to the query."""

    meme_id: MemeId
    share: float
    distance: float


@frozen
class Hit:
    """One answer. ``score`` is 1 minus the cosine distance; ``matched`` names `MEANING` and fields that have words."""

    meme_id: MemeId
    score: float
    matched: tuple[Matched, ...] = (MEANING,)


@frozen
class Page:
    """Consecutive hits of the order of all findable memes; ``next_offset`` is where the next page begins, if any."""

    hits: tuple[Hit, ...]
    next_offset: int | None


@frozen
class Coverage:
    """How many of the scope's memes can be found."""

    searchable: int
    total: int


@frozen
class Answer:
    """What was found in the space ``space_id``. ``ranking`` is by meaning alone where the source knows no words."""

    source: Source
    epoch: int
    hits: tuple[Hit, ...]
    coverage: Coverage
    ranking: Ranking
    space_id: str
    next_offset: int | None = None


def wanted(query: Query) -> int:
    """Return how many of the nearest memes `page` needs to know: one behind the page tells whether there are more."""
    return query.end + 1 if query.ranking is Ranking.SEMANTIC else max(query.end + 1, HEAD)


def page(query: Query, nearest: Iterable[Neighbour], worded: Sequence[WordMatch] = ()) -> Page:
    """Cut a page out of the order of all findable memes, which is the same for every page of a query.

    The `HEAD` nearest by meaning and as many that are best by words come first, fused by their reciprocal ranks; all
    others follow as they stand in ``nearest``, which are the `wanted` nearest, or all. Both come in their order: what
    an approximate index missed stands behind what it found, on every page. A meme that scores under ``min_score`` has
    no place in the order.
    """
    distances: dict[MemeId, float] = {}
    for neighbour in nearest:
        distances.setdefault(neighbour.meme_id, neighbour.distance)
    by_meaning = list(distances)
    for match in worded:
        distances.setdefault(match.meme_id, match.distance)
    head = _fused(by_meaning[:HEAD], worded[:HEAD], distances)
    scored = ((meme_id, 1.0 - distances[meme_id]) for meme_id in dict.fromkeys([*head, *by_meaning]))
    kept = (found for found in scored if query.min_score is None or found[1] >= query.min_score)
    found = list(islice(kept, query.offset, query.end + 1))
    close = set(by_meaning[: query.end])
    hits = (Hit(meme_id, score, (MEANING,) if meme_id in close else ()) for meme_id, score in found[: query.n_results])
    return Page(tuple(hits), query.end if len(found) > query.n_results else None)


def _fused(
    by_meaning: Iterable[MemeId], by_words: Iterable[WordMatch], distances: Mapping[MemeId, float]
) -> list[MemeId]:
    """Order by the sum of reciprocal ranks, a rank by words counting for as much as the share it is for."""
    merits = {meme_id: 1.0 / (_RANK + rank) for rank, meme_id in enumerate(by_meaning, start=1)}
    for rank, match in enumerate(by_words, start=1):
        merits[match.meme_id] = merits.get(match.meme_id, 0.0) + match.share / (_RANK + rank)
    return sorted(merits, key=lambda meme_id: (-merits[meme_id], distances[meme_id], meme_id))
