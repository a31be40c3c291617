"""``python -m benchmarks``: measure, print a table, write ``reports/bench.json`` and add a line to the history."""

import argparse
import asyncio
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from attrs import asdict
from rich.console import Console
from rich.table import Table

from benchmarks import engine, limit
from benchmarks.engine import EngineResult
from benchmarks.server import create_database, open_server

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure the engine beside the physical limit.")
    parser.add_argument("--jobs", type=int, default=5_000, help="complete jobs of the engine's run")
    parser.add_argument("--seconds", type=int, default=8, help="length of each pgbench run")
    options = parser.parse_args()
    with open_server() as server:
        limits = {
            clients: limit.jobs_per_second(create_database(server, f"limit_{clients}"), clients, options.seconds)
            for clients in (1, 2)
        }
        result = asyncio.run(engine.run(create_database(server, "engine"), options.jobs))
    report = _report(result, max(limits.values()))
    _print(report, limits)
    _write(report)


def _report(result: EngineResult, limit_jobs: float) -> dict[str, object]:
    measured: dict[str, object] = dict(asdict(result))
    measured |= {"limit_jobs_per_s": limit_jobs, "ratio": result.jobs_per_s / limit_jobs}
    return {"engine": measured}


def _print(report: dict[str, object], limits: dict[int, float]) -> None:
    console = Console()
    table = Table(title="complete 3-stage jobs, instant stages, one process, fsync on")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for clients, jobs in limits.items():
        table.add_row(f"pgbench writing the same rows, {clients} client(s), jobs/s", f"{jobs:,.0f}")
    engine_rows = report["engine"]
    assert isinstance(engine_rows, dict), "the engine's figures are a mapping"
    for name, value in engine_rows.items():
        table.add_row(f"engine: {name}", f"{value:,.2f}")
    console.print(table)


def _write(report: dict[str, object]) -> None:
    reports = ROOT / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "bench.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    history = ROOT / "benchmarks" / "history"
    history.mkdir(exist_ok=True)
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cores": os.cpu_count(),
        **report,
    }
    with (history / "bench.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
