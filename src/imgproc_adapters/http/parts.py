"""A multipart body read as it arrives: never more than a chunk of it in memory, nothing on disk."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Final, cast

from litestar import Request
from litestar.types import HTTPReceiveMessage
from multipart import (  # type: ignore[import-untyped] # the package ships no type marker
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from imgproc_adapters.http.errors import ClientGone, PayloadTooLarge, UnsupportedBody
from imgproc_adapters.http.limits import size_text
from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_domain.errors import ImageTooLarge, ImgprocError, UnsupportedMedia

_FIELD_LIMIT: Final = 1024
_EXHAUSTED: Final = object()


async def body_of(request: Request[Any, Any, Any], limit: int) -> AsyncGenerator[bytes, None]:
    """Yield a request's body as the server receives it.

    Raises:
        PayloadTooLarge: more than ``limit`` bytes are announced, or came.
        ClientGone: the client went away before the end.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    received = 0
    while True:
        event = cast("HTTPReceiveMessage", await request.receive())
        if event["type"] == "http.disconnect":
            raise ClientGone("the client went away before the body was complete")
        chunk = event.get("body", b"")
        received += len(chunk)
        if received > limit:
            raise _too_large(limit)
        if chunk:
            yield chunk
        if not event.get("more_body", False):
            return


def boundary_of(content_type: str) -> str:
    """Return the boundary in a Content-Type header.

    Raises:
        UnsupportedBody: it is not ``multipart/form-data``, or names no boundary.
    """
    media_type, options = parse_options_header(content_type)
    boundary: str = options.get("boundary", "")
    if media_type != "multipart/form-data" or not boundary:
        raise UnsupportedBody("the body must be sent as multipart/form-data with a boundary")
    return boundary


class Part:
    """One part of a form. Its bytes are an async iterator that can be read once; `skip` reads what is left of them."""

    def __init__(self, segment: MultipartSegment, form: "Form") -> None:
        self.name: str = segment.name or ""
        self.filename: str | None = segment.filename
        self._form = form
        self._complete = False
        self._received = 0

    def __aiter__(self) -> "Part":
        return self

    async def __anext__(self) -> bytes:
        if self._complete:
            raise StopAsyncIteration
        event = await self._form.event()
        if event is None:
            self._complete = True
            raise StopAsyncIteration
        chunk = cast("bytes", event)
        self._received += len(chunk)
        return chunk

    @property
    def is_empty(self) -> bool:
        """Whether the part was read to its end and had no bytes."""
        return self._complete and not self._received

    async def skip(self) -> None:
        async for _ in self:
            pass

    async def text(self) -> str:
        """Return a short field's text.

        Raises:
            InvalidValue: longer than 1 KiB, or not UTF-8.
        """
        data = b""
        async for chunk in self:
            data += chunk
            if len(data) > _FIELD_LIMIT:
                raise refused(Refusal("body", self.name, f"text of at most {size_text(_FIELD_LIMIT)}"))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise refused(Refusal("body", self.name, "text in UTF-8")) from error


class Form:
    """The parts of a multipart body, in order; each is read or skipped before the next is asked for.

    Raises, wherever it is read:
        InvalidValue: the body is no complete form.
        PayloadTooLarge: more than ``max_parts`` parts, or headers of a part longer than 4 KiB.
    """

    def __init__(self, chunks: AsyncIterator[bytes], boundary: str, max_parts: int) -> None:
        self._chunks = chunks
        self._parser = PushMultipartParser(boundary, max_segment_count=max_parts)
        self._events: Iterator[Any] = iter(())

    def __aiter__(self) -> "Form":
        return self

    async def __anext__(self) -> Part:
        event = await self.event()
        if event is _EXHAUSTED:
            raise StopAsyncIteration
        assert isinstance(event, MultipartSegment), "a part is read to its end before the next"
        return Part(event, self)

    async def event(self) -> Any:
        """Return the parser's next event: a segment, some of its bytes, None at its end."""
        try:
            while True:
                event = next(self._events, _EXHAUSTED)
                if event is not _EXHAUSTED:
                    return event
                chunk = await anext(self._chunks, b"")
                if not chunk:
                    self._parser.close()
                    return _EXHAUSTED
                self._events = self._parser.parse(chunk)
        except ParserLimitReached as error:
            raise PayloadTooLarge("the form has too many parts, or a part with too long headers") from error
        except MultipartError as error:
            raise refused(Refusal("body", None, "a complete multipart form")) from error


def rejection(part: Part, error: ImgprocError, upload_bytes: int) -> ImgprocError:
    """Say of a file what only its form knows: that it had no bytes, and the limit as people say it."""
    if isinstance(error, UnsupportedMedia) and part.is_empty:
        return UnsupportedMedia("the file is empty")
    if isinstance(error, ImageTooLarge):
        return ImageTooLarge(f"the file is larger than {size_text(upload_bytes)}", **error.details)
    return error


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {size_text(limit)}", limit=limit)
