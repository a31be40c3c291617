"""The bundled PostgreSQL: one server per data directory, started by whoever needs it first.

Who starts it owns it: the server stops when its owner stops it, exits or is killed, within about a second.
A second process (or object) with the same data directory attaches to the running server and never stops it;
when the owner leaves, the attached get connection errors until one of them calls `start()` again and becomes
the owner. The port is kept across starts while it is free, so a DSN usually stays valid.

The server listens on 127.0.0.1 only (a Unix socket's path would be limited to 107 bytes) and asks for a
password, kept in the data directory.

The data is always inside the chosen directory, also for root: the server then runs as the directory's owner
or `nobody` and reaches the cluster through its own working directory, so no parent directory needs to be
opened up for others. `SHOW data_directory` says `/proc/self/cwd` in that case.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from imgproc_adapters.postgres.embedded_binaries import (
    EmbeddedPostgresError,
    account_for,
    find_programs,
    pg_tool,
)
from imgproc_adapters.postgres.embedded_cluster import ROLE, clear_stale_status, ensure_cluster
from imgproc_adapters.postgres.embedded_files import (
    POLL_SECONDS,
    ClusterFiles,
    ServerStatus,
    lock_now,
    locked,
)
from imgproc_adapters.postgres.embedded_server import Server, run_server, server_settings

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "pg_tool"]

DATABASE = "imgproc"
EXTENSIONS = ("vector", "btree_gin")
ATTACH_GRACE_SECONDS = 3.0
CONNECT_SECONDS = 10


class EmbeddedPostgres:
    """A PostgreSQL with pgvector in `data_dir`, usable from any thread and as a context manager.

    `durable=False` gives up safety against power loss for speed: tests only. `start_timeout` (seconds)
    bounds `start`, including crash recovery and waiting for another starter. The settings of an attached
    server are its owner's.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        max_connections: int = 100,
        start_timeout: float = 120.0,
    ) -> None:
        self._files = ClusterFiles(data_dir.expanduser().absolute())
        self._settings = server_settings(durable=durable, max_connections=max_connections)
        self._durable = durable
        self._start_timeout = start_timeout
        self._guard = threading.RLock()
        self._server: Server | None = None
        self._starter_pid = 0
        self._address: tuple[int, str] | None = None

    @property
    def data_dir(self) -> Path:
        return self._files.data_dir

    @property
    def log_path(self) -> Path:
        return self._files.log

    @property
    def owns_server(self) -> bool:
        """Whether this object started the server, so that `stop` stops it. Not inherited by a fork."""
        return self._server is not None and self._starter_pid == os.getpid()

    def start(self) -> None:
        """Make the server, its database `imgproc` and the extensions available.

        Starts the server, or attaches to the one that runs. Harmless when started; after the server was lost,
        call it again.

        Raises:
            EmbeddedPostgresError: with the reason and what to do.
        """
        with self._guard:
            owned = self._server if self.owns_server else None
            if owned is not None and owned.alive:
                return
            self._server = self._address = None
            if owned is not None:
                owned.let_go()
            deadline = time.monotonic() + self._start_timeout
            try:
                self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
                with locked(self._files, "start.lock", deadline) as start_lock:
                    self._start_or_attach(start_lock, deadline)
            except OSError as error:
                raise EmbeddedPostgresError(f"Cannot use the data directory {self.data_dir}: {error}") from error
            except psycopg.Error as error:
                raise EmbeddedPostgresError(
                    f"The server in {self.data_dir} runs but could not be used: {error}"
                ) from error

    def stop(self) -> None:
        """Stop the server if this object started it (fast shutdown, bounded), else just let go of it.

        Raises:
            EmbeddedPostgresError: processes of the server are still alive after all bounds.
        """
        with self._guard:
            server = self._server if self.owns_server else None
            self._server = self._address = None
            if server is not None:
                server.stop()

    def dsn(self, database: str = DATABASE) -> str:
        """A libpq URI (`postgresql://role:password@127.0.0.1:port/database`); contains the password.

        Raises:
            EmbeddedPostgresError: not started.
        """
        if self._address is None:
            raise EmbeddedPostgresError("The embedded PostgreSQL is not started; call start() first")
        return _uri(*self._address, database)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_or_attach(self, start_lock: int, deadline: float) -> None:
        failing_since: float | None = None
        while time.monotonic() < deadline:
            server_lock = lock_now(self._files, "server.lock")
            if server_lock is not None:
                try:
                    self._start_server(start_lock, server_lock, deadline)
                finally:
                    os.close(server_lock)
                return
            status = self._files.status()
            if status is not None and status.ready:
                try:
                    self._address = self._prepare(status)
                except psycopg.OperationalError:
                    # It may be going down this instant; if it stays up, the error is real.
                    failing_since = failing_since or time.monotonic()
                    if time.monotonic() - failing_since > ATTACH_GRACE_SECONDS:
                        raise
                else:
                    return
            time.sleep(POLL_SECONDS)
        raise EmbeddedPostgresError(
            f"A server in {self.data_dir} neither became ready nor stopped; see {self.log_path}"
        )

    def _start_server(self, start_lock: int, server_lock: int, deadline: float) -> None:
        files = self._files
        account = account_for(files.data_dir, files.cluster)
        programs = find_programs(account)
        ensure_cluster(files, programs, account, durable=self._durable, start_lock=start_lock)
        files.password()
        clear_stale_status(files.cluster)
        server = run_server(files, programs, account, self._settings, server_lock=server_lock, deadline=deadline)
        try:
            self._address = self._prepare(server.status)
            self._server, self._starter_pid = server, os.getpid()
        finally:
            if self._server is not server:
                server.let_go()

    def _prepare(self, status: ServerStatus) -> tuple[int, str]:
        """Check the password, create what is missing, and return the server's port and password."""
        address = (status.port, self._files.password())
        with _connect(_uri(*address, "postgres")) as connection:
            query = "SELECT FROM pg_database WHERE datname = %s"
            if connection.execute(query, [DATABASE]).rowcount == 0:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        with _connect(_uri(*address, DATABASE)) as connection:
            present = {name for (name,) in connection.execute("SELECT extname FROM pg_extension")}
            for name in EXTENSIONS:
                if name not in present:
                    connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))
        return address


def _uri(port: int, password: str, database: str) -> str:
    return f"postgresql://{ROLE}:{quote(password, safe='')}@127.0.0.1:{port}/{quote(database, safe='')}"


def _connect(uri: str) -> psycopg.Connection:
    return psycopg.connect(uri, autocommit=True, connect_timeout=CONNECT_SECONDS)
