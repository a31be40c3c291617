"""What is printed where: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from attrs import frozen
from rich.console import Console, JustifyMethod
from rich.table import Table

from imgproc_domain.text import clean

_WIDTH_OF_A_PIPE: Final = 140


@frozen
class Output:
    """``out`` is for results, ``err`` for progress and remarks. With ``as_json``, ``out`` holds JSON alone."""

    as_json: bool
    out: Console
    err: Console

    @classmethod
    def create(cls, *, as_json: bool) -> "Output":
        return cls(as_json, _console(error=False), _console(error=True))

    @property
    def live(self) -> bool:
        """Whether progress may be drawn over and over."""
        return self.err.is_terminal and not self.as_json

    def document(self, data: object) -> None:
        """Print one JSON document on one line."""
        # where an encoding cannot hold every character, JSON's own escapes can
        escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
        sys.stdout.write(json.dumps(data, ensure_ascii=escaped, default=_plain) + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Tell a person something that is no result."""
        self.err.print(text, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line of the result, unless JSON is wanted."""
        if not self.as_json:
            self.out.print(text, soft_wrap=True)

    def table(self, table: Table) -> None:
        if not self.as_json:
            self.out.print(table)

    def error(self, code: str, message: str, hint: str | None) -> None:
        """Print one red line, a hint if there is one, and with ``as_json`` the same as a document."""
        self.err.print(f"error: {message}", style="red", soft_wrap=True)
        if hint is not None:
            self.err.print(f"hint: {hint}", soft_wrap=True)
        if self.as_json:
            self.document({"error": code, "message": message, **({"hint": hint} if hint else {})})


def table_of(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """Return a table; columns named in ``right`` are aligned to the right.

    Those in ``whole`` are to be copied and stay on one line, however narrow the terminal.
    """
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*row)
    return table


def one_line(text: str, limit: int = 200) -> str:
    """Return text from anywhere as one safe, bounded line."""
    return clean(" ".join(text.split()), limit)


def _console(*, error: bool) -> Console:
    stream = sys.stderr if error else sys.stdout
    # names of files and titles are content: nothing in them is markup, an emoji code or worth colouring
    width = None if stream.isatty() else _WIDTH_OF_A_PIPE
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case UUID() | Path():
            return str(value)
        case _:
            raise TypeError(f"no JSON for {type(value).__name__}")
