"""``python -m benchmarks``: measure, print a table, write ``reports/bench.json`` and add a line to the history."""

import argparse
import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from attrs import asdict
from rich.console import Console
from rich.table import Table

from benchmarks import engine, fairness, limit
from benchmarks.server import create_database, open_server
from imgproc_adapters.postgres.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[1]
PARTS = ("engine", "fairness")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure the engine beside the physical limit.")
    parser.add_argument(
        "--only", choices=PARTS, help="measure this part alone; the report keeps the others as they are"
    )
    parser.add_argument("--jobs", type=int, default=5_000, help="complete jobs of the engine's run")
    parser.add_argument("--seconds", type=int, default=8, help="length of each pgbench run")
    parser.add_argument("--backlog", type=int, default=100_000, help="queued tasks of the scope that others wait for")
    parser.add_argument("--rounds", type=int, default=20, help="how often ten tasks are queued beside the backlog")
    options = parser.parse_args()
    measures = {
        "engine": lambda server: _engine(server, options.jobs, options.seconds),
        "fairness": lambda server: _fairness(server, options.backlog, options.rounds),
    }
    with open_server() as server:
        report = {part: measures[part](server) for part in PARTS if options.only in (None, part)}
    _write(report)


def _engine(server: EmbeddedPostgres, jobs: int, seconds: int) -> dict[str, object]:
    limits = {
        clients: limit.jobs_per_second(create_database(server, f"limit_{clients}"), clients, seconds)
        for clients in (1, 2)
    }
    result = asyncio.run(engine.run(create_database(server, "engine"), jobs))
    most = max(limits.values())
    measured = {**asdict(result), "limit_jobs_per_s": most, "ratio": result.jobs_per_s / most}
    table = Table(title="complete 3-stage jobs, instant stages, one process, fsync on")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for clients, jobs_per_s in limits.items():
        table.add_row(f"pgbench writing the same rows, {clients} client(s), jobs/s", f"{jobs_per_s:,.0f}")
    for name, value in measured.items():
        table.add_row(f"engine: {name}", f"{value:,.2f}")
    Console().print(table)
    return measured


def _fairness(server: EmbeddedPostgres, backlog: int, rounds: int) -> dict[str, object]:
    results = {
        lane.value: asyncio.run(fairness.run(create_database(server, f"fairness_{lane}"), lane, backlog, rounds))
        for lane in fairness.LANES
    }
    Console().print(fairness.table(results))
    return {lane: asdict(result) for lane, result in results.items()}


def _write(report: Mapping[str, object]) -> None:
    reports = ROOT / "reports"
    reports.mkdir(exist_ok=True)
    path = reports / "bench.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**before, **report}, indent=2) + "\n", encoding="utf-8")
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
