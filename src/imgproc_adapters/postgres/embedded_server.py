"""Running the embedded PostgreSQL's server process under its watcher."""

import contextlib
import os
import subprocess
import sys
import time

from attrs import frozen

from imgproc_adapters.postgres import embedded_watcher
from imgproc_adapters.postgres.embedded_binaries import (
    SERVER_ENVIRONMENT,
    Account,
    EmbeddedPostgresError,
    Programs,
)
from imgproc_adapters.postgres.embedded_cluster import explain, free_port, server_directory
from imgproc_adapters.postgres.embedded_files import POLL_SECONDS, ClusterFiles, ServerStatus, lock_now

PORT_ATTEMPTS = 5
# More than the watcher takes before it kills the server.
STOP_SECONDS = embedded_watcher.FAST_SHUTDOWN_SECONDS + embedded_watcher.IMMEDIATE_SHUTDOWN_SECONDS + 10.0
# A parallel index build needs its memory in /dev/shm, and containers often have 64 MB there.
MIN_SHARED_MEMORY_BYTES = 256_000_000

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "shared_buffers": "128MB",
    "effective_cache_size": "1GB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
}
# A crash of the machine may destroy the cluster; one of the server's processes loses nothing, as commits still
# reach the kernel.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


@frozen
class Server:
    """A server that is ready; it lives as long as this process keeps the watcher's pipe open."""

    files: ClusterFiles
    watcher: subprocess.Popen[bytes]
    status: ServerStatus

    @property
    def alive(self) -> bool:
        return self.watcher.poll() is None

    def let_go(self) -> None:
        """Close the pipe and wait for the watcher, which stops the server."""
        _let_go(self.watcher)

    def stop(self) -> None:
        """Fast shutdown, by force after 25 seconds.

        Raises:
            EmbeddedPostgresError: processes of the server are alive even then.
        """
        deadline = time.monotonic() + STOP_SECONDS
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.let_go()
        while not self._gone():
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"The server in {self.files.data_dir} did not stop; see {self.files.log}")
            time.sleep(POLL_SECONDS)

    def _gone(self) -> bool:
        """Whether none of its processes is left; true as well when somebody runs the next server already."""
        lock = lock_now(self.files, "server.lock")
        if lock is not None:
            os.close(lock)
            return True
        status = self.files.status()
        return status is None or status.pid != self.status.pid


def server_settings(*, durable: bool, max_connections: int) -> dict[str, str]:
    """Settings for a small machine (two cores); not durable: survives no power loss."""
    settings = SETTINGS | {"max_connections": str(max_connections)}
    if not durable:
        settings |= NOT_DURABLE
    if _shared_memory_bytes() < MIN_SHARED_MEMORY_BYTES:
        settings["dynamic_shared_memory_type"] = "mmap"
    return settings


def run_server(
    files: ClusterFiles,
    programs: Programs,
    account: Account | None,
    settings: dict[str, str],
    *,
    server_lock: int,
    deadline: float,
) -> Server:
    """Start the server and wait until it accepts connections. Call with `start.lock` and `server.lock` held.

    Raises:
        EmbeddedPostgresError: it exited (with the end of its log) or was not ready by `deadline`.
    """
    for _ in range(PORT_ATTEMPTS):
        port = free_port(files.read("port"))
        log_start = files.log.stat().st_size if files.log.exists() else 0
        watcher = _launch(files, programs, account, settings | {"port": str(port)}, server_lock)
        status: ServerStatus | None = None
        try:
            status = _wait_ready(files, watcher, deadline)
        finally:
            if status is None:
                _let_go(watcher)
        if status is not None:
            files.write("port", str(port))
            return Server(files, watcher, status)
        log = _log_since(files, log_start)
        # Somebody took the port between our look and the server's start.
        if "could not bind" not in log:
            raise EmbeddedPostgresError(explain(f"PostgreSQL did not start in {files.data_dir}", log))
    raise EmbeddedPostgresError("PostgreSQL found no free port on 127.0.0.1; start again")


def _launch(
    files: ClusterFiles,
    programs: Programs,
    account: Account | None,
    settings: dict[str, str],
    server_lock: int,
) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise EmbeddedPostgresError("This Python does not know its executable, which the watcher needs")
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    log = files.open_log()
    try:
        return subprocess.Popen(  # noqa: S603 - this interpreter and a fixed program, no shell
            [
                *(sys.executable, "-I", "-S", embedded_watcher.__file__),
                *(str(os.getpid()), str(uid), str(gid), str(server_lock), str(files.cluster)),
                *(str(programs.bin_dir / "postgres"), "-D", server_directory(files.cluster, account)),
                *(f"--{name}={value}" for name, value in settings.items()),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            pass_fds=(server_lock,),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _wait_ready(files: ClusterFiles, watcher: subprocess.Popen[bytes], deadline: float) -> ServerStatus | None:
    """The status once ready; `None` when the server exited instead."""
    while watcher.poll() is None:
        status = files.status()
        if status is not None and status.ready:
            return status
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(
                f"PostgreSQL in {files.data_dir} was not ready in time; it may be recovering from a crash:"
                f" see {files.log} and raise the start timeout"
            )
        time.sleep(POLL_SECONDS)
    return None


def _let_go(watcher: subprocess.Popen[bytes]) -> None:
    assert watcher.stdin is not None
    watcher.stdin.close()
    watcher.wait(STOP_SECONDS)


def _log_since(files: ClusterFiles, start: int) -> str:
    with files.log.open("rb") as log:
        # A log that was put aside meanwhile begins anew.
        log.seek(start if start <= files.log.stat().st_size else 0)
        return log.read().decode("utf-8", "replace")


def _shared_memory_bytes() -> int:
    with contextlib.suppress(OSError):
        details = os.statvfs("/dev/shm")  # noqa: S108 - only its size is read
        return details.f_bavail * details.f_frsize
    return 0
