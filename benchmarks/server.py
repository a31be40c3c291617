"""One embedded server for a run, and databases on it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from attrs import frozen

from benchmarks import meter
from benchmarks.meter import Reading
from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres

_TEMPLATE: Final = "bench_template"


@frozen
class Database:
    """A database on a durable server (fsync on)."""

    server: EmbeddedPostgres
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    @property
    def postmaster(self) -> int:
        """The process id of the server."""
        pid_file = next(self.server.data_dir.glob("*/postmaster.pid"))
        return int(pid_file.read_text(encoding="utf-8").split()[0])

    def scalar(self, sql: str, *values: object) -> float:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(sql.encode(), values).fetchone()
        assert row is not None, "a scalar query returns a row"
        return float(row[0])

    def run(self, sql: str, values: Sequence[object] | None = None) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.encode(), values)

    def read(self) -> Reading:
        """Read the counters; every connection of ours must have been closed."""
        return meter.read(self.dsn, self.postmaster)

    def settle(self) -> None:
        """Leave nothing of what was written before to be tidied up while something is measured."""
        self.run("VACUUM ANALYZE")
        self.run("CHECKPOINT")


@contextmanager
def open_server() -> Iterator[EmbeddedPostgres]:
    with TemporaryDirectory(prefix="imgproc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder) / "postgres") as server:
            yield server


def create_database(server: EmbeddedPostgres, name: str, *, migrated: bool = True) -> Database:
    _command(server, f"CREATE DATABASE {name} TEMPLATE {_template(server) if migrated else 'template1'}")
    return Database(server, name)


@contextmanager
def fresh_database(server: EmbeddedPostgres, name: str, *, migrated: bool = True) -> Iterator[Database]:
    """A database for the length of the block: no run needs more of the disk than its largest database."""
    try:
        yield create_database(server, name, migrated=migrated)
    finally:
        _command(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _template(server: EmbeddedPostgres) -> str:
    """Return the name of a database with our schema, made when it is first asked for: migrating takes longer."""
    template = Database(server, _TEMPLATE)
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone()
    if not there:
        _command(server, f"CREATE DATABASE {_TEMPLATE}")
        migrate.upgrade(template.dsn)
    return _TEMPLATE


def _command(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())
