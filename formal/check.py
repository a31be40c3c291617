"""Checks `protocol.pml` with spin: growing bounds of the correct model, then every wrong variant.

Prints two tables, writes `reports/model.json` and ends with 1 if an invariant broke, a wrong variant was missed, or the
largest bound that fitted has fewer states than it should; with 2 if a tool is missing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import asdict, frozen

from formal.catalogue import BOUNDS, MUTANTS, QUIESCENCE, WALLS, Bound, Mutant

MODEL: Final = Path(__file__).with_name("protocol.pml")
REPORT: Final = MODEL.parents[1] / "reports" / "model.json"
TOOLS: Final = {"spin": "spin", "cc": "gcc libc6-dev"}

DEPTH: Final = 100_000
MUTANT_FAULTS: Final = {"FAULTS": "1"}

_STATES: Final = re.compile(r"^\s*([\d.e+]+) states, stored", re.MULTILINE)
_DEPTH: Final = re.compile(r"depth reached (\d+), errors: (\d+)")
_MEMORY: Final = re.compile(r"([\d.]+)\s+total actual memory usage")
_BROKEN: Final = re.compile(r"assertion violated \(*\s*(I\d+|quiescence)\b")
_SMALL_HASH: Final = 24
_CUT: Final = ("Search not completed", "max search depth too small")


@frozen
class Limits:
    """What one run may take; ``hash_bits`` is the logarithm of its hash table's size."""

    seconds: int
    megabytes: int
    hash_bits: int


@frozen
class Run:
    """What a verification said. ``broken`` names the invariant of its first error; ``complete``: nothing was cut."""

    states: int
    depth: int
    megabytes: float
    errors: int
    broken: str | None
    complete: bool


SMALL: Final = Limits(seconds=180, megabytes=3000, hash_bits=22)


def parse(output: str) -> Run:
    """Read the output of a pan; a run that was stopped has no states, or is not complete."""
    states, depth, memory = _STATES.search(output), _DEPTH.search(output), _MEMORY.search(output)
    broken = _BROKEN.search(output)
    errors = int(depth[2]) if depth else 0
    name = broken[1] if broken else None
    if name is None and errors:
        # without a violated assertion, an error is a state in which a process waits for ever
        name = QUIESCENCE if "invalid end state" in output else "model"
    return Run(
        states=int(float(states[1])) if states else 0,
        depth=int(depth[1]) if depth else 0,
        megabytes=float(memory[1]) if memory else 0.0,
        errors=errors,
        broken=name,
        complete=depth is not None and (errors > 0 or not any(cut in output for cut in _CUT)),
    )


def verify(defines: Mapping[str, str], limits: Limits, optimize: str, flags: Sequence[str] = ()) -> Run:
    """Generate, compile and run a verifier in a folder of its own.

    Raises `subprocess.CalledProcessError` if spin or the compiler refuses the model.
    """
    with tempfile.TemporaryDirectory(prefix="imgproc-model-") as folder:
        shutil.copy(MODEL, folder)
        switches = [f"-D{name}={value}" for name, value in defines.items()]
        _run(["spin", *switches, "-a", MODEL.name], folder)
        memory = f"-DMEMLIM={limits.megabytes}"
        _run(["cc", optimize, "-w", "-DSAFETY", "-DCOLLAPSE", memory, "-o", "pan", "pan.c"], folder)
        # nice, because the machine has other things to do
        pan = ["nice", "-n", "15", "./pan", f"-m{DEPTH}", f"-w{limits.hash_bits}", *flags]
        try:
            return parse(_run(pan, folder, limits.seconds))
        except subprocess.TimeoutExpired:
            return parse("")


def _run(command: Sequence[str], folder: str, seconds: int | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - the commands are this file's own
        command, cwd=folder, timeout=seconds, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def check_bounds(bounds: Sequence[Bound], seconds: int, megabytes: int) -> Iterator[tuple[Bound, Run]]:
    """Check the correct model, smallest bound first."""
    say(f"{'bound':<34} {'states':>12} {'depth':>6} {'errors':>6} {'MB':>6} {'s':>5}")
    for bound in bounds:
        began = time.monotonic()
        run = verify(bound.defines, Limits(seconds, megabytes, bound.hash_bits), "-O2")
        took = time.monotonic() - began
        end = f"broken: {run.broken}" if run.broken else "" if run.complete else "did not fit"
        numbers = f"{run.states:>12,} {run.depth:>6} {run.errors:>6} {run.megabytes:>6.0f} {took:>5.0f}"
        say(f"{bound.name:<34} {numbers} {end}".rstrip())
        yield bound, run


def check_mutant(mutant: Mutant) -> Run:
    """Look for the one invariant that the wrong variant must break; the others are not looked at."""
    quiet = mutant.breaks == QUIESCENCE
    only = "20" if quiet else mutant.breaks.removeprefix("I")
    defines = {**MUTANT_FAULTS, **mutant.defines, f"M_{mutant.name}": "1", "ONLY": only}
    flags = () if quiet else ("-E",)
    return verify(defines, SMALL, "-O0", flags)


def check_mutants(mutants: Sequence[Mutant]) -> dict[str, str]:
    say(f"\n{'wrong variant':<26} {'breaks':<10} {'verdict':<7} {'depth':>5}  what is wrong")
    verdicts = {}
    for mutant in mutants:
        run = check_mutant(mutant)
        verdict = "caught" if run.broken == mutant.breaks else "missed"
        verdicts[mutant.name] = verdict
        say(f"{mutant.name:<26} {mutant.breaks:<10} {verdict:<7} {run.depth:>5}  {mutant.wrong}")
    return verdicts


def check_walls() -> dict[str, str]:
    say(f"\n{'second wall left out':<26} {'':<10} {'verdict':<7}")
    verdicts = {}
    for wall in WALLS:
        run = verify({**MUTANT_FAULTS, "LANE": "2", f"W_{wall.name}": "1"}, SMALL, "-O1")
        verdict = f"breaks {run.broken}" if run.broken else "holds" if run.complete else "cut"
        verdicts[wall.name] = verdict
        say(f"{wall.name:<26} {'':<10} {verdict:<7}        {wall.left_out}")
    return verdicts


def missing_tools() -> list[str]:
    return [package for tool, package in TOOLS.items() if shutil.which(tool) is None]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make model", description="check the protocol's model with spin")
    parser.add_argument("--states", type=int, default=30_000_000, help="at least this many at the largest bound")
    parser.add_argument("--megabytes", type=int, default=6000, help="memory for one run (default 6000)")
    parser.add_argument("--seconds", type=int, default=900, help="time for one run (default 900)")
    parser.add_argument("--quick", action="store_true", help="only the small bounds, and no demand on their size")
    parser.add_argument("--only", nargs="+", metavar="MUTANT", help="only these wrong variants, and no report")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    if missing := missing_tools():
        sys.stderr.write(
            "make model: needs spin (https://spinroot.com, 6.5 or newer) and a C compiler;"
            f" on Debian and Ubuntu: apt install {' '.join(missing)}\n"
        )
        return 2
    if options.only:
        chosen = [mutant for mutant in MUTANTS if mutant.name in options.only]
        return int("missed" in check_mutants(chosen).values() or len(chosen) != len(options.only))
    bounds = [bound for bound in BOUNDS if bound.hash_bits <= _SMALL_HASH] if options.quick else BOUNDS
    runs = list(check_bounds(bounds, options.seconds, options.megabytes))
    mutants, walls = check_mutants(MUTANTS), check_walls()
    errors = sum(run.errors for _, run in runs)
    most = max((run.states for _, run in runs if run.complete and not run.errors), default=0)
    REPORT.parent.mkdir(exist_ok=True)
    table = [{"name": bound.name, **asdict(run)} for bound, run in runs]
    report = {"states": most, "errors": errors, "mutants": mutants, "walls": walls, "bounds": table}
    REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    missed = [name for name, verdict in mutants.items() if verdict == "missed"]
    fallen = [name for name, verdict in walls.items() if verdict != "holds"]
    small = not options.quick and most < options.states
    caught = f"{len(mutants) - len(missed)} of {len(mutants)} wrong variants caught"
    say(f"\n{most:,} states at the largest bound, {errors} errors, {caught}")
    if small:
        say(f"too few states: {options.states:,} are asked for")
    return int(bool(errors or missed or fallen or small))


if __name__ == "__main__":
    sys.exit(main())
