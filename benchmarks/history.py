"""Every run of everything leaves a line; whether the engine has become slower is read off its ratio to the limit.

The ratio compares machines of the same number of cores as they are that day: absolute times would compare their load.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from rich.table import Table

from benchmarks.stats import median

HISTORY: Final = Path(__file__).parent / "history" / "bench.jsonl"
WORST_FALL: Final = 0.2
SHOWN: Final = 20

Line = Mapping[str, Any]


@frozen
class Verdict:
    """The newest full run beside the median of those before it on as many cores; None where there is none."""

    newest: float | None
    before: float | None
    runs: int

    @property
    def change(self) -> float | None:
        """How much the ratio has changed: -0.25 is a fall by a quarter."""
        if self.newest is None or self.before is None:
            return None
        return self.newest / self.before - 1

    @property
    def has_fallen(self) -> bool:
        return self.change is not None and self.change < -WORST_FALL

    def __str__(self) -> str:
        if self.newest is None:
            return "there is no full run yet"
        if self.change is None:
            return f"ratio to the limit {self.newest:.3f}; there is no earlier full run on as many cores"
        words = f"ratio to the limit {self.newest:.3f}, {self.change:+.1%} of the median of {self.runs} earlier run(s)"
        return f"{words}: a regression" if self.has_fallen else words


def ratio(line: Line) -> float | None:
    """Return the ratio of a run that measured everything; None for any other one."""
    engine = line.get("engine")
    found = engine.get("ratio") if isinstance(engine, Mapping) else None
    # lines from before runs said so were full ones
    return float(found) if found is not None and line.get("full", True) else None


def judge(lines: Sequence[Line]) -> Verdict:
    """Compare the newest full run of a history with those before it."""
    full = [(line.get("cores"), found) for line in lines if (found := ratio(line)) is not None]
    if not full:
        return Verdict(None, None, 0)
    cores, newest = full[-1]
    earlier = [found for others, found in full[:-1] if others == cores]
    return Verdict(newest, median(earlier) if earlier else None, len(earlier))


def read_history(path: Path = HISTORY) -> list[Line]:
    """Return the lines of the file, the oldest first; none if it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(report: Mapping[str, object], *, at: datetime, commit: str, cores: int, full: bool) -> None:
    """Add a run to the history; ``full`` if it measured everything at full size, so that it can be compared."""
    HISTORY.parent.mkdir(exist_ok=True)
    head = {"at": at.isoformat(timespec="seconds"), "commit": commit, "cores": cores, "full": full}
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(head | figures(report)) + "\n")


def figures(report: Mapping[str, object]) -> dict[str, object]:
    """Return a report without the words: what an error says is of that machine and that day.

    Rows are known by their words instead of their places, which are others when fewer are measured.
    """
    found: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, Mapping):
            found[name] = figures(value)
        elif isinstance(value, list):
            found[name] = {_place(row): figures(row) for row in value}
        elif not isinstance(value, str):
            found[name] = value
    return found


def _place(row: Mapping[str, object]) -> str:
    """Return the first figure of a row and its words: they say what its other figures are of."""
    first = next(iter(row.values()))
    return " ".join([str(first), *(value for value in row.values() if isinstance(value, str))])


def trend(lines: Sequence[Line]) -> Table:
    """Return the ratios of the last full runs, one a line."""
    table = Table(title="the engine's ratio to the limit, over runs")
    for heading in ("when", "commit", "cores", "ratio", "jobs/s", "limit"):
        table.add_column(heading, justify="left" if heading in {"when", "commit"} else "right")
    for line in [each for each in lines if ratio(each) is not None][-SHOWN:]:
        engine = line["engine"]
        figures = (f"{engine['ratio']:.3f}", f"{engine['jobs_per_s']:,.0f}", f"{engine['limit_jobs_per_s']:,.0f}")
        table.add_row(str(line["at"]), str(line["commit"]), str(line["cores"]), *figures)
    return table
