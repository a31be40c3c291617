"""``python -m benchmarks``: measure on one server in one run, print the table, write ``reports/bench.json``."""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from attrs import asdict, evolve
from rich.console import Console

from benchmarks import ROOT, docs, engine, fairness, history, models, relevance, report, search
from benchmarks.peers import run as peers
from benchmarks.plan import FULL, QUICK, Plan
from benchmarks.server import open_server
from benchmarks.steps import PROGRESS, Measured, in_one_line
from imgproc_adapters.postgres.embedded import EmbeddedPostgres

PARTS: Final[Mapping[str, Callable[[EmbeddedPostgres, Plan], Measured]]] = {
    "engine": engine.measure,
    "peers": peers.measure,
    "models": models.measure,
    "fairness": fairness.measure,
    "search": search.measure,
    "relevance": relevance.measure,
}
WIDTH: Final = 120
SIZES: Final = ("jobs", "seconds", "finished", "queued", "backlog", "largest")


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.write_docs and (options.quick or options.only):
        parser.error("--write-docs needs a full run: neither --quick nor --only")
    if options.compare:
        return compare()
    if options.rewrite_docs:
        return write_docs(report.read_report())
    usual = QUICK if options.quick else FULL
    given = {name: getattr(options, name) for name in SIZES if getattr(options, name) is not None}
    plan = evolve(usual, **given)
    parts = options.only or list(PARTS)
    found = run(parts, plan)
    _print(found, parts)
    if not options.quick:
        history.append(
            {part: found[part] for part in PARTS if part in parts},
            at=datetime.now(UTC),
            commit=commit(),
            cores=os.cpu_count() or 1,
            full=plan == FULL and set(parts) == set(PARTS),
        )
    unwritten = write_docs(found) if options.write_docs else 0
    return int(bool(unwritten or report.errors(found, parts)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="The engine beside the limit and its peers.")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"measure these alone, of {', '.join(PARTS)}"
    )
    parser.add_argument("--quick", action="store_true", help="see that everything works: small, and no history")
    parser.add_argument("--compare", action="store_true", help="measure nothing: 1 if the newest run is a regression")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md and its plot as well")
    parser.add_argument("--rewrite-docs", action="store_true", help="measure nothing: write them from the last report")
    helps = {
        "jobs": "complete jobs measured at a time",
        "seconds": "length of each pgbench run",
        "finished": "finished jobs to measure beside",
        "queued": "queued jobs to measure beside",
        "backlog": "queued tasks of the scope that others wait for",
        "largest": "vectors of the largest scope that is searched",
    }
    for name in SIZES:
        parser.add_argument(f"--{name}", type=int, help=f"{helps[name]} (usually {getattr(FULL, name):,})")
    return parser


def run(parts: Sequence[str], plan: Plan) -> dict[str, Any]:
    """Measure parts, each whatever became of the others, and return the report, which is written after each."""
    found = report.read_report()
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    with open_server() as server:
        for part in parts:
            try:
                measured = PARTS[part](server, plan)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other parts are to be measured
                measured = Measured({"error": in_one_line(error)}, {}, {part: in_one_line(error)})
            of_run = {"run": begun, "plan": asdict(plan), "machine": machine(), "errors": measured.errors}
            details = {**measured.details, **of_run}
            found = report.merged(found, part, measured.values, details)
            report.write_report(found)
    return found


def compare() -> int:
    """Print the ratios of the history; 1 if the newest one has fallen too far."""
    lines = history.read_history()
    verdict = history.judge(lines)
    Console().print(history.trend(lines))
    print(verdict)
    return int(verdict.has_fallen)


def write_docs(found: Mapping[str, Any]) -> int:
    """Write page and plot from a report; 1, and why, if it is not fit for that."""
    if reason := docs.why_not(found, PARTS):
        print(f"docs/{docs.PAGE.name} is not written: the report is {reason}", file=sys.stderr)
        return 1
    docs.write(found)
    return 0


def machine() -> dict[str, object]:
    """Return what the figures depend on: processor, cores, versions, commit and day."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - no file of ours
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "commit": commit(),
        "day": datetime.now(UTC).date().isoformat(),
    }


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def _print(found: Mapping[str, Any], parts: Sequence[str]) -> None:
    # a file or a pipe has no width of its own
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if {"engine", "peers"} & set(parts):
        console.print(report.side_by_side({part: found[part] for part in parts}))
    if "models" in parts:
        console.print(report.of_models(found["models"]))
    if "fairness" in parts:
        lanes = {lane: fairness.FairnessResult(**each) for lane, each in found["fairness"].items() if lane != "error"}
        console.print(fairness.table(lanes))
    if "search" in parts and isinstance(found["search"], list):
        console.print(report.of_search(found["search"]))
    if "relevance" in parts and "error" not in found["relevance"]:
        console.print(relevance.table(found["relevance"]))
    for error in report.errors(found, parts):
        PROGRESS.print(f"not measured: {error}", style="red", highlight=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
