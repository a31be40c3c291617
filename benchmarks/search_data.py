"""A library that is large enough to measure search in: vectors in clusters, captions, and queries near them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import psycopg
from attrs import frozen
from numpy.typing import NDArray

from benchmarks.server import Database
from imgproc_adapters.postgres.converter import CONVERTER
from imgproc_adapters.testing.clusters import Clusters, Matrix, make_findable
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.vector import Vector
from imgproc_domain.words import Words, words_of

SPACE: Final = VectorSpace("bench-512", 512)
OTHERS_SIZE: Final = 1_000
MOST_CAPTIONS: Final = 50_000

_TOPICS: Final = 400
_RANK: Final = 48
_CHUNK: Final = 50_000
_TOPIC_WORDS: Final = 12
_COMMON: Final = 5_000
_HAN: Final = 0x4E00
"""The first of the Chinese characters that captions are made of."""

_CONTEXTS: Final = """
    INSERT INTO meme_contexts (scope_id, meme_id, status, revision, description, metadata_hash, updated_at)
    SELECT %s, id, 'ready', 1, description::jsonb, repeat('0', 64), now()
    FROM unnest(%s::uuid[], %s::text[]) AS n (id, description)
"""


@frozen
class Caption:
    """What is said of a picture: the number of its topic, and the same words in three forms."""

    topic: int
    stored: str
    words: Words


@frozen
class Asked:
    """A query and its vector."""

    text: str
    vector: Vector


@frozen
class Filled:
    """A scope whose memes are all findable.

    ``vectors`` has a row a meme, as they are compared in process, and ``captions`` the number of its text; the memes
    stand in the order of their ids.
    """

    scope: Scope
    memes: Sequence[MemeId]
    vectors: Matrix
    captions: NDArray[np.int64]


class Library:
    """Draws captions and vectors, the same ones in every run of one size. Above `MOST_CAPTIONS` they repeat."""

    def __init__(self, captions: int) -> None:
        self._clusters = Clusters(SPACE.dimension, centres=_TOPICS, rank=_RANK)
        self._draw = np.random.default_rng(2)
        self._captions = list(self._made(min(captions, MOST_CAPTIONS)))

    def fill(self, database: Database, scope: Scope, count: int) -> Filled:
        """Write ``count`` memes with contexts, words and vectors into a scope."""
        memes: list[MemeId] = []
        parts: list[Matrix] = []
        drawn: list[NDArray[np.int64]] = []
        for start in range(0, count, _CHUNK):
            numbers = self._draw.integers(0, len(self._captions), min(_CHUNK, count - start))
            some = [self._captions[number] for number in numbers]
            vectors = self._clusters.around(np.array([caption.topic for caption in some]))
            written = make_findable(database.dsn, scope, SPACE, vectors, (caption.words for caption in some))
            _describe(database, scope, written, some)
            memes += written
            parts.append(vectors)
            drawn.append(numbers)
        return Filled(scope, memes, np.concatenate(parts), np.concatenate(drawn))

    @property
    def texts(self) -> list[Words]:
        """The words of every caption there is."""
        return [caption.words for caption in self._captions]

    def ask(self, count: int) -> list[Asked]:
        """Return queries: a topic's words and a common one, with a vector near what is said of the topic."""
        topics = self._clusters.topics(count)
        vectors = [Vector.unit(row.tolist()) for row in self._clusters.around(topics)]
        return [Asked(self._query(int(topic)), vector) for topic, vector in zip(topics, vectors, strict=True)]

    def _made(self, count: int) -> Iterator[Caption]:
        topics = self._draw.integers(0, _TOPICS, count)
        for topic in topics.tolist():
            said = Description(
                title=" ".join([*self._of_topic(topic, 3), self._han(topic)]),
                visible_text=" ".join(self._common(5)),
                keywords=self._of_topic(topic, 3),
            )
            yield Caption(topic, json.dumps(CONVERTER.unstructure(said)), words_of(said, ""))

    def _query(self, topic: int) -> str:
        return " ".join([*self._of_topic(topic, 2), self._han(topic), *self._common(1)])

    def _of_topic(self, topic: int, count: int) -> list[str]:
        return [f"topic{topic}w{number}" for number in self._draw.integers(0, _TOPIC_WORDS, count)]

    def _common(self, count: int) -> list[str]:
        """Return words of which a few are in every other caption, as in any language."""
        ranks: NDArray[Any] = np.minimum(self._draw.zipf(1.3, count), _COMMON)
        return [f"common{rank}" for rank in ranks]

    def _han(self, topic: int) -> str:
        """Return four characters, of which three stand beside each other wherever the topic is spoken of."""
        last = int(self._draw.integers(0, 200))
        return "".join(chr(_HAN + place) for place in (topic * 3, topic * 3 + 1, topic * 3 + 2, 2_000 + last))


def _describe(database: Database, scope: Scope, memes: Sequence[MemeId], captions: Sequence[Caption]) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_CONTEXTS, [scope, list(memes), [caption.stored for caption in captions]])
