"""Many vectors that lie as those of real texts do - in clusters - and the quickest way to make them findable.

For tests and measurements of search in large scopes: nothing of a picture is there but its meme, its vector and, where
they are given, its words.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from imgproc_adapters.system import SystemIds
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.words import Field, Words

Matrix = NDArray[np.float32]
"""One unit vector a row: shape (count, dimension)."""

_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_TAIL: Final = struct.pack("!h", -1)
_COLUMNS: Final = struct.pack("!h", 8)
_LENGTH: Final = struct.Struct("!i")
_HALF_HEAD: Final = struct.Struct("!HH")
_NULL: Final = _LENGTH.pack(-1)
_DIGEST: Final = b"0" * 64
_CHUNK: Final = 5_000

_LETTERS: Final = {Field.TITLE: 3, Field.VISIBLE_TEXT: 2, Field.KEYWORDS: 1, Field.FILE_NAME: 0}
"""What tsvector has for weights: A is 3, D is 0."""

_MEMES: Final = """
    INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
        storage_key, created_at, updated_at)
    SELECT %(scope)s, id, '', replace(id::text || id::text, '-', ''), 'image/png', 0, 0, 0, 1, '', now(), now()
    FROM unnest(%(ids)s::uuid[]) AS id
"""
_SCOPE: Final = """
    WITH scope AS (INSERT INTO scopes VALUES (%(scope)s, now()) ON CONFLICT DO NOTHING),
    space AS (INSERT INTO embedding_spaces VALUES (%(space)s, %(dimension)s, now()) ON CONFLICT DO NOTHING)
    INSERT INTO search_migrations (scope_id, mode, epoch, updated_at, serving_space_id, serving_dimension)
    VALUES (%(scope)s, 'incremental_only', 1, now(), %(space)s, %(dimension)s) ON CONFLICT DO NOTHING
"""
_VECTORS: Final = """
    COPY search_vectors (scope_id, space_id, meme_id, image_sha256, metadata_hash, dimension, embedding, words)
    FROM STDIN (FORMAT BINARY)
"""


class Clusters:
    """Draws unit vectors around ``centres`` directions; the same ``seed`` draws the same ones.

    ``spread`` is how far they lie apart: at 1 what a vector has of its own is as long as what it shares with its
    cluster. Both lie in ``rank`` dimensions of all, as those of a model do, by default in every one; an approximate
    index has the harder work the fewer there are.
    """

    def __init__(
        self, dimension: int, centres: int = 64, spread: float = 1.0, rank: int | None = None, seed: int = 1
    ) -> None:
        self._draw = np.random.default_rng(seed)
        self._spread = np.float32(spread)
        self._dimension = dimension
        self._basis = self._normal(rank, dimension) if rank is not None else None
        self._centres = self._normal(centres, dimension if rank is None else rank)

    def vectors(self, count: int) -> Matrix:
        """Return so many vectors, of clusters drawn at random."""
        return self.around(self.topics(count))

    def topics(self, count: int) -> "NDArray[np.int64]":
        """Return the numbers of so many clusters drawn at random."""
        return self._draw.integers(0, len(self._centres), count)

    def around(self, topics: "NDArray[np.int64]") -> Matrix:
        """Return one vector for each of these clusters."""
        own = self._spread * self._normal(len(topics), self._centres.shape[1])
        found: Matrix = self._centres[topics] + own
        if self._basis is not None:
            # a little of every dimension, or rounding alone would tell apart what is equal in the few
            found = found @ self._basis + self._normal(len(topics), self._dimension)
        return unit(found)

    def _normal(self, rows: int, columns: int) -> Matrix:
        return self._draw.standard_normal((rows, columns), np.float32)


def unit(rows: Matrix) -> Matrix:
    scaled: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def make_findable(
    dsn: str, scope: Scope, space: VectorSpace, vectors: Matrix, words: Iterable[Words] | None = None
) -> list[MemeId]:
    """Write a meme and a findable vector for each row of ``vectors``, and return the memes in the order of the rows.

    ``dsn`` is of a superuser and leads to the server itself: references are not checked.
    """
    known = iter(words) if words is not None else None
    values = {"scope": scope, "space": space.id, "dimension": space.dimension}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        memes = _memes(connection, len(vectors))
        connection.execute(_SCOPE, values)
        for start in range(0, len(memes), _CHUNK):
            some = memes[start : start + _CHUNK]
            theirs = None if known is None else list(islice(known, len(some)))
            connection.execute(_MEMES, {"scope": scope, "ids": some})
            _copy(connection, scope, space.id, zip(some, vectors[start : start + _CHUNK], strict=True), theirs)
    return memes


def _memes(connection: psycopg.Connection[Any], count: int) -> list[MemeId]:
    ((now,),) = connection.execute("SELECT now()").fetchall()
    ids = SystemIds()
    return [MemeId(ids.ordered(now)) for _ in range(count)]


def _copy(
    connection: psycopg.Connection[Any],
    scope: Scope,
    space_id: str,
    rows: Iterable[tuple[MemeId, Matrix]],
    words: Sequence[Words] | None,
) -> None:
    with connection.cursor() as cursor, cursor.copy(_VECTORS) as copy:
        copy.write(_HEAD + b"".join(_encoded(scope.encode(), space_id.encode(), rows, words)) + _TAIL)


def _encoded(
    scope: bytes, space_id: bytes, rows: Iterable[tuple[MemeId, Matrix]], words: Sequence[Words] | None
) -> Iterator[bytes]:
    keys = _COLUMNS + _sized(scope) + _sized(space_id)
    for number, (meme_id, vector) in enumerate(rows):
        size = len(vector)
        half = _HALF_HEAD.pack(size, 0) + vector.astype(">f2").tobytes()
        said = _NULL if words is None else _sized(_tsvector(words[number]))
        yield keys + b"".join(map(_sized, (meme_id.bytes, _DIGEST, _DIGEST, _LENGTH.pack(size), half))) + said


def _tsvector(words: Words) -> bytes:
    """Encode words as `tsvector` receives them: each in one place, whose upper two bits are its weight."""
    lexemes = (
        word.encode() + struct.pack("!xHH", 1, _LETTERS[field] << 14 | 1)
        for field, some in words.by_field.items()
        for word in some
    )
    return _LENGTH.pack(len(words)) + b"".join(lexemes)


def _sized(encoded: bytes) -> bytes:
    return _LENGTH.pack(len(encoded)) + encoded
