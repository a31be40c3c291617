"""``python -m chaos``: break everything that can break, judge what is left, and write ``reports/chaos.json``.

Ends with 1 if a promise was broken or less went wrong than was asked for; the folder with ledger, history and logs is
kept then.
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from chaos import clocks, report
from chaos.plan import CLOCKS, POLICIES, Plan
from chaos.run import keep, run
from chaos.server import open_server

REPORT: Final = Path(__file__).parents[1] / "reports" / "chaos.json"

_LOG: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_FULL: Final = {"jobs": 10_000, "kills": 500, "stops": 100, "restarts": 5, "cuts": 250}
_QUICK: Final = {"jobs": 200, "kills": 12, "stops": 3, "restarts": 1, "cuts": 8}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="try to break the promises, and judge what is left")
    for name, count in _FULL.items():
        parser.add_argument(f"--{name}", type=int, help=f"of each run (default {count:,}; --quick: {_QUICK[name]})")
    parser.add_argument(
        "--seed", type=int, help="repeats the order of what goes wrong (default: another one each time)"
    )
    parser.add_argument("--policy", choices=[*POLICIES, "both"], default="both")
    parser.add_argument("--quick", action="store_true", help="a small run")
    parser.add_argument("--keep", action="store_true", help="keep the folder also if all is well")
    parser.add_argument("--report", type=Path, default=REPORT, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def plans(options: argparse.Namespace) -> list[Plan]:
    usual = _QUICK if options.quick else _FULL
    asked = {name: usual[name] if getattr(options, name) is None else getattr(options, name) for name in usual}
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    policies = POLICIES if options.policy == "both" else (options.policy,)
    return [Plan(policy=policy, seed=seed, **asked) for policy in policies]


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    wanted = plans(options)
    console = Console()
    console.print(f"seed {wanted[0].seed}; wall clocks off by {CLOCKS} s in turn: {clocks.way()}", highlight=False)
    outcomes, sound = {}, True
    for plan in wanted:
        outcomes[plan.policy], fine = _run(plan, console, keeping=options.keep)
        sound = sound and fine
    report.write(options.report, outcomes, {"seed": wanted[0].seed, "clocks": clocks.way()})
    return 0 if sound else 1


def _run(plan: Plan, console: Console, *, keeping: bool) -> tuple[report.Outcome, bool]:
    folder = Path(tempfile.mkdtemp(prefix="imgproc-chaos-"))
    logging.basicConfig(filename=folder / "controller.log", level=logging.INFO, force=True, format=_LOG)
    with open_server(folder) as server:
        outcome, offences = asyncio.run(run(plan, server, folder))
    fine = not outcome.broken and not report.shortfalls(plan, outcome)
    report.print_run(console, plan, outcome, offences)
    if fine and not keeping:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        keep(folder, offences, outcome)
        console.print(f"ledger, logs and the database are in {folder}", soft_wrap=True)
    return outcome, fine


if __name__ == "__main__":
    sys.exit(main())
