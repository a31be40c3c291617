"""Text vectors without a model."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from imgproc_domain.vector import Vector

TEXT_LIMIT: Final = 4_000
"""Characters; what is longer is cut, as by a real model."""


def gram_vector(text: str, dimension: int) -> Vector:
    """Return the unit vector of a text's hashed characters and character bigrams, upper and lower case being one.

    Similar texts share grams and are near each other; a blank text has the vector of nothing, the first axis.
    """
    components = [0.0] * dimension
    for gram in _grams(text[:TEXT_LIMIT].lower()):
        place = _place(gram)
        components[place % dimension] += 1.0 if place & _SIGN else -1.0
    if not any(components):
        components[0] = 1.0
    return Vector.unit(components)


_SIGN: Final = 1 << 40


def _grams(text: str) -> Iterator[str]:
    for word in text.split():
        yield from word
        yield from (word[i : i + 2] for i in range(len(word) - 1))


@lru_cache(maxsize=65_536)
def _place(gram: str) -> int:
    return int.from_bytes(hashlib.blake2b(gram.encode("utf-8", "replace"), digest_size=8).digest(), "big")
