"""One durable embedded server for a run, which can be ended at once and started again."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.embedded_files import ClusterFiles

_CONNECTIONS: Final = 150
_PATIENCE: Final = 60.0


class ChaosServer:
    """The server of one run; ``port`` is where it listens now."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._files = ClusterFiles(postgres.data_dir)
        self._address = postgres.dsn()
        self.port = self._port()

    def dsn(self, database: str, port: int | None = None, name: str = "chaos") -> str:
        """Return the way to a database for whom connections are to be named after: directly, or through ``port``."""
        plain: dict[str, str | int] = {"sslmode": "disable", "gssencmode": "disable", "application_name": name}
        plain["port"] = port or self.port
        return make_conninfo(self._address, dbname=database, **plain)

    def create(self, database: str) -> None:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        migrate.upgrade(self.dsn(database))

    def restart(self) -> None:
        """End the server as ``pg_ctl -m immediate stop`` does, and start it: it recovers from its log."""
        status = self._files.status()
        assert status is not None, "the server runs"
        os.kill(status.pid, signal.SIGQUIT)
        give_up = time.monotonic() + _PATIENCE
        while _alive(status.pid):
            if time.monotonic() > give_up:
                raise TimeoutError("the server did not end")
            time.sleep(0.02)
        self._postgres.stop()
        self._postgres.start()
        self._address = self._postgres.dsn()
        self.port = self._port()

    def _port(self) -> int:
        return int(str(conninfo_to_dict(self._address)["port"]))


def _alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


@contextmanager
def open_server(folder: Path) -> Iterator[ChaosServer]:
    folder.chmod(0o755)
    with EmbeddedPostgres(folder / "postgres", max_connections=_CONNECTIONS) as postgres:
        yield ChaosServer(postgres)
