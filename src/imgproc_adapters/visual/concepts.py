"""Subject tags from a classifier's logits: names people use, with honest probabilities."""

from functools import cache
from importlib import resources
from typing import Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

_CLASSES: Final = 1000


@frozen
class Concept:
    """Something a picture may show, and the classes of ILSVRC-2012 that count as it."""

    english: str
    chinese: str
    classes: frozenset[int]


@frozen
class Tag:
    """A concept found in a picture; `confidence` is the classifier's probability for all its classes together."""

    english: str
    chinese: str
    confidence: float


def tags(logits: NDArray[np.float32], minimum: float = 0.3, limit: int = 5) -> tuple[Tag, ...]:
    """The concepts of one picture's 1,000 logits with at least `minimum` probability, likeliest first.

    Of equally likely ones the more special comes first: "polar bear" before "bear".
    """
    chances = _softmax(logits)
    found = [(float(chances[list(concept.classes)].sum()), concept) for concept in concepts()]
    likely = sorted(
        (hit for hit in found if hit[0] >= minimum), key=lambda hit: (-round(hit[0], 2), len(hit[1].classes))
    )
    return tuple(Tag(c.english, c.chinese, round(min(chance, 1.0), 3)) for chance, c in likely[:limit])


@cache
def concepts() -> tuple[Concept, ...]:
    """The table in `concepts.txt`."""
    text = resources.files("imgproc_adapters.visual").joinpath("concepts.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_concept(*line.split("|")) for line in lines)


def _concept(english: str, chinese: str, ranges: str) -> Concept:
    classes: set[int] = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        classes.update(range(int(first), int(last or first) + 1))
    return Concept(english, chinese, frozenset(classes))


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    powers: NDArray[np.float64] = np.exp(logits.astype(np.float64) - float(logits.max()))
    return powers / float(powers.sum())
