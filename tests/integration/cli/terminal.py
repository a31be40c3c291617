"""The command line as a person types it: real processes, a real embedded PostgreSQL, real models."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from attrs import define, field, frozen

REPOSITORY = Path(__file__).resolve().parents[3]
SAMPLES = REPOSITORY / "samples"
DEADLINE = 180.0


def environment(**more: str) -> dict[str, str]:
    """Return this environment without settings of ours, and with what is importable here importable there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IMGPROC_")}
    # the processes start several times faster when they may keep their compiled code
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    path = os.pathsep.join(place for place in (str(REPOSITORY / "src"), kept.get("PYTHONPATH")) if place)
    # a cold model on a busy machine may take longer than people would like to wait
    return {**kept, "PYTHONPATH": path, "IMGPROC_ANSWER_SECONDS": str(DEADLINE), **more}


def typed(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "imgproc_app.cli", *arguments]


@frozen
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        (line,) = self.lines
        return line


@frozen
class Imgproc:
    """Types commands over one data directory."""

    data_dir: Path
    env: dict[str, str]

    def run(self, *arguments: str, cwd: Path | None = None, **more: str) -> Result:
        done = subprocess.run(
            typed("--data-dir", str(self.data_dir), *arguments),
            env={**self.env, **more},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str, **more: str) -> Result:
        return self.run("--json", *arguments, cwd=None, **more)

    def start(self, *arguments: str) -> "Started":
        errors = (self.data_dir.parent / f"{arguments[0]}-{time.monotonic_ns()}.err").open("w+")
        process = subprocess.Popen(
            typed("--data-dir", str(self.data_dir), "--json", *arguments),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        return Started(process, errors)


@define
class Started:
    """A process that runs until it is told to stop; its first line of output says that it is ready."""

    process: "subprocess.Popen[str]"
    errors: IO[str] = field()

    def ready(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        return json.loads(line)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def copied(names: Sequence[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes((SAMPLES / name).read_bytes())
