"""``python -m chaos.hosts.relay HOST PORT``: a slow line, for kernels that have no netem.

It listens on loopback, prints its port, and forwards. Each line of its input is "SECONDS JITTER": from then on what
the client sends arrives that much later, a little more or less, in order; until then at once.
"""

import asyncio
import contextlib
import random
import sys
from typing import Final

from attrs import define, field

_ENOUGH: Final = 65_536


@define
class Delay:
    """How late what is sent now arrives."""

    seconds: float = 0.0
    jitter: float = 0.0
    dice: random.Random = field(factory=lambda: random.Random(0))

    def draw(self) -> float:
        return max(0.0, self.seconds + self.dice.uniform(-self.jitter, self.jitter))


@define(eq=False)
class Relay:
    """Forwards connections; ``delay`` applies to what goes to ``host``, as a slow card of the client's would."""

    host: str
    port: int
    delay: Delay
    _server: asyncio.Server | None = None
    _serving: set["asyncio.Task[None]"] = field(factory=set)
    _open: set[asyncio.StreamWriter] = field(factory=set)

    async def start(self) -> int:
        """Begin to listen, and return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """End all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()
        # not cancelled: each ends by itself now, and closes what it has opened
        await asyncio.gather(*self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        both = {far_writer, writer}
        self._open |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_forward(reader, far_writer, self.delay))
                group.create_task(_forward(far_reader, writer, Delay()))
        except* OSError:
            writer.transport.abort()
        finally:
            self._open -= both
            for each in both:
                each.close()
            await asyncio.gather(*(each.wait_closed() for each in both), return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: Delay) -> None:
    """Forward until the sender is done; what is read while something waits waits behind it."""
    loop, on_its_way = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()
    async with asyncio.TaskGroup() as group:
        group.create_task(_deliver(on_its_way, writer))
        while True:
            chunk = await reader.read(_ENOUGH)
            on_its_way.put_nowait((loop.time() + delay.draw(), chunk))
            if not chunk:
                return


async def _deliver(on_its_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due, chunk = await on_its_way.get()
        await asyncio.sleep(due - loop.time())
        if not chunk:
            with contextlib.suppress(OSError):
                writer.write_eof()
            return
        writer.write(chunk)
        await writer.drain()


async def _main(host: str, port: int) -> None:
    relay = Relay(host, port, Delay())
    sys.stdout.write(f"{await relay.start()}\n")
    sys.stdout.flush()
    while line := await asyncio.to_thread(sys.stdin.readline):
        relay.delay.seconds, relay.delay.jitter = map(float, line.split())
    await relay.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
