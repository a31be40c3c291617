"""Python, packages, directories and room on the disk."""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from imgproc_app.doctor.check import Check, Verdict, failed, ok, skipped, warning
from imgproc_app.lifecycle import DataDirUnusable, existing, make_private
from imgproc_app.settings import Settings

DATA_DIRECTORY: Final = "data directory"
NO_DATA_DIRECTORY: Final = "the data directory cannot be used"
_BLOB_DIRECTORY: Final = "blob directory"

OLDEST_PYTHON: Final = (3, 11)

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)")
_GIGABYTE: Final = 1024**3
_ROOM: Final = 2 * _GIGABYTE
_LEAST_ROOM: Final = _GIGABYTE // 4


def examine_machine(settings: Settings) -> Iterator[Check]:
    yield _python(sys.version_info[:3])
    yield _packages()
    data = _writable(DATA_DIRECTORY, settings.data_dir)
    yield data
    if data.verdict is Verdict.FAILED:
        yield skipped(_BLOB_DIRECTORY, NO_DATA_DIRECTORY)
    else:
        yield _writable(_BLOB_DIRECTORY, settings.blob_dir)
    yield disk(settings.data_dir, _free(settings.data_dir))


def disk(folder: Path, free: int) -> Check:
    """Judge ``free`` bytes of room."""
    found = f"{free / _GIGABYTE:.1f} GB free for {folder}"
    if free < _LEAST_ROOM:
        return failed("disk", found, "free some room, or choose another disk with --data-dir")
    if free < _ROOM:
        return warning("disk", found, "the embedded database and a small library need about 2 GB")
    return ok("disk", found)


def wanted_packages(requirements: Sequence[str]) -> list[str]:
    """Return the names in a distribution's requirements that belong to it or to its extra ``local``."""
    names = []
    for requirement in requirements:
        name, extra = _NAME.match(requirement), _EXTRA.search(requirement)
        if name is not None and (extra is None or extra[1] == "local"):
            names.append(name[0])
    return names


def _python(found: tuple[int, ...]) -> Check:
    text = ".".join(map(str, found))
    if found[:2] < OLDEST_PYTHON:
        return failed("python", text, "install Python 3.11 or newer")
    return ok("python", f"{text} at {sys.executable}")


def _packages() -> Check:
    try:
        names = wanted_packages(requires("imgproc") or [])
    except PackageNotFoundError:
        return failed(
            "packages",
            "imgproc itself is not installed",
            "'make venv' in the source tree, or pip install 'imgproc[local]'",
        )
    missing = [name for name in names if not _installed(name)]
    if missing:
        return failed("packages", f"missing: {', '.join(missing)}", "pip install 'imgproc[local]'")
    return ok("packages", f"imgproc {version('imgproc')} and all {len(names)} packages it asks for")


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _writable(name: str, folder: Path) -> Check:
    fix = _fix(folder)
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"imgproc")
    except DataDirUnusable as error:
        return failed(name, error.message, fix)
    except OSError as error:
        return failed(name, f"{folder} cannot be written: {error.strerror}", fix)
    return ok(name, f"{folder} can be written")


def _fix(folder: Path) -> str:
    """Return what to do about a directory that cannot be used."""
    there = existing(folder)
    if not there.is_dir():
        return f"move the file {there} away, or choose another place with --data-dir (IMGPROC_DATA_DIR)"
    return f"give your user write access to {there}, or choose another place with --data-dir (IMGPROC_DATA_DIR)"


def _free(folder: Path) -> int:
    return shutil.disk_usage(existing(folder)).free
