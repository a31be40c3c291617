"""Identifiers: sorted by age, parsed once, never ambiguous."""

from uuid import RFC_4122, UUID

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.errors import InvalidValue
from imgproc_domain.ids import Sha256, uuid7

MILLISECONDS = st.integers(0, (1 << 48) - 1)
ENTROPY = st.binary(min_size=10, max_size=10)
PARTS = st.lists(st.text(max_size=8), max_size=4)


@given(MILLISECONDS, ENTROPY)
def test_a_uuid7_is_laid_out_as_its_standard_says(unix_ms: int, entropy: bytes) -> None:
    made = uuid7(unix_ms, entropy)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == unix_ms
    random = int.from_bytes(entropy, "big")
    assert made.int >> 64 & 0xFFF == random >> 64 & 0xFFF
    assert made.int & (1 << 62) - 1 == random & (1 << 62) - 1


def test_the_example_of_the_standard_comes_out() -> None:
    # RFC 9562, appendix A.6
    entropy = bytes.fromhex("0cc318c4dc0c0c07398f")
    assert uuid7(0x017F22E279B0, entropy) == UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")


@given(st.lists(MILLISECONDS, min_size=2, max_size=2, unique=True), ENTROPY, ENTROPY)
def test_ids_of_different_times_sort_by_age(times: list[int], first: bytes, second: bytes) -> None:
    earlier, later = sorted(times)
    assert uuid7(earlier, first) < uuid7(later, second)


@given(MILLISECONDS, ENTROPY, ENTROPY)
def test_ids_of_one_time_differ_in_their_random_bits_alone(unix_ms: int, first: bytes, second: bytes) -> None:
    fixed = ~((0xF << 76) | (0x3 << 62))
    bits = [int.from_bytes(entropy, "big") & fixed for entropy in (first, second)]
    assert (uuid7(unix_ms, first) == uuid7(unix_ms, second)) is (bits[0] == bits[1])


@given(PARTS, PARTS)
def test_different_lists_of_parts_never_share_a_digest(first: list[str], second: list[str]) -> None:
    assert (Sha256.of(*first) == Sha256.of(*second)) is (first == second)


@pytest.mark.parametrize(
    ("first", "second"),
    [(("ab",), ("a", "b")), (("a", ""), ("a",)), (("", "a"), ("a", "")), (('a","b',), ("a", "b")), ((), ("",))],
)
def test_where_a_part_ends_is_part_of_the_digest(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    assert Sha256.of(*first) != Sha256.of(*second)


@given(PARTS)
def test_a_digest_can_be_parsed_from_what_it_is_written_as(parts: list[str]) -> None:
    made = Sha256.of(*parts)
    assert Sha256.parse(str(made)) == made


@pytest.mark.parametrize(
    "raw", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 63 + "\n", "0" * 64 + "\n", " " + "0" * 64, "٠" * 64]
)
def test_nothing_else_is_a_digest(raw: str) -> None:
    with pytest.raises(InvalidValue, match="64 lower-case hexadecimal digits"):
        Sha256.parse(raw)


def test_digests_are_values() -> None:
    first, second = Sha256.of("a"), Sha256.of("b")
    assert len({first, Sha256.of("a"), second}) == 2
    assert (first < second) is (first.hex < second.hex)
    with pytest.raises(FrozenInstanceError):
        first.hex = second.hex  # type: ignore[misc] # that it cannot be assigned is the point
