"""One embedded server for a run, and what it says of its own work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
from attrs import frozen

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres


@frozen
class Database:
    """A migrated, empty database on a durable server (fsync on)."""

    server: EmbeddedPostgres
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    def scalar(self, sql: str) -> float:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(sql.encode()).fetchone()
        assert row is not None, "a scalar query returns a row"
        return float(row[0])

    def run(self, sql: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.encode())


@frozen
class Reading:
    """Counters at one moment: WAL bytes and commits of the database, CPU seconds of this process and of the server."""

    wal: float
    commits: float
    client_cpu: float
    server_cpu: float


@contextmanager
def open_server() -> Iterator[EmbeddedPostgres]:
    with TemporaryDirectory(prefix="imgproc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder) / "postgres") as server:
            yield server


def create_database(server: EmbeddedPostgres, name: str) -> Database:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    database = Database(server, name)
    migrate.upgrade(database.dsn)
    return database


def read(database: Database) -> Reading:
    # a backend reports its commits when it ends or has been idle; asking through a new connection settles the rest
    wal = database.scalar("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
    commits = database.scalar(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{database.name}'")
    times = os.times()
    return Reading(wal, commits, times.user + times.system, _server_cpu(database.server))


def _server_cpu(server: EmbeddedPostgres) -> float:
    """CPU seconds of the postmaster, its children, and those children it has reaped."""
    pid_file = next(server.data_dir.glob("*/postmaster.pid"))
    postmaster = psutil.Process(int(pid_file.read_text(encoding="utf-8").split()[0]))
    own = postmaster.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in postmaster.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended; its time is the postmaster's now
            times = child.cpu_times()
            total += times.user + times.system
    return float(total)
