"""``docs/benchmarks.md`` and its plot, made from a report."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks import ROOT, relevance
from benchmarks.peers.environment import interpreter
from benchmarks.plan import FULL, Plan
from benchmarks.report import MODEL_ROWS, ROWS, columns, search_cells, search_heads
from benchmarks.rig import CHUNK

PAGE: Final = ROOT / "docs" / "benchmarks.md"
PLOT: Final = ROOT / "docs" / "benchmarks.svg"

_HEAD: Final = """\
# Benchmarks

<!-- made by `make bench ARGS=--write-docs` from what it measured: change benchmarks/docs.py, not this page -->

Everything on this page was measured by one command in one run, on one embedded PostgreSQL with `fsync` on:
`make bench`. Nothing else is needed; the peers are installed into an environment of their own from
`benchmarks/peers.lock`. Other machines give other figures; what can be compared are the columns, and the ratio to the
limit.
"""
_HOW: Final = """\
## What is measured

- **Complete jobs**: a job is three steps that do nothing. Ours are the three stages of a picture, with claims,
  leases, attempts, grants, fences and products written; a peer's are three tasks of which each enqueues the next
  (procrastinate, PgQueuer), or a workflow of three steps (DBOS). Jobs are submitted first, then a worker starts in the
  same process; the rate is jobs by the time from then until all have ended. Before each of the two, the
  database is vacuumed, analyzed and checkpointed. {jobs} jobs a measurement of ours,
  {peer_jobs} of a peer's at the better of its concurrencies {widths}, the median of {peer_rounds} rounds.
- **Costs** per job are those of submitting and working together: WAL of the server, commits of the database, CPU of
  the client's process and of the server's.
- **The limit** is pgbench calling a procedure that writes the rows of complete jobs in batches of 50: no client,
  nothing read back, nothing decided. It runs with one and with two clients, before and after each of our measurements;
  the better of the two counts. Figures of ours are medians of {rounds} rounds, the ratio is that of the medians.
- **Beside finished jobs**: {finished} of them are in the table, in the same scope. Ours are complete: every row that
  a finished job leaves, copied by SQL from one that the engine finished, with vectors of 8 components. A peer's are
  as many finished tasks or workflows, with their events. **Beside queued jobs**: {queued} are waiting; what is
  measured is how fast the first {jobs} ({peer_jobs}) are completed, for at most {within:g} s. A peer's later steps
  have the higher priority: without it none of its jobs would end before all have begun.
- **Idle pick-up**: one job at a time is submitted to a worker in another process that has nothing else to do; {samples}
  samples of ours, {peer_samples} of a peer's, 20 to 70 ms apart. Ours begin just before the commit that makes the job
  visible and end when the visual model is called; counted from before the transaction that submits, the median is
  {from_submit} ms. A peer's begin just before its call that enqueues, and end as its first step begins.
- **Submits** are those of one client, one after the other. In bulk, ours are {chunk} a transaction; COPY of the rows
  that they leave, in one transaction, takes {copy} jobs/s.
"""


def why_not(report: Mapping[str, Any], parts: Iterable[str]) -> str | None:
    """Return why a report may not be written down: the page says of its figures that they are of one full run."""
    details = report.get("details", {})
    if missing := [part for part in parts if part not in details]:
        return f"not measured: {', '.join(missing)}"
    runs = {details[part]["run"] for part in parts}
    if len(runs) > 1:
        return f"not of one run, but of those begun at {', '.join(sorted(runs))}"
    # a report that was read back has lists where a plan has tuples
    if any(Plan(**details[part]["plan"]) != FULL for part in parts):
        return "not a run at full size"
    return None


def write(report: Mapping[str, Any]) -> None:
    """Write page and plot.

    Raises:
        EnvironmentUnusable: the plot's library cannot be installed.
        subprocess.CalledProcessError: it cannot draw.
    """
    subprocess.run(
        [str(interpreter()), "-m", "benchmarks.plot", str(PLOT)],
        cwd=ROOT,
        check=True,
        input=json.dumps(columns(report)),
        text=True,
    )
    PAGE.write_text(page(report), encoding="utf-8")


def page(report: Mapping[str, Any]) -> str:
    """Return the whole page; what was not measured is left out."""
    return "\n".join(part for part in _parts(report) if part)


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    details = report.get("details", {})
    yield _HEAD
    yield _machine(details)
    sides = columns(report)
    if sides:
        yield f"## Complete jobs\n\n![jobs per second and pick-up]({PLOT.name})\n"
        yield _table(["", "", *sides], [[r.title, r.unit, *map(r.text, sides.values())] for r in ROWS])
    yield _how(details)
    yield _settings(details.get("peers", {}))
    if models := report.get("models"):
        yield "## Pictures with the local models\n"
        yield _table(["", "", "measured"], [[row.title, row.unit, row.text(models)] for row in MODEL_ROWS])
        yield _MODELS
    if lanes := report.get("fairness"):
        yield "## Fairness between scopes\n"
        yield _fairness(lanes)
    if isinstance(rows := report.get("search"), list) and rows:
        yield "## Search\n"
        yield _table(search_heads(), [search_cells(row) for row in rows])
        yield _search(details.get("search", {}), rows)
    if (asked := report.get("relevance")) and "error" not in asked:
        yield "## Relevance\n"
        yield _table(relevance.HEADS, relevance.cells(asked))
        yield _RELEVANCE


_SEARCH: Final = """\
Scopes of so many vectors of 512 components, in clusters and with captions in words and Chinese characters, among
{others} scopes of 1,000. Each query lies near a cluster, has three of its words and one that is common, and asks for
ten results. The time is that of the use case, with a text model that takes no time: everything between the vector of
the query and the answer, with the state of the scope, the words, their fields and the coverage. The store alone is the
nearest by meaning, in a transaction; the best SQL is one prepared statement in binary on a connection that does nothing
else, for `hybrid` one that fuses both rankings, with the least effort of the index that finds 98 of 100; numpy compares
all vectors in one process that has them in memory, without words. All of them in turn, query by query. Recall is
against comparing every vector (`exact`).
"""


_RELEVANCE: Final = """\
The sample pictures, described by the local agent, and questions that have one right answer each. They were written from
the pictures and their captions before anything was measured; that a share of the words under 0.4 counts for nothing was
chosen with them.
"""


def _search(details: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    others = details.get("plan", {}).get("others")
    built = [
        f"- {size:,} vectors: {details[key]:,.0f} s, {details[f'index_{size}_bytes'] / 1024**2:,.0f} MB."
        for size in sorted({row["scope_size"] for row in rows})
        if (key := f"index_{size}_build_s") in details
    ]
    return "\n".join([_SEARCH.format(others=others), "Building the indexes:", "", *built, ""])


_MODELS: Final = """\
The 25 sample pictures, several times over, each time in another scope and uploaded before the clock runs. The loop
calls the same model processes, one a lane, at the same time on different pictures, with no engine and no database.
"""


def _machine(details: Mapping[str, Any]) -> str:
    found = [part["machine"] for part in details.values() if "machine" in part]
    if not found:
        return ""
    it = found[-1]
    return f"{it['processor']}, {it['cores']} cores; Python {it['python']}; {it['day']}, commit {it['commit']}.\n"


def _how(details: Mapping[str, Any]) -> str:
    engine = details.get("engine", {})
    plan = engine.get("plan") or details.get("peers", {}).get("plan")
    if plan is None:
        return ""
    numbers = {name: f"{value:,}" for name, value in plan.items() if isinstance(value, int)}
    return _HOW.format(
        **numbers,
        within=plan["within"],
        widths=" and ".join(map(str, plan["peer_concurrency"])),
        from_submit=_figure(engine.get("pickup_from_submit_ms_p50"), 1),
        copy=_figure(engine.get("copy_limit_per_s")),
        chunk=CHUNK,
    )


def _settings(peers: Mapping[str, Any]) -> str:
    versions = peers.get("versions", {})
    lines = [
        f"- {name} {versions.get(name, '')}: {found['settings']}; concurrency {found['concurrency']}."
        for name, found in peers.items()
        if isinstance(found, Mapping) and "settings" in found
    ]
    return "\n".join(["Settings of the peers:", "", *lines, ""]) if lines else ""


def _fairness(lanes: Mapping[str, Any]) -> str:
    rows = [
        [
            lane,
            f"{found['backlog']:,}",
            _figure(found["others_settled_p50"]),
            f"{found['beside_p50_ms']:.1f} / {found['beside_p99_ms']:.1f}",
            f"{found['alone_p50_ms']:.1f} / {found['alone_p99_ms']:.1f}",
        ]
        for lane, found in lanes.items()
        if isinstance(found, Mapping)
    ]
    heads = ["lane", "backlog of the other scope", "its tasks settled meanwhile", "pick-up p50 / p99, ms", "alone"]
    return _table(heads, rows)


def _figure(value: float | None, digits: int = 0) -> str:
    return "?" if value is None else f"{value:,.{digits}f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
