"""A real pgbouncer in transaction mode, between the tests and their server."""

import ctypes
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

POOLED: Final = os.environ.get("IMGPROC_TEST_POOLER") == "1"
"""Whether every test's database is behind the pooler; a few tests are in any case."""

MISSING: Final = "pgbouncer is not on the PATH"

_PATIENCE: Final = 30.0
_PORTS_TRIED: Final = 5
_SET_PDEATHSIG: Final = 1
_PREPARES_SINCE: Final = (1, 21)

# A few server connections for many clients, so that whoever relies on having one to itself is found out. Nothing is
# reset between them: what one client leaves behind the next one meets.
_SETTINGS: Final = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
auth_user = {user}
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
server_login_retry = 1
autodb_idle_timeout = 30
logfile = {folder}/log
{more}
"""


def unpooled(reason: str) -> pytest.MarkDecorator:
    """Mark what cannot hold behind a pooler in transaction mode."""
    return pytest.mark.skipif(POOLED, reason=f"behind a pooler {reason}")


def program() -> str | None:
    """Return the path of pgbouncer, which Debian puts where only root looks."""
    return shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


@contextmanager
def pooling(server: str) -> Iterator[str]:
    """Run pgbouncer before a server given with host, user and password; yields the connection string through it."""
    given = conninfo_to_dict(server)
    with TemporaryDirectory(prefix="imgproc-pooler-") as name:
        folder = Path(name)
        users = f'"{given["user"]}" "{str(given["password"]).replace(chr(34), chr(34) * 2)}"\n'
        (folder / "users.txt").write_text(users, encoding="utf-8")
        process, port = _started(folder, given)
        try:
            yield make_conninfo(server, host="127.0.0.1", port=port)
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _started(folder: Path, server: dict[str, Any]) -> tuple["subprocess.Popen[bytes]", int]:
    for _ in range(_PORTS_TRIED):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        process = _launch(folder, server, port)
        deadline = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return process, port
            time.sleep(0.02)
        process.kill()
        process.wait()
    raise AssertionError(f"pgbouncer does not start: {(folder / 'log').read_text(encoding='utf-8')}")


def _launch(folder: Path, server: dict[str, Any], port: int) -> "subprocess.Popen[bytes]":
    found = program()
    assert found is not None, MISSING
    more = "max_prepared_statements = 0" if _version(found) >= _PREPARES_SINCE else ""
    settings = folder / "pgbouncer.ini"
    values = {"host": server["host"], "port": server.get("port", 5432), "user": server["user"]}
    settings.write_text(_SETTINGS.format(**values, listen=port, folder=folder, more=more), encoding="utf-8")
    user: int | None = None
    if os.geteuid() == 0:
        # it refuses to run as root
        user = pwd.getpwnam("nobody").pw_uid
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, -1)
    libc = ctypes.CDLL(None)

    def end_with_the_tests() -> None:
        libc.prctl(_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        [found, str(settings)],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=end_with_the_tests,  # noqa: PLW1509 - one system call, and tests that are killed leave nothing behind
    )


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])
