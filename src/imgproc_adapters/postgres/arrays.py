"""Arrays as parameters: one list a column is how a whole batch travels in one statement.

psycopg guesses an array's type from its elements, so the same statement with only NULLs in a column would be another
statement to prepare. These lists know their type, and encode about three times faster.
"""

import struct
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Self
from uuid import UUID

import numpy as np
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from imgproc_domain.vector import Vector

_HEAD: Final = struct.Struct("!iiI")
_DIMENSION: Final = struct.Struct("!ii")
_HALF_HEAD: Final = struct.Struct("!HH")
_LENGTH: Final = struct.Struct("!i")
_INT4: Final = struct.Struct("!i")
_INT8: Final = struct.Struct("!q")
_NULL: Final = _LENGTH.pack(-1)
_SIXTEEN: Final = _LENGTH.pack(16)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Texts(list[str | None]):
    """Travels as ``text[]``."""


class Uuids(list[UUID | None]):
    """Travels as ``uuid[]``."""


class Ints(list[int | None]):
    """Travels as ``int4[]``."""


class Bools(list[bool | None]):
    """Travels as ``bool[]``."""


class Times(list[datetime | None]):
    """Travels as ``timestamptz[]``."""


class Half(bytes):
    """One ``halfvec`` in the binary format pgvector receives."""

    @classmethod
    def of(cls, vector: Vector) -> Self:
        """Round to half precision, which costs no recall and halves what is read."""
        components = np.frombuffer(vector.data, dtype=np.float32).astype(">f2")
        return cls(_HALF_HEAD.pack(len(components), 0) + components.tobytes())


def cosine_distance(received: float) -> float:
    """Return a distance as it was meant: rounding may bring that of two equal vectors a hair below nothing."""
    return max(0.0, received)


class Halves(list[Half]):
    """Travels as ``halfvec[]``."""


def _sized(encoded: bytes) -> bytes:
    return _LENGTH.pack(len(encoded)) + encoded


class _ArrayDumper(Dumper):
    """Encodes a flat array in PostgreSQL's binary format: a head, one dimension, then length and bytes an element."""

    format = Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: Collection[Any]) -> Buffer:
        if not obj:
            return _HEAD.pack(0, 0, self.element)
        # the flag says that there may be NULLs: the server counts them itself
        head = _HEAD.pack(1, 1, self.element) + _DIMENSION.pack(len(obj), 1)
        return head + b"".join(self.encoded(obj))

    def encoded(self, items: Collection[Any]) -> Iterable[bytes]:
        return [_NULL if item is None else _sized(self.encode(item)) for item in items]

    def encode(self, item: Any) -> bytes:
        raise NotImplementedError


class _Encoded(dict[Any, bytes]):
    """Elements with their length in front, encoded when they are first met."""

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        super().__init__({None: _NULL})
        self._encode = encode

    def __missing__(self, item: Any) -> bytes:
        encoded = self[item] = _sized(self._encode(item))
        return encoded


class _RepeatingDumper(_ArrayDumper):
    """For columns whose values are few: statuses, times of one transaction, numbers, names."""

    def encoded(self, items: Collection[Any]) -> Iterable[bytes]:
        return map(_Encoded(self.encode).__getitem__, items)


class _TextsDumper(_RepeatingDumper):
    oid = 1009
    element = 25

    def encode(self, item: str) -> bytes:
        return item.encode()


class _UuidsDumper(_ArrayDumper):
    oid = 2951
    element = 2950

    def encoded(self, items: Collection[UUID | None]) -> Iterable[bytes]:
        return [_NULL if item is None else _SIXTEEN + item.int.to_bytes(16) for item in items]


class _IntsDumper(_RepeatingDumper):
    oid = 1007
    element = 23

    def encode(self, item: int) -> bytes:
        return _INT4.pack(item)


class _BoolsDumper(_RepeatingDumper):
    oid = 1000
    element = 16

    def encode(self, item: bool) -> bytes:
        return b"\x01" if item else b"\x00"


class _TimesDumper(_RepeatingDumper):
    oid = 1185
    element = 1184

    def encode(self, item: datetime) -> bytes:
        return _INT8.pack((item - _EPOCH) // _MICROSECOND)


class _HalfDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Half) -> Buffer:
        return obj


class _HalvesDumper(_ArrayDumper):
    def encode(self, item: Half) -> bytes:
        return item


def register_halves(adapters: AdaptersMap, halfvec: TypeInfo) -> None:
    """Teach a connection's adapters vectors: an extension's types have another number in every database."""
    adapters.register_dumper(Half, type("HalfDumper", (_HalfDumper,), {"oid": halfvec.oid}))
    array = {"oid": halfvec.array_oid, "element": halfvec.oid}
    adapters.register_dumper(Halves, type("HalvesDumper", (_HalvesDumper,), array))


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(Texts, _TextsDumper)
    adapters.register_dumper(Uuids, _UuidsDumper)
    adapters.register_dumper(Ints, _IntsDumper)
    adapters.register_dumper(Bools, _BoolsDumper)
    adapters.register_dumper(Times, _TimesDumper)
    return adapters


ADAPTERS: Final = _adapters()
"""The template for connections: give it to ``connect`` as their context."""
