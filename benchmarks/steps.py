"""Steps of a run: what one of them cannot do costs the others nothing."""

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from attrs import define, field, frozen
from rich.console import Console

_LONGEST: Final = 300

PROGRESS: Final = Console(file=sys.stderr)


@frozen
class Measured:
    """One part of the report: ``values`` under their agreed names, or rows of them, and whatever else explains them."""

    values: Any
    details: Mapping[str, object]
    errors: Mapping[str, str]


@define
class Steps:
    """Runs steps one after the other and keeps what went wrong with which."""

    part: str
    errors: dict[str, str] = field(factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Note what is being done; an error ends the block and is kept."""
        PROGRESS.print(f"{self.part}: {name} ...", highlight=False)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the other steps are to be measured
            traceback.print_exc()
            self.errors[name] = in_one_line(error)


def in_one_line(error: Exception) -> str:
    """Return type and message of an error, cut where it becomes a story."""
    if isinstance(error, ExceptionGroup):
        return in_one_line(error.exceptions[0])
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]


def in_order(names: tuple[str, ...], values: Mapping[str, object]) -> dict[str, object]:
    """Return a value for every name, None where there is none.

    Raises:
        ValueError: there is a value that has no name.
    """
    if unknown := values.keys() - set(names):
        raise ValueError(f"not in the report: {', '.join(sorted(unknown))}")
    return {name: values.get(name) for name in names}


Measure = Callable[[], Measured]
