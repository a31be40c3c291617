"""Counting round trips."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.pq import Trace

# what the server is asked to answer before it goes on: a pipeline is one of them
_ASKED = re.compile(r"^F\t\d+\t(?:Sync|Query)\b", re.MULTILINE)


class Trips:
    """Counts how often the client waits for the server, by what libpq writes down of one connection's messages."""

    def __init__(self, file: Path, connection: AsyncConnection) -> None:
        self._file = file
        self._connection = connection
        self._told = file.open("w", encoding="utf-8")
        connection.pgconn.trace(self._told.fileno())
        connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        self._seen = 0

    @contextmanager
    def at_most(self, count: int) -> Iterator[None]:
        self._taken()
        yield
        taken = self._taken()
        assert 1 <= taken <= count, f"{taken} round trips"

    def _taken(self) -> int:
        text = self._file.read_text(encoding="utf-8")
        fresh, self._seen = text[self._seen :], len(text)
        return len(_ASKED.findall(fresh))

    def close(self) -> None:
        self._connection.pgconn.untrace()
        self._told.close()
