"""The process between the owner of an embedded PostgreSQL and its server. Run by path, never imported.

It starts the server as its child and stops it when the owner closes the pipe on standard input or is gone.
It exists because an owner cannot promise to run code when it dies, and because the kernel's parent-death
signal follows the *thread* that started a child: this process has one thread, so here the signal is exact,
and it covers the death of this process too. Standard library only, so that it starts in a few milliseconds.

Arguments: owner pid, uid and gid for the server (-1: unchanged), inherited lock descriptor, server directory,
then the server's command line. Exit status: that of the server.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
FAST_SHUTDOWN_SECONDS = 20.0
IMMEDIATE_SHUTDOWN_SECONDS = 5.0
# A child that the owner forked may hold the pipe open after the owner's death; the parent's pid tells then.
OWNER_CHECK_SECONDS = 0.5


def main(arguments: list[str]) -> int:
    """Run the server until it exits or the owner lets go."""
    owner, uid, gid, lock = (int(value) for value in arguments[:4])
    directory, command = arguments[4], arguments[5:]
    wakeup = wake_on_children()
    watcher = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_watcher() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != watcher:
            os._exit(1)

    server = subprocess.Popen(  # noqa: S603 - the command line is built by our own supervisor, no shell
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        pass_fds=(lock,),
        env=dict(os.environ),
        user=None if uid < 0 else uid,
        group=None if gid < 0 else gid,
        extra_groups=None if uid < 0 else [],
        umask=0o077,
        preexec_fn=die_with_watcher,  # noqa: PLW1509 - this process has a single thread
    )
    while server.poll() is None and os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin.fileno(), wakeup], [], [], OWNER_CHECK_SECONDS)
        if sys.stdin.fileno() in readable:
            break
        if readable:
            os.read(wakeup, 512)
    return _stop(server)


def wake_on_children() -> int:
    """A descriptor that becomes readable when a child stops or exits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _stop(server: subprocess.Popen[bytes]) -> int:
    """Fast shutdown, then an immediate one (recovered at the next start), then by force."""
    for request, seconds in (
        (signal.SIGINT, FAST_SHUTDOWN_SECONDS),
        (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_SECONDS),
    ):
        server.send_signal(request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return server.wait(seconds)
    server.kill()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
