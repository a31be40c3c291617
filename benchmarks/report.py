"""``reports/bench.json`` for machines, and tables of it for people."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from rich.table import Table

from benchmarks import ROOT

REPORT: Final = ROOT / "reports" / "bench.json"
OURS: Final = "imgproc"
_ABSENT: Final = "-"


@frozen
class Row:
    """A figure of the report: its key, what it is called, and how it is written."""

    key: str
    title: str
    unit: str
    digits: int = 0

    def text(self, values: Mapping[str, Any]) -> str:
        found = values.get(self.key)
        return _ABSENT if found is None else f"{found:,.{self.digits}f}"


ROWS: Final = (
    Row("jobs_per_s", "complete jobs", "jobs/s"),
    Row("jobs_per_s_2_processes", "- by 2 processes", "jobs/s"),
    Row("jobs_per_s_1m_finished", "- beside finished jobs", "jobs/s"),
    Row("jobs_per_s_200k_queued", "- beside queued jobs", "jobs/s"),
    Row("limit_jobs_per_s", "limit: their rows alone", "jobs/s"),
    Row("ratio", "complete jobs / limit", "", 3),
    Row("wal_bytes_per_job", "WAL", "bytes/job"),
    Row("commits_per_job", "commits", "1/job", 2),
    Row("client_cpu_us_per_job", "CPU of the client", "us/job"),
    Row("server_cpu_us_per_job", "CPU of the server", "us/job"),
    Row("idle_pickup_ms_p50", "idle pick-up, p50", "ms", 1),
    Row("idle_pickup_ms_p99", "idle pick-up, p99", "ms", 1),
    Row("submit_per_s", "submits, single", "jobs/s"),
    Row("bulk_submit_per_s", "submits, bulk", "jobs/s"),
)
MODEL_ROWS: Final = (
    Row("pictures_per_s", "the whole pipeline", "pictures/s", 2),
    Row("raw_loop_pictures_per_s", "the same models in a plain loop", "pictures/s", 2),
    Row("ratio", "ratio", "", 3),
)
SEARCH_ROWS: Final = (
    Row("scope_size", "vectors", ""),
    Row("recall_at_10", "recall@10", "", 3),
    Row("p50_ms", "p50", "ms", 2),
    Row("p95_ms", "p95", "ms", 2),
    Row("store_p50_ms", "the store alone", "ms", 2),
    Row("best_sql_p50_ms", "best SQL", "ms", 2),
    Row("ratio", "ratio to it", "", 2),
    Row("numpy_p50_ms", "numpy", "ms", 2),
)
SEARCH_WORDS: Final = ("plan", "ranking")


def columns(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return engine and peers side by side, those that were measured."""
    engine = report.get("engine")
    peers = report.get("peers")
    found = {OURS: engine} if isinstance(engine, Mapping) else {}
    return found | (dict(peers) if isinstance(peers, Mapping) else {})


def side_by_side(report: Mapping[str, Any]) -> Table:
    """Return one table of everything that does complete jobs."""
    sides = columns(report)
    table = Table(title="complete 3-step jobs, instant steps, one process unless it says two, fsync on")
    table.add_column("what")
    table.add_column("unit")
    for name in sides:
        table.add_column(name, justify="right")
    for row in ROWS:
        table.add_row(row.title, row.unit, *(row.text(values) for values in sides.values()))
    return table


def of_models(values: Mapping[str, Any]) -> Table:
    table = Table(title="sample pictures through the local models")
    for heading in ("what", "unit", "measured"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for row in MODEL_ROWS:
        table.add_row(row.title, row.unit, row.text(values))
    return table


def of_search(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table(title="search in scopes among others, 512 dimensions, a text model that takes no time")
    for heading in search_heads():
        table.add_column(heading, justify="left" if heading in SEARCH_WORDS else "right")
    for row in rows:
        table.add_row(*search_cells(row))
    return table


def search_heads() -> list[str]:
    return [*SEARCH_WORDS, *(f"{row.title}, {row.unit}" if row.unit else row.title for row in SEARCH_ROWS)]


def search_cells(row: Mapping[str, Any]) -> list[str]:
    return [*(str(row[word]) for word in SEARCH_WORDS), *(figure.text(row) for figure in SEARCH_ROWS)]


def errors(report: Mapping[str, Any], parts: Iterable[str]) -> list[str]:
    """Return what of some parts could not be measured, and why, in one line each."""
    found = []
    for part in parts:
        details = report.get("details", {}).get(part, {})
        found += [f"{part}: {step}: {error}" for step, error in details.get("errors", {}).items()]
    return found


def merged(before: Mapping[str, Any], part: str, values: object, details: Mapping[str, Any]) -> Any:
    """Return the report with one part measured anew, everything else as it was."""
    return {**before, part: values, "details": {**before.get("details", {}), part: details}}


def read_report(path: Path = REPORT) -> dict[str, Any]:
    """Return the report of earlier runs, empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def write_report(report: Mapping[str, Any], path: Path = REPORT) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
