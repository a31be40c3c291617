"""Private copies of the tree, in which one variant at a time is put in place and tested."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from attrs import frozen

from mutants.kinds import Edit
from mutants.witness import NOTES

_TAIL: Final = 2_000
_PLUGINS: Final = ("-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin", "-p", "mutants.witness")
"""Those that the tests need: whatever else is installed takes longer to load than most tests to run."""


class Verdict(StrEnum):
    CAUGHT = "caught"
    MISSED = "missed"
    SLOW = "slow"
    """Not done in time: caught only where the catalogue says that it hangs."""
    BROKEN = "broken"
    """The variant does not run: it cannot be imported, or its tests cannot begin."""


@frozen
class Trial:
    """One run of some tests. ``by`` is the test that failed; ``output`` the end of what pytest printed."""

    verdict: Verdict
    seconds: float
    by: str | None = None
    output: str = ""


def tracked(root: Path) -> Sequence[str]:
    """List what belongs to the tree: git's files, and the new ones that it would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)  # noqa: S603 - as it stands
    return sorted({name for name in found.stdout.split("\0") if name and (root / name).is_file()})


def copy_tree(root: Path, target: Path, names: Iterable[str]) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name)


class Bench:
    """One copy of the tree."""

    def __init__(self, tree: Path, environment: Mapping[str, str]) -> None:
        self._tree = tree
        self._notes = tree.with_name(f"{tree.name}.notes")
        self._output = tree.with_name(f"{tree.name}.output")
        here = {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree))), NOTES: str(self._notes)}
        self._environment = {**os.environ, **environment, **here, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def trial(self, edits: Sequence[Edit], tests: Sequence[str], seconds: float) -> Trial:
        """Test a variant. Raises `CatalogueError` if an edit does not fit."""
        with self._changed(edits):
            return self._test(tests, seconds)

    @contextmanager
    def _changed(self, edits: Sequence[Edit]) -> Iterator[None]:
        paths = {self._tree / edit.file for edit in edits}
        original = {path: path.read_text(encoding="utf-8") for path in paths}
        try:
            for edit in edits:
                path = self._tree / edit.file
                path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
                _forget(path)
            yield
        finally:
            for path, text in original.items():
                path.write_text(text, encoding="utf-8")
                _forget(path)

    def _test(self, tests: Sequence[str], seconds: float) -> Trial:
        self._notes.write_text("", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_PLUGINS]
        began = time.monotonic()
        with self._output.open("wb") as output:
            running = subprocess.Popen(  # noqa: S603 - the commands are this file's own
                [*command, *tests],
                cwd=self._tree,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = running.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(running)
        took = time.monotonic() - began
        return self._judged(code, took)

    def _judged(self, code: int | None, took: float) -> Trial:
        tail = self._output.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        failed = [json.loads(line) for line in self._notes.read_text(encoding="utf-8").splitlines()]
        by = failed[0]["test"] if failed else None
        if code is None:
            return Trial(Verdict.SLOW, took, by, tail)
        if code == 0 and not failed:
            return Trial(Verdict.MISSED, took, None, tail)
        sound = code == 1 and bool(failed) and failed[0]["sound"]
        return Trial(Verdict.CAUGHT if sound else Verdict.BROKEN, took, by, tail)


def _forget(path: Path) -> None:
    """Remove the compiled module: within one second a change of the same length would look like no change."""
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _end(running: "subprocess.Popen[bytes]") -> None:
    """End the tests and what they started: they lead a process group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
