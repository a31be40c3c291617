"""How every connection to the database is made: from any libpq URI or string, Unix sockets included."""

from typing import Any, Final

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

APPLICATION: Final = "imgproc"


@frozen
class Limits:
    """What bounds a connection. Times are seconds; None leaves the server's own setting.

    ``idle_in_transaction`` frees the rows of a process that was stopped inside a transaction; ``dead_peer`` is how
    long a silent network may keep a statement waiting.
    """

    connect: int = 10
    statement: float | None = 30.0
    idle_in_transaction: float | None = 3.0
    dead_peer: float = 15.0


UNBOUNDED: Final = Limits(statement=None, idle_in_transaction=None, dead_peer=60.0)
"""For migrations, which may wait for each other and rewrite tables."""


def parameters(dsn: str, limits: Limits, *, pooler: bool = False) -> dict[str, Any]:
    """Return the arguments of ``psycopg.connect`` for this database.

    Server settings travel as start-up options, so that they cost no statement. A pooler in transaction mode refuses
    start-up options and prepared statements: with ``pooler`` neither is used, and the settings must be made on the
    role instead (``ALTER ROLE ... SET statement_timeout = ...``).

    Raises:
        psycopg.ProgrammingError: the connection string cannot be parsed.
    """
    found: dict[str, Any] = dict(conninfo_to_dict(dsn))
    found.setdefault("application_name", APPLICATION)
    found.setdefault("connect_timeout", limits.connect)
    found.setdefault("keepalives_idle", 10)
    found.setdefault("keepalives_interval", 3)
    found.setdefault("keepalives_count", 3)
    found.setdefault("tcp_user_timeout", int(limits.dead_peer * 1000))
    if pooler:
        found["prepare_threshold"] = None
    else:
        found["options"] = " ".join(filter(None, (found.get("options"), _options(limits))))
    return found


def connect_blocking(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection without time-outs for statements, for maintenance; it asks nothing that a pooler refuses."""
    return psycopg.connect(**parameters(dsn, UNBOUNDED, pooler=True))


def _options(limits: Limits) -> str:
    settings = {
        "TimeZone": "UTC",
        "statement_timeout": _milliseconds(limits.statement),
        "idle_in_transaction_session_timeout": _milliseconds(limits.idle_in_transaction),
        # many small statements at once: one never gains what compiling it, or starting processes for it, costs the rest
        "jit": "off",
        "max_parallel_workers_per_gather": 0,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items() if value is not None)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, int(seconds * 1000))
