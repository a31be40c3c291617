"""Figures of a run over many hosts: for machines in one file, for people in tables."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from chaos.evidence import Kind
from chaos.hosts.plan import CUT_OFF, SLOW, WORKERS, Plan

SLOWED: Final = 0.7
"""Throughput of the others, beside a slow host, as a share of what it was before: less is an offence."""

_SHOWN: Final = 20


@frozen
class Outcome:
    """What a run did and found. Fields named as `Kind` count broken promises; rates are tasks a second.

    ``others`` are all hosts but the slow one, and, while that is cut off, the silent one.
    """

    jobs: int
    succeeded: int
    failed: int
    unknown: int
    tasks_by_host: Mapping[str, int]
    tasks_by_host_before: Mapping[str, int]
    tasks_by_host_slow: Mapping[str, int]
    seconds_before: float
    seconds_slow: float
    others_per_s_before: float
    others_per_s_slow: float
    others_per_s_cut: float
    delayed_by: str
    silence: float
    lease: float
    held_at_cut: int
    kept: int
    taken_over: int
    takeover_s_median: float | None
    takeover_s_max: float | None
    landed_late: int
    written_in_silence: int
    tasks_after_mending: int
    stranded_connections: int
    fencing_rejections: int
    fencing_rejections_cut_off: int
    seconds: float
    lost: int
    double_calls: int
    silent_replays: int
    stale_writes: int
    leaked_grants: int
    leaked_slots: int
    broken_invariants: int
    crashes: tuple[str, ...] = ()

    @property
    def broken(self) -> int:
        return sum(int(getattr(self, kind.value)) for kind in Kind)


def shortfalls(plan: Plan, outcome: Outcome) -> list[str]:
    """Return in sentences what did not happen that should have, and what happened that should not."""
    said = list(outcome.crashes)
    if outcome.jobs < plan.jobs:
        said.append(f"{outcome.jobs} of {plan.jobs} jobs")
    if not outcome.taken_over:
        said.append(f"{CUT_OFF} held nothing when it was cut off: nothing was taken over")
    if outcome.held_at_cut != outcome.kept + outcome.taken_over + outcome.landed_late:
        said.append(f"of {outcome.held_at_cut} tasks that {CUT_OFF} held, not all have ended")
    if outcome.landed_late or outcome.written_in_silence:
        late = f"{outcome.landed_late} tasks and {outcome.written_in_silence} other changes"
        said.append(f"{late} of {CUT_OFF} landed after its leases had ended")
    if outcome.others_per_s_slow < SLOWED * outcome.others_per_s_before:
        rates = f"{outcome.others_per_s_slow} tasks/s after {outcome.others_per_s_before}"
        said.append(f"{SLOW} slowed the others: {rates}")
    if not outcome.tasks_after_mending:
        said.append(f"{CUT_OFF} did nothing any more once it was back")
    return said


def print_run(console: Console, plan: Plan, outcome: Outcome, offences: Sequence[str]) -> None:
    console.print(_hosts(outcome))
    table = Table(title=f"{plan.jobs:,} jobs, seed {plan.seed}")
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in asdict(outcome).items():
        if not isinstance(value, Mapping | Sequence) or isinstance(value, str):
            shown = f"{value:,}" if isinstance(value, int | float) else str(value)
            table.add_row(name, shown, style="bold red" if name in tuple(Kind) and value else None)
    console.print(table)
    for line in [*offences[:_SHOWN], *(f"short: {each}" for each in shortfalls(plan, outcome))]:
        console.print(line, style="red", soft_wrap=True, markup=False)


def _hosts(outcome: Outcome) -> Table:
    table = Table(title="tasks by host")
    for column in ("host", "all", "before", "per s", "one slow", "per s"):
        table.add_column(column, justify="left" if column == "host" else "right")
    parts = (
        (outcome.tasks_by_host_before, outcome.seconds_before),
        (outcome.tasks_by_host_slow, outcome.seconds_slow),
    )
    for host in WORKERS:
        cells = [str(outcome.tasks_by_host.get(host, 0))]
        for counts, seconds in parts:
            cells += [str(counts.get(host, 0)), f"{counts.get(host, 0) / max(seconds, 1e-9):.1f}"]
        what = {CUT_OFF: " (cut off)", SLOW: " (slow)"}.get(host, "")
        table.add_row(f"{host}{what}", *cells)
    return table


def write(path: Path, outcome: Outcome, details: Mapping[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**asdict(outcome), **details}, indent=2) + "\n", encoding="utf-8")
