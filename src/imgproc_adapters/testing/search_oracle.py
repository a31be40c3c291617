"""What a search must answer, worked out in plain Python from what happened to a library.

It knows the promises of search - what may be found, in which order, by which source and space - and none of the
statements, stores and functions that keep them. `Library` is told of every event; `Library.answer` says what is found.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from attrs import Factory, define, frozen

from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.ids import MemeId
from imgproc_domain.search import MEANING, Answer, Coverage, Hit, Query, Ranking, Source
from imgproc_domain.vector import Vector
from imgproc_domain.words import Field

LEGACY: Final = "legacy_only"
BACKFILL: Final = "backfill"
INCREMENTAL: Final = "incremental_only"

_NONZERO: Final = 4
_FIELDS: Final = {"title": 1.0, "visible_text": 0.98, "keywords": 0.96, "file_name": 0.94}
_LEAST: Final = 0.4
_SMALL: Final = frozenset({"a", "at"})
_TERM: Final = re.compile("[a-z0-9]+|[\u4e00-\u9fff]+")


def exact_vector(text: str, dimension: int) -> Vector:
    """Return a unit vector of a text with four components of plus or minus one half, and no others.

    Every distance between two of them is a multiple of a quarter, in half as in double precision: many are equal.
    """
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    places = list(combinations(range(dimension), _NONZERO))
    chosen = places[(number >> _NONZERO) % len(places)]
    components = [0.0] * dimension
    for bit, place in enumerate(chosen):
        components[place] = 0.5 if number >> bit & 1 else -0.5
    return Vector.unit(components)


def distance(one: Vector, other: Vector) -> float:
    return 1.0 - sum(a * b for a, b in zip(one.components, other.components, strict=True))


def text_of(description: Description | None) -> str:
    """Return what is embedded of the fields that are used here."""
    if description is None:
        return ""
    lines = (description.title, description.summary, description.visible_text, ", ".join(description.keywords))
    return "\n".join(line for line in lines if line)


@define
class Shown:
    """A picture as it is now: which bytes, which name, which words."""

    content: str
    filename: str
    description: Description | None = None
    alive: bool = True

    @property
    def version(self) -> tuple[str, str]:
        return self.content, text_of(self.description)

    def fields(self) -> Mapping[str, str]:
        words = self.description or Description()
        texts = (words.title, words.visible_text, "\n".join(words.keywords), self.filename)
        return {name: text.lower() for name, text in zip(_FIELDS, texts, strict=True)}


@frozen
class Copied:
    """A legacy generation: the vectors that were findable in its space, and the versions they were made from."""

    space: VectorSpace
    entries: Mapping[MemeId, tuple[tuple[str, str], Vector]]


@frozen
class Expected:
    """What a search reads: its vectors, and what it says of the scope."""

    source: Source
    space: VectorSpace
    vectors: Mapping[MemeId, Vector]
    coverage: Coverage


@define
class Library:
    """One scope; ``own`` is the space of the process's main text model.

    ``made`` are the vectors of all pictures, contents, texts and spaces that were written. ``wordless`` are findable
    vectors, by space and meme, whose words nobody has written yet. ``lost`` are contents whose file is gone.
    """

    own: VectorSpace
    shown: dict[MemeId, Shown] = Factory(dict)
    made: dict[tuple[MemeId, str, str, str], Vector] = Factory(dict)
    wordless: set[tuple[str, MemeId]] = Factory(set)
    lost: set[str] = Factory(set)
    mode: str = INCREMENTAL
    epoch: int = 1
    serving: VectorSpace | None = None
    filling: VectorSpace | None = None
    copied: Copied | None = None

    @property
    def serves(self) -> VectorSpace:
        return self.serving or self.own

    def live(self) -> list[MemeId]:
        return sorted(meme_id for meme_id, shown in self.shown.items() if shown.alive)

    def write(self, meme_id: MemeId, version: tuple[str, str], space: VectorSpace) -> None:
        self.made[meme_id, *version, space.id] = exact_vector(version[1], space.dimension)
        self.wordless.discard((space.id, meme_id))

    def pin(self, space: VectorSpace) -> None:
        """A scope's first vector says which space it serves."""
        self.serving = self.serving or space

    def step(self, mode: str) -> None:
        self.mode, self.epoch = mode, self.epoch + 1

    def begin_filling(self, space: VectorSpace) -> None:
        """Fill one of two spaces, if the other one serves."""
        if space not in (self.filling, self.serves):
            self.serving, self.filling = self.serves, space
            self.step(self.mode)

    def touch(self, meme_id: MemeId) -> None:
        """Whatever changes a picture, its context or its name brings its words into line."""
        self.wordless -= {found for found in self.wordless if found[1] == meme_id}

    def findable(self, space: VectorSpace) -> dict[MemeId, Vector]:
        """Exactly the live, described memes that have a vector of what they are now (I14)."""
        keys = {meme_id: (meme_id, *self.shown[meme_id].version, space.id) for meme_id in self.live()}
        return {meme_id: self.made[key] for meme_id, key in keys.items() if key[2] and key in self.made}

    def missing(self, space: VectorSpace) -> list[MemeId]:
        found = self.findable(space)
        indexable = (meme_id for meme_id in self.live() if self.shown[meme_id].version[1])
        return [meme_id for meme_id in indexable if meme_id not in found or (space.id, meme_id) in self.wordless]

    def copy(self) -> None:
        found = self.findable(self.serves)
        self.copied = Copied(self.serves, {key: (self.shown[key].version, vector) for key, vector in found.items()})

    def forget_old(self, used: Collection[str]) -> None:
        """Vectors of former versions go, and those of unused spaces, where others stand for the same meme."""
        for meme_id in self.live():
            content, text = self.shown[meme_id].version
            own = [key for key in self.made if key[0] == meme_id]
            current = [key for key in own if key[1:3] == (content, text)]
            stale = [key for key in own if key not in current and (key[1] != content or current)]
            if any(key[3] in used for key in current):
                stale += [key for key in current if key[3] not in used]
            for key in stale:
                del self.made[key]
                if key in current:
                    self.wordless.discard((key[3], meme_id))

    def reads(self) -> Expected:
        total = len(self.live())
        if self.mode == INCREMENTAL:
            found = self.findable(self.serves)
            return Expected(Source.INCREMENTAL, self.serves, found, Coverage(len(found), total))
        assert self.copied is not None, "a scope reads a legacy index only where it has one"
        usable = {
            meme_id: vector
            for meme_id, (version, vector) in self.copied.entries.items()
            if meme_id in self.shown and self.shown[meme_id].alive and self.shown[meme_id].version == version
        }
        there = {key: vector for key, vector in usable.items() if self.shown[key].content not in self.lost}
        return Expected(Source.LEGACY, self.copied.space, there, Coverage(len(usable), total))

    def answer(self, query: Query) -> Answer | None:
        """Return what a search finds; None if there is nothing that could be found at all."""
        read = self.reads()
        if read.coverage.searchable == 0:
            return None
        asked = exact_vector(query.text, read.space.dimension)
        by_meaning = sorted((distance(asked, vector), meme_id) for meme_id, vector in read.vectors.items())
        ranking = query.ranking if read.source is Source.INCREMENTAL else Ranking.SEMANTIC
        terms = asked_for(query.text) if ranking is Ranking.HYBRID else {}
        order = self._fused(by_meaning, terms, read.space) if terms else [meme_id for _, meme_id in by_meaning]
        scores = {meme_id: 1.0 - far for far, meme_id in by_meaning}
        least = -1.0 if query.min_score is None else query.min_score
        order = [meme_id for meme_id in order if scores[meme_id] >= least]
        end = query.offset + query.n_results
        near = {meme_id for _, meme_id in by_meaning[:end]}
        hits = tuple(
            Hit(key, scores[key], (*((MEANING,) if key in near else ()), *self._fields(key, terms)))
            for key in order[query.offset : end]
        )
        following = end if len(order) > end else None
        return Answer(read.source, self.epoch, hits, read.coverage, ranking, read.space.id, following)

    def _fused(
        self, by_meaning: Sequence[tuple[float, MemeId]], terms: Mapping[str, Sequence[str]], space: VectorSpace
    ) -> list[MemeId]:
        asked = dict.fromkeys(word for words in terms.values() for word in words)
        shares = []
        for far, meme_id in by_meaning:
            known = {} if (space.id, meme_id) in self.wordless else self._words(meme_id)
            share = round(sum(known.get(word, 0.0) for word in asked) / len(asked), 4)
            if share >= _LEAST:
                shares.append((-share, len(known), meme_id, far))
        merits = {meme_id: 1.0 / (60 + rank) for rank, (_, meme_id) in enumerate(by_meaning, 1)}
        for rank, (share, _, meme_id, _) in enumerate(sorted(shares), 1):
            merits[meme_id] += -share / (60 + rank)
        return [meme_id for far, meme_id in sorted(by_meaning, key=lambda found: (-merits[found[1]], *found))]

    def _words(self, meme_id: MemeId) -> dict[str, float]:
        """Return a meme's words with the weight of the best field that each is in."""
        words: dict[str, float] = {}
        for name, text in self.shown[meme_id].fields().items():
            for word in (word for found in cut(text).values() for word in found):
                words.setdefault(word, _FIELDS[name])
        return words

    def _fields(self, meme_id: MemeId, terms: Mapping[str, Sequence[str]]) -> Iterator[Field]:
        total = sum(map(len, terms.values()))
        for name, text in self.shown[meme_id].fields().items():
            has = sum(_held(term, cut(text)) for term in terms)
            if has and has >= _LEAST * total:
                yield Field(name)


def cut(text: str) -> dict[str, list[str]]:
    """Return the terms of a text, each with its words: a word is itself, a Chinese phrase its pairs of characters."""
    terms = _TERM.findall(text.lower())
    return {term: _pairs(term) if not term.isascii() else [term] for term in terms}


def asked_for(query: str) -> dict[str, list[str]]:
    """Return the terms of a query: small words are asked for only where there are no others."""
    terms = cut(query)
    return {term: words for term, words in terms.items() if term not in _SMALL} or terms


def _pairs(phrase: str) -> list[str]:
    return [phrase[i : i + 2] for i in range(len(phrase) - 1)] or [phrase]


def _held(term: str, terms: Collection[str]) -> int:
    """Return how many words of a term stand in a text side by side."""
    if term.isascii():
        return int(term in terms)
    if len(term) == 1:
        return int(any(term in other for other in terms))
    parts = ((i, j) for i in range(len(term)) for j in range(i + 2, len(term) + 1))
    return max((j - i - 1 for i, j in parts if any(term[i:j] in other for other in terms)), default=0)
