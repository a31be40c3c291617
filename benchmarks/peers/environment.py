"""The environment of the peers' packages: ``.venv-peers``, exactly what ``benchmarks/peers.lock`` says."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks import ROOT

PLACE: Final = ROOT / ".venv-peers"
LOCK: Final = ROOT / "benchmarks" / "peers.lock"
_INSTALLED: Final = "installed"
_PATIENCE: Final = 600


class EnvironmentUnusable(Exception):
    """The peers' packages cannot be installed here."""


def interpreter() -> Path:
    """Return the peers' Python; installs what the lock says, unless that is there already.

    Raises:
        EnvironmentUnusable: it cannot be installed; the message is the installer's own.
    """
    python = PLACE / "bin" / "python"
    stamp = PLACE / _INSTALLED
    wanted = hashlib.sha256(f"{ROOT} {sys.version}".encode() + LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(PLACE, ignore_errors=True)
        for command in _commands(python):
            run(command)
        (PLACE / ".gitignore").write_text("*\n", encoding="utf-8")
        stamp.write_text(wanted, encoding="utf-8")
    return python


def _commands(python: Path) -> list[list[str]]:
    uv = shutil.which("uv")
    if uv:
        sync = [uv, "pip", "sync", "--quiet", f"--python={python}", "--require-hashes", str(LOCK)]
        return [[uv, "venv", "--quiet", f"--python={sys.executable}", str(PLACE)], sync]
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    return [[sys.executable, "-m", "venv", str(PLACE)], [*install, "--require-hashes", "-r", str(LOCK)]]


def run(command: list[str]) -> None:
    """Run an installer; raises `EnvironmentUnusable` with the last thing it said unless it succeeds."""
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnusable(str(error)) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise EnvironmentUnusable(last)
