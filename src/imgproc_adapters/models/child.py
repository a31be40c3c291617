"""The model process: `python -m imgproc_adapters.models.child FD`, started and fed by `host`.

It serves one call at a time from the socket FD. Its standard input is a pipe nobody writes to: when the owner dies,
however it dies, the pipe ends, and so does this process, also in the middle of a call.
"""

import os
import resource
import signal
import socket
import sys
import threading

import msgspec

from imgproc_adapters.models.wire import HEADER, Answer, Call, Setup, framed


def main() -> None:
    # Ctrl-C and a service manager's SIGTERM reach the whole group; the owner decides when its models stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_owner, name="owner-watch", daemon=True).start()
    connection = socket.socket(fileno=int(sys.argv[1]))
    first = _read(connection)
    if first is not None:
        _serve(connection, msgspec.msgpack.decode(first, type=Setup))


def _die_with_owner() -> None:
    while os.read(0, 1):
        continue
    os._exit(0)


def _serve(connection: socket.socket, setup: Setup) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from imgproc_adapters.models.toolbox import Toolbox, answer  # noqa: PLC0415 - only under the memory limit

    toolbox = Toolbox(setup)
    connection.sendall(framed(Answer()))
    while (message := _read(connection)) is not None:
        connection.sendall(framed(answer(toolbox, msgspec.msgpack.decode(message, type=Call))))


def _read(connection: socket.socket) -> bytes | None:
    header = _exactly(connection, HEADER.size)
    return None if header is None else _exactly(connection, HEADER.unpack(header)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            return None
        received += part
    return bytes(received)


if __name__ == "__main__":
    main()
