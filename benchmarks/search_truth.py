"""What a search must find, worked out in this process: all vectors are compared, and the words of all texts counted.

Nothing of it is SQL, an index, or a half-precision number. Only how two lists become one order is the domain's own.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from benchmarks.search_data import Asked, Filled
from imgproc_domain.ids import MemeId
from imgproc_domain.search import HEAD, Neighbour, Query, Ranking, WordMatch, page
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, Words, query_words

Numbers = NDArray[Any]

_NONE: Final = (np.empty(0, np.int64), np.empty(0))


@frozen
class Truth:
    """The texts of a library: which of them have a word, with which weight, and how many words each has."""

    having: Mapping[str, tuple[Numbers, Numbers]]
    own: Numbers

    def first(self, filled: Filled, asked: Asked, ranking: Ranking, limit: int) -> list[MemeId]:
        """Return the first ``limit`` memes of a scope, 100 at most, in the order of a ranking."""
        similar = filled.vectors @ np.frombuffer(asked.vector.data, np.float32)
        head = min(HEAD, len(similar))
        best = np.argpartition(-similar, head - 1)[:head]
        ordered = best[np.lexsort((best, -similar[best]))].tolist()
        near = [Neighbour(filled.memes[place], 1.0 - float(similar[place])) for place in ordered]
        if ranking is Ranking.SEMANTIC:
            return [neighbour.meme_id for neighbour in near[:limit]]
        worded = self._worded(filled, asked, similar)
        return [hit.meme_id for hit in page(Query(asked.text, limit), near, worded).hits]

    def _worded(self, filled: Filled, asked: Asked, similar: Numbers) -> list[WordMatch]:
        words = query_words(asked.text).words
        has = np.zeros(len(self.own))
        for word in words:
            texts, weights = self.having.get(word, _NONE)
            has[texts] += weights
        shares = np.round(has / len(words), SHARE_DIGITS)[filled.captions]
        (enough,) = np.nonzero(shares >= LEAST_SHARE)
        order = np.lexsort((enough, self.own[filled.captions[enough]], -shares[enough]))
        return [
            WordMatch(filled.memes[place], float(shares[place]), 1.0 - float(similar[place]))
            for place in enough[order[:HEAD]].tolist()
        ]


def truth_of(texts: Sequence[Words]) -> Truth:
    having: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, words in enumerate(texts):
        for field, some in words.by_field.items():
            for word in some:
                having[word].append((number, WEIGHTS[field]))
    return Truth(
        {word: (np.array([n for n, _ in found]), np.array([w for _, w in found])) for word, found in having.items()},
        np.array([len(words) for words in texts]),
    )
