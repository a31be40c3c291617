"""The API on a socket, in the event loop of its caller."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from attrs import frozen

from imgproc_adapters.http import FixedScope, create_app
from imgproc_app.lifecycle import Runtime
from imgproc_app.readiness import Readiness
from imgproc_app.settings import names_in
from imgproc_domain.errors import ImgprocError

_DRAIN_SECONDS: Final = 5
_BACKLOG: Final = 1024


class AddressUnusable(ImgprocError):
    """The service cannot listen where it was told to."""

    code = "address_unusable"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address; port 0 picks a free one.

    Raises:
        AddressUnusable: the port is taken, or the address is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # claims the port now: two sockets may be bound to one address, but only one may listen
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} of {host} is taken: choose another with --port, 0 for any free one"
            raise AddressUnusable(message) from error
        raise AddressUnusable(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@frozen
class Service:
    """A running API. ``ended`` is done when it stops by itself, which it does only on a bug."""

    url: str
    readiness: Readiness
    ended: "asyncio.Task[None]"


@asynccontextmanager
async def serving(runtime: Runtime, bound: socket.socket) -> AsyncIterator[Service]:
    """Serve the API for the length of the block, then let requests that are under way finish (5 s at most).

    The models are loaded in the background; ``/health/ready`` says when.
    """
    readiness = Readiness(runtime)
    try:
        settings = runtime.settings
        app = create_app(
            runtime.deployment,
            FixedScope(runtime.scope),
            readiness,
            hosts=[*names_in(settings.hosts), settings.host],
            operators=settings.operators,
        )
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=_DRAIN_SECONDS)
        server = _Server(config)
        ended = asyncio.create_task(server.serve(sockets=[bound]), name="imgproc-http")
        try:
            await _first(server.up.wait(), ended)
            yield Service(url_of(bound), readiness, ended)
        finally:
            server.should_exit = True
            await asyncio.wait([ended])
    finally:
        await readiness.close()


async def _first(up: Coroutine[Any, Any, Any], ended: "asyncio.Task[None]") -> None:
    """Return when the server is up; raises what ended it before."""
    waiting = asyncio.create_task(up)
    await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        waiting.cancel()
        ended.result()


class _Server(uvicorn.Server):
    """Leaves signals to its caller, and tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()
