"""Unit vectors: compact, validated once, comparable by inner product."""

import math
from array import array
from collections.abc import Iterable
from typing import Self

from attrs import frozen

from imgproc_domain.errors import InvalidValue


class InvalidVector(InvalidValue):
    """A vector is empty, zero, or has a component that is not finite."""

    code = "embedding_invalid"


@frozen
class Vector:
    """A vector of unit length. ``data`` holds its components as float32 in native byte order."""

    data: bytes

    @classmethod
    def unit(cls, components: Iterable[float]) -> Self:
        """Scale ``components`` to length 1; raises `InvalidVector` if that has no meaning."""
        values = array("f", components)
        length = math.hypot(*values)
        if not math.isfinite(length) or length == 0.0:
            raise InvalidVector("a vector needs at least one component, all finite and not all zero")
        return cls(array("f", map((1.0 / length).__mul__, values)).tobytes())

    @property
    def components(self) -> "array[float]":
        """The components as an array of float32, shape (dimension,)."""
        values = array("f")
        values.frombytes(self.data)
        return values

    @property
    def dimension(self) -> int:
        return len(self.data) // _WIDTH

    def cosine_distance(self, other: "Vector") -> float:
        """1 minus the inner product, from 0 (same direction) to 2."""
        product = sum(a * b for a, b in zip(self.components, other.components, strict=True))
        return min(max(1.0 - product, 0.0), 2.0)


_WIDTH = array("f").itemsize
