"""``python -m chaos.hosts``: a database and four hosts of workers; one is cut off, one is slow. Needs root.

Writes ``reports/hosts.json``. Ends with 1 if a promise was broken or the run showed less than it should; the folder
with ledgers, logs and the database is kept then. Ends with 2 where hosts cannot be made.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from chaos.hosts import report
from chaos.hosts.network import SWITCH, Network, NetworkError, sweep, why_not
from chaos.hosts.plan import HOSTS, Plan
from chaos.hosts.report import Outcome

ROOT: Final = Path(__file__).parents[2]
REPORT: Final = ROOT / "reports" / "hosts.json"
CANNOT: Final = 2
_PATIENCE: Final = 60.0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make hosts", description="many hosts: one is cut off, one is slow")
    parser.add_argument("--jobs", type=int, default=2_000, help="over all scopes (default 2,000)")
    parser.add_argument("--workers", type=int, default=2, help="processes a host (default 2)")
    parser.add_argument("--seed", type=int, help="repeats the models' dice (default: another one each time)")
    parser.add_argument("--keep", action="store_true", help="keep the folder also if all is well")
    parser.add_argument("--report", type=Path, default=REPORT, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    lacking = why_not()
    if lacking:
        sys.stderr.write(f"make hosts: {lacking}\n")
        return CANNOT
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    plan, folder = Plan(options.jobs, options.workers, seed), Path(tempfile.mkdtemp(prefix="imgproc-hosts-"))
    try:
        with hosts() as network:
            status = _played(network, folder, plan)
    except NetworkError as error:
        sys.stderr.write(f"make hosts: {error}\n")
        shutil.rmtree(folder, ignore_errors=True)
        return CANNOT
    except KeyboardInterrupt:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return _reported(options, plan, folder, status)


@contextmanager
def hosts() -> Iterator[Network]:
    """Have all hosts for the length of the block, and none afterwards, whatever ends it but SIGKILL."""
    sweep()
    network = Network(os.getpid())
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        network.open(HOSTS)
        yield network
    finally:
        network.close()
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _played(network: Network, folder: Path, plan: Plan) -> int:
    """Play in the switch's namespace, from where every host can be reached; Ctrl-C reaches the play as well."""
    numbers = [str(each) for each in (network.run, plan.jobs, plan.workers, plan.seed)]
    command = network.inside(SWITCH, sys.executable, "-m", "chaos.hosts.stage", str(folder), *numbers)
    with subprocess.Popen(command, cwd=ROOT) as playing:
        try:
            return playing.wait()
        except KeyboardInterrupt:
            playing.terminate()
            playing.wait(_PATIENCE)
            raise


def _reported(options: argparse.Namespace, plan: Plan, folder: Path, status: int) -> int:
    console = Console()
    figures = folder / "figures.json"
    if status or not figures.exists():
        console.print(f"it did not come to an end; what there is of it is in {folder}", soft_wrap=True)
        return 1
    outcome = Outcome(**json.loads(figures.read_text(encoding="utf-8")))
    offences = (folder / "offences.txt").read_text(encoding="utf-8").splitlines()
    report.print_run(console, plan, outcome, offences)
    report.write(options.report, outcome, {"seed": plan.seed, "workers_a_host": plan.workers})
    sound = not outcome.broken and not report.shortfalls(plan, outcome)
    if sound and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"ledgers, logs and the database are in {folder}", soft_wrap=True)
    return 0 if sound else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
