import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_adapters.http.errors import RangeNotSatisfiable
from imgproc_adapters.http.ranges import Span, matches, parse_range


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("bytes=0-0", Span(0, 0)),
        ("bytes=0-", Span(0, 99)),
        ("BYTES=90-200", Span(90, 99)),
        ("bytes=-10", Span(90, 99)),
        ("bytes=-500", Span(0, 99)),
        ("bytes=9-5", None),
        ("bytes=-", None),
        ("bytes=1-2,4-5", None),
        ("items=1-2", None),
        ("bytes=+1-2", None),
    ],
)
def test_one_range_of_a_hundred_bytes(header: str | None, span: Span | None) -> None:
    assert parse_range(header, 100) == span


@pytest.mark.parametrize(("header", "size"), [("bytes=100-", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-1", 0)])
def test_a_range_without_a_byte_cannot_be_satisfied(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        parse_range(header, size)
    assert refused.value.headers == {"Content-Range": f"bytes */{size}"}


@given(st.text(max_size=30), st.integers(0, 1000))
def test_whatever_a_client_writes_a_span_lies_within_the_bytes(raw: str, size: int) -> None:
    for header in (raw, f"bytes={raw}"):
        try:
            span = parse_range(header, size)
        except RangeNotSatisfiable:
            continue
        assert span is None or 0 <= span.first <= span.last < size


@pytest.mark.parametrize(
    ("header", "found"),
    [(None, False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False)],
)
def test_entity_tags_are_compared_weakly(header: str | None, found: bool) -> None:
    assert matches(header, '"a"') is found
