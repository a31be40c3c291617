"""What a stretch of work cost: WAL and commits of a database, CPU of its client and of its server.

Also read by the peers' scripts, which run with other packages: nothing of imgproc is imported here.
"""

import os
import time
from contextlib import suppress
from typing import Final

import psutil
import psycopg
from attrs import frozen

_PATIENCE: Final = 10.0
_LOOK_AGAIN: Final = 0.02


@frozen
class Reading:
    """Counters at one moment: WAL bytes of the server, commits of the database, and CPU seconds.

    The client is this process with its threads and the children it has waited for; the server is the postmaster with
    all its processes, past and present.
    """

    wal: float
    commits: float
    client_cpu: float
    server_cpu: float

    def __sub__(self, before: "Reading") -> "Reading":
        return Reading(
            self.wal - before.wal,
            self.commits - before.commits,
            self.client_cpu - before.client_cpu,
            self.server_cpu - before.server_cpu,
        )

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(
            self.wal + other.wal,
            self.commits + other.commits,
            self.client_cpu + other.client_cpu,
            self.server_cpu + other.server_cpu,
        )

    def per_job(self, jobs: int) -> dict[str, float]:
        """Return what is reported of a difference of readings, under the names of the report."""
        return {
            "wal_bytes_per_job": self.wal / jobs,
            "commits_per_job": self.commits / jobs,
            "client_cpu_us_per_job": self.client_cpu / jobs * 1e6,
            "server_cpu_us_per_job": self.server_cpu / jobs * 1e6,
        }


def read(dsn: str, postmaster: int, *, alone: bool = True) -> Reading:
    """Read the counters, once every other connection to the database is gone unless ``alone`` is false.

    A backend reports its commits when it ends, or at leisure while it is idle: those of open connections may be
    missing.

    Raises:
        TimeoutError: somebody stays connected.
    """
    times = os.times()
    with psycopg.connect(dsn, autocommit=True) as connection:
        if alone:
            _wait_for_others(connection)
        found = connection.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, xact_commit FROM pg_stat_database"
            " WHERE datname = current_database()"
        ).fetchone()
    assert found is not None, "a database has a row of statistics"
    client_cpu = times.user + times.system + times.children_user + times.children_system
    return Reading(float(found[0]), float(found[1]), client_cpu, _server_cpu(postmaster))


def _wait_for_others(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    others = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    deadline = time.monotonic() + _PATIENCE
    while connection.execute(others).fetchone() != (0,):
        if time.monotonic() > deadline:
            raise TimeoutError("somebody stays connected to the database: the commits cannot be read")
        time.sleep(_LOOK_AGAIN)


def _server_cpu(postmaster: int) -> float:
    """CPU seconds of the postmaster, its children, and those children it has reaped."""
    process = psutil.Process(postmaster)
    own = process.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended; its time is the postmaster's now
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)
