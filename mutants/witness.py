"""A pytest plugin: proves that the copy's code is what runs, and notes which test failed, and how.

A failure counts only in the test itself, and only if it is about behaviour: a fixture that breaks, a name that does not
exist or a statement that the database cannot parse says that the variant is broken, not that a test noticed it.
"""

import importlib
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

NOTES: Final = "IMGPROC_MUTANTS_NOTES"
"""The environment variable that names the file for the notes, one JSON document a line."""

_PACKAGES: Final = ("imgproc_domain", "imgproc_adapters", "imgproc_app")


def pytest_configure(config: pytest.Config) -> None:
    for name in _PACKAGES:
        origin = importlib.import_module(name).__file__
        if origin is None or not Path(origin).resolve().is_relative_to(config.rootpath / "src"):
            raise pytest.UsageError(f"{name} is imported from {origin}, not from the copy in {config.rootpath}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        error = call.excinfo.value if call.excinfo else None
        kinds = [type(one).__name__ for one in _chain(error)]
        sound = call.when == "call" and not any(_is_slip(one) for one in _chain(error))
        line = {"test": item.nodeid, "when": call.when, "errors": kinds, "sound": sound}
        with Path(os.environ[NOTES]).open("a", encoding="utf-8") as notes:
            notes.write(json.dumps(line) + "\n")
    return report


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what it groups, and what it came from."""
    if error is None:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _chain(one)
    yield from _chain(error.__cause__ or error.__context__)


def _is_slip(error: BaseException) -> bool:
    """Whether the changed code cannot be meant: Python or the database does not understand it."""
    if isinstance(error, NameError | SyntaxError | ImportError):
        return True
    # by name: a unit test must not have to load the driver
    return any(kind.__module__ == "psycopg" and kind.__name__ == "ProgrammingError" for kind in type(error).__mro__)
