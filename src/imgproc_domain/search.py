"""A question, its answers, and the order they stand in."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.errors import InvalidQuery
from imgproc_domain.ids import MemeId
from imgproc_domain.text import clean

QUERY_LIMIT: Final = 1_000
MAX_RESULTS: Final = 100


class Source(StrEnum):
    """Where one query's answers come from: exactly one of the two (I15)."""

    INCREMENTAL = "incremental"
    LEGACY = "legacy"


@frozen
class Query:
    """A parsed search: 1..100 results, scores from -1 to 1."""

    text: str
    n_results: int = 10
    min_score: float | None = None


def parse_query(text: str, n_results: int = 10, min_score: float | None = None) -> Query:
    """Parse a search from outside.

    Raises:
        InvalidQuery: blank or over-long text, ``n_results`` outside 1..100, ``min_score`` outside -1..1.
    """
    cleaned = clean(text, max(len(text), 1))
    if not cleaned:
        raise InvalidQuery("the query is blank")
    if len(cleaned) > QUERY_LIMIT:
        raise InvalidQuery(f"the query is longer than {QUERY_LIMIT} characters")
    if not 1 <= n_results <= MAX_RESULTS:
        raise InvalidQuery(f"n_results is a number from 1 to {MAX_RESULTS}")
    if min_score is not None and not -1.0 <= min_score <= 1.0:
        raise InvalidQuery("min_score is a number from -1 to 1")
    return Query(cleaned, n_results, min_score)


@frozen
class Neighbour:
    """A findable vector and its cosine distance (0..2) to the query."""

    meme_id: MemeId
    distance: float


@frozen
class Hit:
    """One answer. ``score`` is 1 minus the cosine distance."""

    meme_id: MemeId
    score: float
    matched: tuple[str, ...] = ("meaning",)


@frozen
class Coverage:
    """How many of the scope's memes can be found."""

    searchable: int
    total: int


@frozen
class Answer:
    source: Source
    epoch: int
    hits: tuple[Hit, ...]
    coverage: Coverage


def rank(neighbours: Iterable[Neighbour], query: Query) -> tuple[Hit, ...]:
    """Order by distance, then id; never the same meme twice; nothing under ``min_score``; at most ``n_results``."""
    best: dict[MemeId, float] = {}
    for neighbour in sorted(neighbours, key=lambda n: (n.distance, n.meme_id)):
        best.setdefault(neighbour.meme_id, 1.0 - neighbour.distance)
    hits = (Hit(meme_id, score) for meme_id, score in best.items())
    wanted = (hit for hit in hits if query.min_score is None or hit.score >= query.min_score)
    return tuple(wanted)[: query.n_results]
