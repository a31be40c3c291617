"""What the catalogue is made of: one change of the code that must not go unnoticed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[1]


class CatalogueError(Exception):
    """The catalogue does not fit the code."""


@frozen
class Edit:
    """Text that occurs exactly once in a file of the repository, and what stands there instead."""

    file: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        """Raises `CatalogueError` unless the text is there exactly once."""
        found = text.count(self.before)
        if found != 1:
            raise CatalogueError(f"{self.file}: occurs {found} times, not once: {self.before!r}")
        return text.replace(self.before, self.after)


@frozen
class Mutant:
    """A fence removed: ``tests``, paths or node ids of pytest, must fail. ``hangs``: by taking too long, too."""

    name: str
    breaks: str
    wrong: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    hangs: bool = False

    @property
    def edits(self) -> Sequence[Edit]:
        return (Edit(self.file, self.before, self.after),)


@frozen
class Wall:
    """A fence that another one repeats: nothing fails without it, and something without both."""

    name: str
    breaks: str
    why: str
    left_out: Edit
    other: Edit
    tests: tuple[str, ...]
