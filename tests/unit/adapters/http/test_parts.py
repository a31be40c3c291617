"""Reading a form as it arrives."""

import tracemalloc
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_adapters.http.errors import PayloadTooLarge, UnsupportedBody
from imgproc_adapters.http.parts import Form, boundary_of
from imgproc_domain.errors import InvalidValue

HEAD = b'--frontier\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n'
END = b"\r\n--frontier--\r\n"


async def pieces(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def body_of(contents: list[bytes]) -> bytes:
    parts = [HEAD % (b"files", b"%d" % number) + data + b"\r\n" for number, data in enumerate(contents)]
    return b"".join(parts) + b"--frontier--\r\n"


async def read(chunks: Iterable[bytes], max_parts: int = 10) -> list[tuple[str, str | None, bytes]]:
    form = Form(pieces(chunks), "frontier", max_parts)
    return [(part.name, part.filename, b"".join([chunk async for chunk in part])) async for part in form]


contents = st.lists(st.binary(max_size=50).filter(lambda data: b"frontier" not in data), max_size=4)


@given(contents, st.integers(1, 40))
async def test_parts_come_out_whole_however_the_body_is_cut(sent: list[bytes], size: int) -> None:
    body = body_of(sent)
    found = await read(body[start : start + size] for start in range(0, len(body), size))
    assert found == [("files", str(number), data) for number, data in enumerate(sent)]


@given(contents.filter(bool), st.integers(0, 400))
async def test_a_body_that_ends_early_is_never_taken_for_a_whole_one(sent: list[bytes], cut: int) -> None:
    body = body_of(sent)
    with pytest.raises(InvalidValue):
        await read([body[: min(cut, len(body) - 5)]])


async def test_a_part_that_is_skipped_does_not_hide_the_next() -> None:
    names = []
    async for part in Form(pieces([body_of([b"x" * 100, b"y"])]), "frontier", 10):
        names.append(part.filename)
        await part.skip()
    assert names == ["0", "1"]


async def test_a_form_of_any_length_needs_the_memory_of_a_chunk() -> None:
    chunk = bytes(64 * 1024)

    def long() -> Iterable[bytes]:
        yield HEAD % (b"files", b"long")
        for _ in range(512):
            yield chunk
        yield END

    length = 0
    tracemalloc.start()
    try:
        async for part in Form(pieces(long()), "frontier", 2):
            async for piece in part:
                length += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert length == 512 * len(chunk)
    assert peak < 16 * len(chunk)


async def test_a_form_has_so_many_parts_and_no_more() -> None:
    assert len(await read([body_of([b"x"] * 3)], max_parts=3)) == 3
    with pytest.raises(PayloadTooLarge):
        await read([body_of([b"x"] * 4)], max_parts=3)


async def test_headers_of_a_part_are_bounded() -> None:
    with pytest.raises(PayloadTooLarge):
        await read([b"--frontier\r\n", b"x" * 10_000])


async def test_a_field_is_short_text() -> None:
    for data, refused in ((b"x" * 1025, "text of at most 1 KB"), (b"\xff", "text in UTF-8")):
        async for part in Form(pieces([body_of([data])]), "frontier", 2):
            with pytest.raises(InvalidValue, match=refused):
                await part.text()
            break


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [("multipart/form-data; boundary=x", "x"), ('Multipart/Form-Data; charset=utf-8; boundary="a b"', "a b")],
)
def test_the_boundary_is_found(content_type: str, boundary: str) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize("content_type", ["", "multipart/form-data", "multipart/mixed; boundary=x", "text/plain"])
def test_other_bodies_are_no_forms(content_type: str) -> None:
    with pytest.raises(UnsupportedBody):
        boundary_of(content_type)
