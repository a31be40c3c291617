"""Hosts made of network namespaces: one bridge in a namespace of its own, a cable to each host, and nothing else.

Every name begins with `PREFIX` and the process that made it, so that nothing of anybody else's is touched, and what a
killed run left behind is known by its process being gone.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

PREFIX: Final = "imgproc-hosts-"
SUBNET: Final = "10.77.0"
WIDTH: Final = 24
SWITCH: Final = "switch"
_CARD: Final = "eth0"
_BRIDGE: Final = "bridge"
_NAMESPACES: Final = Path("/run/netns")
_PATIENCE: Final = 5.0


class NetworkError(Exception):
    """This machine cannot make hosts; the message says what is missing."""


def why_not() -> str | None:
    """Return what this machine lacks, with how to get it; None if hosts can be made."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    if shutil.which("ip") is None:
        return "needs ip on the PATH (Debian: apt-get install iproute2)"
    return None


@frozen
class Network:
    """The hosts of the run of process ``run``."""

    run: int

    def namespace(self, host: str) -> str:
        return f"{PREFIX}{self.run}-{host}"

    def open(self, hosts: Sequence[str]) -> None:
        """Make a switch, which has the first address, and plug in the hosts, which have the next ones.

        Raises:
            NetworkError: the kernel does not let us.
        """
        switch = self.namespace(SWITCH)
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "set", "lo", "up")
        _ip("-n", switch, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", switch, "addr", "add", f"{SUBNET}.1/{WIDTH}", "dev", _BRIDGE)
        _ip("-n", switch, "link", "set", _BRIDGE, "up")
        for number, host in enumerate(hosts, start=2):
            self._plug_in(host, f"{SUBNET}.{number}")

    def _plug_in(self, host: str, address: str) -> None:
        switch, name = self.namespace(SWITCH), self.namespace(host)
        _ip("netns", "add", name)
        _ip("-n", switch, "link", "add", host, "type", "veth", "peer", "name", _CARD, "netns", name)
        _ip("-n", switch, "link", "set", host, "master", _BRIDGE, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "addr", "add", f"{address}/{WIDTH}", "dev", _CARD)
        _ip("-n", name, "link", "set", _CARD, "up")

    def inside(self, host: str, *command: str) -> list[str]:
        """Return the command that runs ``command`` on the host."""
        return ["ip", "netns", "exec", self.namespace(host), *command]

    def cut(self, host: str) -> None:
        """Pull the cable out of the switch: whatever is sent either way is lost, and nobody is told."""
        _ip("-n", self.namespace(SWITCH), "link", "set", host, "nomaster")

    def mend(self, host: str) -> None:
        _ip("-n", self.namespace(SWITCH), "link", "set", host, "master", _BRIDGE)

    def slow(self, host: str, seconds: float, jitter: float) -> bool:
        """Delay what the host sends, by the kernel's netem; false where the kernel has none."""
        delay = [f"{seconds * 1000:g}ms", f"{jitter * 1000:g}ms"]
        if shutil.which("tc") is None:
            return False
        command = ["tc", "qdisc", "add", "dev", _CARD, "root", "netem", "delay", *delay]
        return _run(self.inside(host, *command)).returncode == 0

    def close(self) -> None:
        """End whatever runs on the hosts, and take them away: also half of them, and also twice."""
        for name in _ours(self.run):
            _end(name)
            _run(["ip", "netns", "del", name])


def sweep() -> None:
    """Take away what runs left behind whose process is gone."""
    for path in _NAMESPACES.glob(f"{PREFIX}*"):
        run = path.name.removeprefix(PREFIX).partition("-")[0]
        if run.isdigit() and not Path("/proc", run).exists():
            Network(int(run)).close()


def _ours(run: int) -> list[str]:
    return sorted(path.name for path in _NAMESPACES.glob(f"{PREFIX}{run}-*"))


def _end(name: str) -> None:
    """Kill the processes of a namespace, and wait until they are gone."""
    give_up = time.monotonic() + _PATIENCE
    while (pids := _pids(name)) and time.monotonic() < give_up:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _pids(name: str) -> list[int]:
    return [int(pid) for pid in _run(["ip", "netns", "pids", name]).stdout.split()]


def _ip(*arguments: str) -> None:
    done = _run(["ip", *arguments])
    if done.returncode:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
