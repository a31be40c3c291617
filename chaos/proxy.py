"""A TCP proxy between one client and the server, which on demand loses the reply to a COMMIT, or everything.

It reads the client's side of PostgreSQL's protocol just far enough to know a COMMIT, simple or prepared, from all
else; what it forwards is never changed.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from attrs import define, field

_TYPED: Final = 5
_STARTING: Final = 4
_SSL_OR_GSS: Final = (80877103, 80877104)
_CODE_END: Final = 8
_HEAD: Final = 64
"""Bytes of a message that are looked at: a COMMIT has no more."""


@define
class Frontend:
    """Cuts what a client sends into messages. `feed` says whether one of them asked for a COMMIT."""

    _typed: bool = False
    _buffer: bytearray = field(factory=bytearray)
    _skip: int = 0

    def feed(self, chunk: bytes) -> bool:
        self._buffer += chunk
        asked = False
        while True:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            start = 1 if self._typed else 0
            if self._skip or len(self._buffer) < (_TYPED if self._typed else _CODE_END):
                return asked
            length = start + int.from_bytes(self._buffer[start : start + _STARTING], "big")
            if len(self._buffer) < min(length, _HEAD):
                return asked
            if self._typed:
                asked |= _is_commit(bytes(self._buffer[: min(length, _HEAD)]))
            elif int.from_bytes(self._buffer[_STARTING:_CODE_END], "big") not in _SSL_OR_GSS:
                self._typed = True
            self._skip = length


def _is_commit(message: bytes) -> bool:
    kind, body = message[:1], message[_TYPED:]
    if kind == b"Q":
        query = body.rstrip(b"\0")
    elif kind == b"P":
        _, _, rest = body.partition(b"\0")
        query, _, _ = rest.partition(b"\0")
    else:
        return False
    return query.strip(b" ;").upper() == b"COMMIT"


class _Half(asyncio.Protocol):
    """One side of one connection; bytes that come in go to ``take``."""

    def __init__(self, take: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._take = take
        self._lost = lost
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP has it"
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.transport = None
        self._lost()

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Link:
    """One connection of the client, and the one to the server that belongs to it."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self._frontend = Frontend()
        self._early = bytearray()
        self._cutting = False
        self.client = _Half(self._from_client, self.close)
        self.server: _Half | None = None
        self._connecting = asyncio.get_running_loop().create_task(self._connect())
        proxy.links.add(self)

    async def _connect(self) -> None:
        await self._proxy.open.wait()
        half = _Half(self._from_server, self.close)
        try:
            await asyncio.get_running_loop().create_connection(lambda: half, "127.0.0.1", self._proxy.upstream())
        except OSError:
            self.close()
            return
        self.server = half
        half.write(bytes(self._early))
        self._early.clear()
        self.breathe()

    def breathe(self) -> None:
        """Read on, or stop reading for as long as the proxy is shut."""
        for half in (self.client, self.server):
            if half is not None and half.transport is not None:
                if self._proxy.open.is_set():
                    half.transport.resume_reading()
                else:
                    half.transport.pause_reading()

    def _from_client(self, data: bytes) -> None:
        if self._frontend.feed(data) and self._proxy.take_order():
            self._cutting = True
        if self.server is None:
            self._early += data
        else:
            self.server.write(data)

    def _from_server(self, data: bytes) -> None:
        if self._cutting:
            # the server has answered, so that whatever it did is done; nobody hears of it
            self._proxy.cuts += 1
            self.close()
        else:
            self.client.write(data)

    def close(self) -> None:
        self._proxy.links.discard(self)
        self._connecting.cancel()
        self.client.abort()
        if self.server is not None:
            self.server.abort()


class Proxy:
    """Listens on a port of its own. ``upstream`` is asked for the server's port at every connection."""

    def __init__(self, upstream: Callable[[], int]) -> None:
        self.upstream = upstream
        self.links: set[_Link] = set()
        self.open = asyncio.Event()
        self.open.set()
        self.cuts = 0
        self._ordered = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Begin to listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self).client, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.drop()

    def cut(self) -> None:
        """Let the next COMMIT through, and lose its reply together with the connection."""
        self._ordered = 1

    def take_order(self) -> bool:
        taken, self._ordered = self._ordered > 0, 0
        return taken

    async def partition(self, seconds: float, *, reset: bool) -> None:
        """Forward nothing in either direction for a while; then everything that was sent arrives, or never does."""
        self.open.clear()
        self._breathe()
        await asyncio.sleep(seconds)
        if reset:
            self.drop()
        self.open.set()
        self._breathe()

    def drop(self) -> None:
        """End all connections."""
        for link in list(self.links):
            link.close()

    def _breathe(self) -> None:
        for link in list(self.links):
            link.breathe()
