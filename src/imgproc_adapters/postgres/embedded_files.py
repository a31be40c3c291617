"""The files of an embedded PostgreSQL: what lies in the data directory, how it is created and locked.

<data_dir>/cluster        PostgreSQL's own directory, mode 0700, owned by the account that runs the server
<data_dir>/cluster.new    an unfinished initialisation; redone when found
<data_dir>/password       password of the role `imgproc`, mode 0600
<data_dir>/port           the loopback port of the last start, preferred at the next
<data_dir>/server.log     the server's log; the previous one is server.log.1
<data_dir>/start.lock     held while somebody initialises, starts or attaches
<data_dir>/server.lock    held by the server's processes for as long as any of them lives
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from imgproc_adapters.postgres.embedded_binaries import EmbeddedPostgresError

POLL_SECONDS = 0.02
LOG_ROTATE_BYTES = 10_000_000
STATUS_LINES = 8


@frozen
class ServerStatus:
    """What a running server says of itself in `postmaster.pid`."""

    pid: int
    port: int
    ready: bool


@frozen
class ClusterFiles:
    """Paths below one data directory, and the few operations on them."""

    data_dir: Path

    @property
    def cluster(self) -> Path:
        return self.data_dir / "cluster"

    @property
    def log(self) -> Path:
        return self.data_dir / "server.log"

    def open_private(self, name: str, flags: int) -> int:
        """Open or create a file beside the cluster, mode 0600, owned by the data directory's owner.

        Symbolic links are refused: root may be working in a directory that belongs to somebody else.
        """
        descriptor = os.open(self.data_dir / name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.geteuid() == 0:
            owner = self.data_dir.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        return descriptor

    def read(self, name: str) -> str | None:
        """Content of a small file beside the cluster, stripped; `None` when missing or empty."""
        try:
            return (self.data_dir / name).read_text("utf-8").strip() or None
        except FileNotFoundError:
            return None

    def write(self, name: str, content: str) -> None:
        """Replace a small file beside the cluster in one step."""
        with os.fdopen(self.open_private(f"{name}.new", os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(f"{content}\n")
            file.flush()
            os.fsync(file.fileno())
        (self.data_dir / f"{name}.new").rename(self.data_dir / name)

    def password(self) -> str:
        """The role's password.

        Raises:
            EmbeddedPostgresError: the file is missing though the cluster exists.
        """
        password = self.read("password")
        if password is None:
            raise EmbeddedPostgresError(
                f"{self.data_dir / 'password'} is missing; restore it from a backup, or move {self.data_dir}"
                " aside to begin with an empty database"
            )
        return password

    def status(self) -> ServerStatus | None:
        """The running server's status; `None` when there is none or it is just starting."""
        try:
            lines = (self.cluster / "postmaster.pid").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < STATUS_LINES:
            return None
        return ServerStatus(int(lines[0]), int(lines[3]), lines[7].strip() == "ready")

    def open_log(self) -> int:
        """The log for appending; a large one is put aside first."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_ROTATE_BYTES:
                self.log.rename(self.log.with_name("server.log.1"))
        return self.open_private("server.log", os.O_WRONLY | os.O_APPEND)


def lock_now(files: ClusterFiles, name: str) -> int | None:
    """Take the lock and return its descriptor, or `None` when somebody else holds it.

    The kernel releases the lock when the last process that inherited the descriptor is gone.
    """
    descriptor = files.open_private(name, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(files: ClusterFiles, name: str, deadline: float) -> Iterator[int]:
    """Hold the lock; waits for its holder until `deadline` (monotonic seconds).

    Raises:
        EmbeddedPostgresError: the deadline passed.
    """
    while (descriptor := lock_now(files, name)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(
                f"Another process is still starting the server in {files.data_dir} (it holds {name}); wait"
                " for it or stop it"
            )
        time.sleep(POLL_SECONDS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
