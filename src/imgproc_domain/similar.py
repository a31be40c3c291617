"""Pictures that look alike: how alike, and what that is called."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from attrs import frozen

from imgproc_domain.ids import MemeId
from imgproc_domain.search import Neighbour, expect_bounds

NEAR_SCORE: Final = 0.92
"""From here on two pictures are near duplicates for the local visual model: measured, see docs/similar.md."""

NEAR_DUPLICATES: Final = 5
"""At most so many near duplicates of one picture are named at its upload."""


class Likeness(StrEnum):
    """The same bytes, an edited copy by all appearances, or merely the nearest there is."""

    EXACT = "exact"
    NEAR = "near"
    SIMILAR = "similar"


@frozen
class Wanted:
    """A parsed question for similar pictures: 1..100 results, scores from -1 to 1."""

    n_results: int
    min_score: float | None = None


def parse_wanted(n_results: int = 10, min_score: float | None = None) -> Wanted:
    """Parse what was asked for.

    Raises:
        InvalidQuery: ``n_results`` outside 1..100, ``min_score`` outside -1..1.
    """
    expect_bounds(n_results, min_score)
    return Wanted(n_results, min_score)


@frozen
class Match:
    """One similar picture. ``score`` is 1 minus the cosine distance, and 1 for the same bytes."""

    meme_id: MemeId
    score: float
    kind: Likeness


def matches(
    neighbours: Iterable[Neighbour], wanted: Wanted, near_score: float, exact: MemeId | None = None
) -> tuple[Match, ...]:
    """Name and order what was found: the same bytes first, then by distance, then by id.

    Never the same picture twice, nothing under ``min_score``, at most ``n_results``. The picture with the same bytes
    needs no vector to be found.
    """
    best: dict[MemeId, Match] = {} if exact is None else {exact: Match(exact, 1.0, Likeness.EXACT)}
    for neighbour in sorted(neighbours, key=lambda n: (n.distance, n.meme_id)):
        score = 1.0 - neighbour.distance
        kind = Likeness.NEAR if score >= near_score else Likeness.SIMILAR
        best.setdefault(neighbour.meme_id, Match(neighbour.meme_id, score, kind))
    least = wanted.min_score
    return tuple(match for match in best.values() if least is None or match.score >= least)[: wanted.n_results]
