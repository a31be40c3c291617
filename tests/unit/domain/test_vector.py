"""Vectors are validated once, have length 1, and compare by their direction alone."""

import math
from array import array

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from imgproc_domain.errors import InvalidValue
from imgproc_domain.vector import InvalidVector, Vector

COMPONENTS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=64)
SIZED = st.floats(-1000, 1000, width=32)
PAIRS = st.integers(1, 32).flatmap(lambda n: st.tuples(*[st.lists(SIZED, min_size=n, max_size=n)] * 2))


def _some(components: list[float]) -> Vector:
    assume(any(components))
    return Vector.unit(components)


@given(COMPONENTS)
def test_a_vector_has_length_one_whatever_it_was_made_of(components: list[float]) -> None:
    made = _some(components)
    assert math.sqrt(sum(x * x for x in made.components)) == pytest.approx(1.0, abs=1e-5)
    assert made.dimension == len(components) == len(made.components)


@given(COMPONENTS)
def test_a_vector_keeps_its_direction(components: list[float]) -> None:
    made = _some(components)
    signs = [x * y >= 0 for x, y in zip(components, made.components, strict=True)]
    assert all(signs)
    longest = max(range(len(components)), key=lambda i: abs(components[i]))
    assert abs(made.components[longest]) == pytest.approx(max(abs(x) for x in made.components))


@pytest.mark.parametrize(
    "components",
    [
        [],
        [0.0, 0.0],
        [-0.0],
        [1.0, math.nan],
        [math.inf, 1.0],
        [-math.inf],
        [1e300],
        [1e-60, 0.0],
    ],
    ids=["empty", "zero", "negative zero", "NaN", "infinite", "negative infinite", "over float32", "under float32"],
)
def test_what_has_no_direction_is_no_vector(components: list[float]) -> None:
    with pytest.raises(InvalidVector, match="finite"):
        Vector.unit(components)


def test_the_error_of_a_vector_has_its_own_identifier() -> None:
    assert InvalidVector.code == "embedding_invalid"
    assert issubclass(InvalidVector, InvalidValue)


def test_the_bytes_are_float32_in_order() -> None:
    made = Vector.unit([3.0, 4.0])
    assert made.data == array("f", [0.6, 0.8]).tobytes()
    assert Vector(made.data) == made


@pytest.mark.parametrize(("other", "distance"), [([2.0, 0.0], 0.0), ([0.0, 5.0], 1.0), ([-1.0, 0.0], 2.0)])
def test_the_distance_is_that_of_the_directions(other: list[float], distance: float) -> None:
    assert Vector.unit([1.0, 0.0]).cosine_distance(Vector.unit(other)) == pytest.approx(distance)


@given(PAIRS)
def test_the_distance_is_symmetric_and_between_zero_and_two_but_for_rounding(
    pair: tuple[list[float], list[float]],
) -> None:
    first, second = _some(pair[0]), _some(pair[1])
    assert first.cosine_distance(second) == second.cosine_distance(first)
    assert -1e-6 <= first.cosine_distance(second) <= 2.0 + 1e-6
    assert first.cosine_distance(first) == pytest.approx(0.0, abs=1e-6)


def test_vectors_of_different_dimensions_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Vector.unit([1.0, 0.0]).cosine_distance(Vector.unit([1.0]))


def test_the_distance_never_leaves_its_range() -> None:
    made = [Vector.unit([math.sin(i * k) for k in range(1, 65)]) for i in range(1, 200)]
    assert min(vector.cosine_distance(vector) for vector in made) >= 0.0
