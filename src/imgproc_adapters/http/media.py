"""Pictures as bytes: the original as it was stored, and a small copy without any metadata."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Final
from urllib.parse import quote

from litestar import route
from litestar.enums import HttpMethod
from litestar.params import HeaderParameter
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from imgproc_adapters.http.convert import MEDIA_ROUTE
from imgproc_adapters.http.documents import READ, ApiOperation, MemeIdPath, answers, bare, binary, by_method
from imgproc_adapters.http.identifiers import parse_meme_id
from imgproc_adapters.http.provided import Served, Small
from imgproc_adapters.http.ranges import Span, matches, parse_range
from imgproc_adapters.http.scopes import Call
from imgproc_domain.errors import MemeNotFound
from imgproc_domain.meme import Meme
from imgproc_domain.usecases.views import get_image

_CHUNK: Final = 256 * 1024

_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    # the picture behind an id may be replaced, and nobody but its scope may see it
    "Cache-Control": "private, no-cache",
}

IfNoneMatch = Annotated[str | None, HeaderParameter(name="If-None-Match", description="Entity tags the client has.")]


class FileAnswer(ASGIResponse):
    """Streams an open file, or one span of it, in chunks that are read in a thread; closes it."""

    def __init__(self, file: BinaryIO, first: int, length: int, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(
            headers=dict(headers), content_length=length, status_code=status, media_type=headers["Content-Type"]
        )
        self._file = file
        self._first = first
        self._left = length

    async def send_body(self, send: Send, receive: Receive) -> None:  # noqa: ARG002 - the base class's signature
        try:
            await asyncio.to_thread(self._file.seek, self._first)
            while self._left:
                chunk = await asyncio.to_thread(self._file.read, min(_CHUNK, self._left))
                if not chunk:
                    raise EOFError("a stored picture became shorter while it was sent")
                self._left -= len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            self._file.close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _open(path: Path) -> tuple[BinaryIO, int]:
    """Open a stored picture, following no link, and return its size with it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    return file, os.fstat(descriptor).st_size


async def _opened(path: Path, meme: Meme) -> tuple[BinaryIO, int]:
    try:
        return await asyncio.to_thread(_open, path)
    except FileNotFoundError as error:
        raise MemeNotFound("there is no such picture", meme_id=str(meme.meme_id)) from error


def _answer_without_body(status: int, headers: Mapping[str, str]) -> ASGIResponse:
    return ASGIResponse(headers=dict(headers), status_code=status, is_head_response=True)


def content_disposition(filename: str) -> str:
    """Return the header for showing a file under its name: an ASCII form for old clients, RFC 5987 for the others."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _span(request: Call, etag: str, size: int) -> Span | None:
    # a range of an older version would be glued to bytes of this one
    if request.headers.get("if-range", etag) != etag:
        return None
    return parse_range(request.headers.get("range"), size)


@route(
    "/media/{meme_id:str}",
    http_method=READ,
    name=MEDIA_ROUTE,
    operation_id=by_method("get_media"),
    operation_class=ApiOperation,
    summary="The original picture",
    description="The stored bytes, with the type that the decoder found. Takes `If-None-Match`, and one `Range`.",
    tags=["media"],
    responses=answers({}, errors=("meme_not_found", "range_not_satisfiable"))
    | {
        200: binary("image/*", "The whole picture"),
        206: binary("image/*", "The range of it that was asked for"),
        304: bare("The client has these bytes"),
    },
)
async def get_media(
    deployment: Served, request: Call, meme_id: MemeIdPath, if_none_match: IfNoneMatch = None
) -> ASGIResponse:
    meme = (await get_image(deployment, request.auth, parse_meme_id(meme_id))).meme
    etag = f'"{meme.picture.sha256}"'
    headers = {**_SAFE, "ETag": etag, "Accept-Ranges": "bytes"}
    if matches(if_none_match, etag):
        return _answer_without_body(304, headers)
    path = await asyncio.to_thread(deployment.blobs.path, meme.scope, meme.picture.storage_key)
    file, size = await _opened(path, meme)
    try:
        span = _span(request, etag, size)
    except BaseException:
        file.close()
        raise
    headers["Content-Type"] = meme.picture.media_type
    headers["Content-Disposition"] = content_disposition(meme.filename)
    if span:
        headers["Content-Range"] = span.content_range(size)
    first, length = (span.first, span.length) if span else (0, size)
    headers["Content-Length"] = str(length)
    status = 206 if span else 200
    if request.method == HttpMethod.HEAD:
        file.close()
        return _answer_without_body(status, headers)
    return FileAnswer(file, first, length, status, headers)


@route(
    "/media/{meme_id:str}/thumbnail",
    http_method=READ,
    operation_id=by_method("get_thumbnail"),
    operation_class=ApiOperation,
    summary="A small copy",
    description="WebP, re-encoded and without metadata. Takes `If-None-Match`.",
    tags=["media"],
    responses=answers({}, errors=("meme_not_found", "image_corrupt"))
    | {200: binary("image/webp", "The thumbnail"), 304: bare("The client has this thumbnail")},
)
async def get_thumbnail(
    deployment: Served, thumbnails: Small, request: Call, meme_id: MemeIdPath, if_none_match: IfNoneMatch = None
) -> ASGIResponse:
    meme = (await get_image(deployment, request.auth, parse_meme_id(meme_id))).meme
    etag = thumbnails.etag(meme.picture.sha256)
    headers = {**_SAFE, "ETag": etag, "Cache-Control": "private, max-age=60, must-revalidate"}
    if matches(if_none_match, etag):
        return _answer_without_body(304, headers)
    path = await asyncio.to_thread(deployment.blobs.path, meme.scope, meme.picture.storage_key)
    file, _ = await _opened(path, meme)
    file.close()
    small = await thumbnails.of(meme.picture.sha256, path)
    headers |= {"Content-Type": "image/webp", "Content-Length": str(len(small))}
    if request.method == HttpMethod.HEAD:
        return _answer_without_body(200, headers)
    return ASGIResponse(body=small, headers=headers, media_type="image/webp")
