"""``python -m chaos.nursery SECONDS``: gives birth to workers whose wall clocks are off by so many seconds.

A worker imports for a second and may live for half of one, so it is forked from a process that has imported
everything and done nothing. Each line of standard input is the order of one worker; each line of standard output says
what became of one: ``born``, ``stopped`` or ``died``, its process and its status. When the input ends, all die.
"""

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from chaos import clocks

_PR_SET_PDEATHSIG: Final = 1
_ENOUGH: Final = 65_536


def main(seconds: int) -> None:
    clocks.shift(seconds)
    from chaos import worker  # noqa: PLC0415 - nothing may take hold of the clocks before they are shifted
    from imgproc_adapters.postgres.embedded_watcher import wake_on_children  # noqa: PLC0415 - as above

    gc.freeze()
    _tell("ready", os.getpid(), 0)
    children: set[int] = set()
    wakeup = wake_on_children()
    orders = b""
    try:
        while True:
            readable, _, _ = select.select([0, wakeup], [], [])
            if wakeup in readable:
                os.read(wakeup, _ENOUGH)
                _look_after(children)
            if 0 in readable:
                chunk = os.read(0, _ENOUGH)
                if not chunk:
                    return
                *lines, orders = (orders + chunk).split(b"\n")
                for line in lines:
                    children.add(_bear(partial(worker.run, worker.Order.from_json(line.decode()))))
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _tell(what: str, process: int, status: int) -> None:
    os.write(1, f"{what} {process} {status}\n".encode())


def _look_after(children: set[int]) -> None:
    for child in list(children):
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            continue
        if os.WIFSTOPPED(status):
            _tell("stopped", child, 0)
        else:
            children.discard(child)
            _tell("died", child, os.waitstatus_to_exitcode(status))


def _bear(run: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        _tell("born", child, 0)
        return child
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        run()
        status = 0
    finally:
        # a traceback is the nursery's business no more than its atexit handlers are the child's
        if status:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
