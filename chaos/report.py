"""Figures of runs: for machines in one file, for people in tables."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from chaos.evidence import Kind, Offence
from chaos.plan import Plan

_SHOWN: Final = 20
_FIGURES: Final = (
    *("jobs", "kills", "stops", "restarts", "cuts", "succeeded", "unknown", "fencing_rejections"),
    *(kind.value for kind in Kind),
    "seconds",
)


@frozen
class Outcome:
    """What one run did and found. The fields from ``lost`` to ``broken_invariants`` count broken promises."""

    jobs: int
    kills: int
    stops: int
    restarts: int
    cuts: int
    succeeded: int
    unknown: int
    fencing_rejections: int
    lost: int
    double_calls: int
    silent_replays: int
    stale_writes: int
    leaked_grants: int
    leaked_slots: int
    broken_invariants: int
    seconds: float
    failed: int
    blocked: int
    kills_at_points: int
    stops_at_points: int
    partitions: int
    naps: int
    agent_calls: int
    most_in_flight: int
    history: int
    looks: int
    crashes: tuple[str, ...]
    points: Mapping[str, int]
    people: Mapping[str, int]

    def figures(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def broken(self) -> int:
        return sum(int(getattr(self, kind.value)) for kind in Kind)


def shortfalls(plan: Plan, outcome: Outcome) -> list[str]:
    """Return what a run did less of than was asked for, and workers that ended as nobody made them."""
    asked = {name: getattr(plan, name) for name in ("jobs", "kills", "stops", "restarts", "cuts")}
    short = [f"{getattr(outcome, n)} of {wanted} {n}" for n, wanted in asked.items() if getattr(outcome, n) < wanted]
    return [*short, *outcome.crashes]


def print_run(console: Console, plan: Plan, outcome: Outcome, offences: Sequence[Offence]) -> None:
    table = Table(title=f"{plan.policy}, seed {plan.seed}")
    table.add_column("what")
    table.add_column("count", justify="right")
    for name, value in outcome.figures().items():
        if isinstance(value, int | float):
            table.add_row(name, f"{value:,}", style="bold red" if name in tuple(Kind) and value else None)
    console.print(table)
    console.print(f"killed or stopped by their own hand at: {_listed(outcome.points)}", soft_wrap=True)
    console.print(f"people: {_listed(outcome.people)}", soft_wrap=True)
    for offence in offences[:_SHOWN]:
        console.print(str(offence), style="red", soft_wrap=True, markup=False)
    if len(offences) > _SHOWN:
        console.print(f"... and {len(offences) - _SHOWN} more", style="red")
    for short in shortfalls(plan, outcome):
        console.print(f"short: {short}", style="red", soft_wrap=True, markup=False)


def write(path: Path, outcomes: Mapping[str, Outcome], details: Mapping[str, Any]) -> None:
    """Write the sums over all runs, and each run by its policy."""
    path.parent.mkdir(exist_ok=True)
    sums = {name: round(sum(getattr(each, name) for each in outcomes.values()), 1) for name in _FIGURES}
    runs = {policy: outcome.figures() for policy, outcome in outcomes.items()}
    path.write_text(json.dumps({**sums, **details, "runs": runs}, indent=2) + "\n", encoding="utf-8")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
