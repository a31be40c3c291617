"""Removes each fence of the code in turn and shows that a test fails: `make mutants`.

Prints a table, writes `reports/mutants.json`, and ends with 1 if the code as it is fails its tests, or a variant was
not caught, or a second wall is none; with 2 if there is nothing of the name that was asked for.
"""

import argparse
import json
import queue
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from attrs import frozen

from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from mutants.catalogue import EVERY, MUTANTS, WALLS
from mutants.kinds import ROOT, Mutant, Wall
from mutants.workshop import Bench, Verdict, copy_tree, tracked

REPORT: Final = ROOT / "reports" / "mutants.json"
SERVER: Final = "IMGPROC_TEST_DSN"
SECONDS: Final = 120.0
"""For one variant; its tests take a few."""
HANGING_SECONDS: Final = 20.0
ALL_SECONDS: Final = 900.0

T = TypeVar("T")
R = TypeVar("R")


@frozen
class Result:
    """What became of one mutant or wall."""

    verdict: str
    good: bool
    by: str | None
    seconds: float
    output: str


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Workshop:
    """As many benches as variants are tested at a time."""

    def __init__(self, benches: Sequence[Bench]) -> None:
        self._benches = benches
        self._idle: queue.Queue[Bench] = queue.Queue()
        for bench in benches:
            self._idle.put(bench)

    def each(self, items: Sequence[T], work: Callable[[Bench, T], R]) -> Iterator[tuple[T, R]]:
        """Do ``work`` for all items and yield the results in their order."""

        def at_a_bench(item: T) -> R:
            bench = self._idle.get()
            try:
                return work(bench, item)
            finally:
                self._idle.put(bench)

        with ThreadPoolExecutor(len(self._benches)) as pool:
            yield from zip(items, pool.map(at_a_bench, items), strict=True)


@contextmanager
def workshop(count: int, *, database: bool) -> Iterator[Workshop]:
    """Copy the tree ``count`` times, and run one server for all tests that need one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imgproc-mutants-")))
        environment = {}
        if database:
            server = stack.enter_context(EmbeddedPostgres(folder / "postgres", durable=False))
            environment[SERVER] = server.dsn("postgres")
        trees = [folder / f"tree-{number}" for number in range(count)]
        names = tracked(ROOT)
        copy_tree(ROOT, trees[0], names)
        for tree in trees[1:]:
            copy_tree(trees[0], tree, names)
        yield Workshop([Bench(tree, environment) for tree in trees])


def by_file(tests: Sequence[str]) -> list[tuple[str, ...]]:
    """Split tests into two halves of whole files, so that both cores have work."""
    files: dict[str, list[str]] = {}
    for test in dict.fromkeys(tests):
        files.setdefault(test.split("::")[0], []).append(test)
    halves: tuple[list[str], list[str]] = ([], [])
    for number, (file, own) in enumerate(files.items()):
        # the file as a whole contains whatever else is asked of it
        halves[number % 2].extend([file] if file in own else own)
    return [tuple(half) for half in halves if half]


def try_as_it_is(shop: Workshop, tests: Sequence[str]) -> bool:
    """Whether the code passes, unchanged, every test that must fail without some fence."""
    halves = by_file(tests)
    passed = True
    for _, trial in shop.each(halves, lambda bench, half: bench.trial((), half, ALL_SECONDS)):
        if trial.verdict is not Verdict.MISSED:
            say(f"the code as it is fails: {trial.by or ''}\n{trial.output}")
            passed = False
    return passed


def try_mutant(bench: Bench, mutant: Mutant) -> Result:
    trial = bench.trial(mutant.edits, mutant.tests, HANGING_SECONDS if mutant.hangs else SECONDS)
    good = trial.verdict is Verdict.CAUGHT or (mutant.hangs and trial.verdict is Verdict.SLOW)
    return Result("caught" if good else trial.verdict.value, good, trial.by, trial.seconds, trial.output)


def try_wall(bench: Bench, wall: Wall) -> Result:
    """A second wall holds if nothing fails without it; it is one if something fails without both."""
    alone = bench.trial((wall.left_out,), wall.tests, SECONDS)
    both = bench.trial((wall.left_out, wall.other), wall.tests, SECONDS)
    seconds = alone.seconds + both.seconds
    if alone.verdict is not Verdict.MISSED:
        return Result("no wall", good=False, by=alone.by, seconds=seconds, output=alone.output)
    if both.verdict is not Verdict.CAUGHT:
        return Result(f"both {both.verdict}", good=False, by=both.by, seconds=seconds, output=both.output)
    return Result("holds", good=True, by=both.by, seconds=seconds, output="")


def try_all(
    shop: Workshop, items: Sequence[T], work: Callable[[Bench, T], Result], row: Callable[[T], str]
) -> Iterator[tuple[T, Result]]:
    for item, result in shop.each(items, work):
        say(f"{row(item)} {result.verdict:<8} {result.seconds:>5.1f}  {result.by or ''}")
        if not result.good and result.verdict != Verdict.MISSED:
            say(result.output)
        yield item, result


def write_report(mutants: Sequence[tuple[Mutant, Result]], walls: Sequence[tuple[Wall, Result]], took: float) -> None:
    results = {
        m.name: {"file": m.file, "wrong": m.wrong, "breaks": m.breaks, "caught_by": r.by if r.good else None}
        for m, r in mutants
    }
    missed = [m.name for m, r in mutants if not r.good]
    report = {
        "mutants": len(mutants),
        "caught": len(mutants) - len(missed),
        "missed": missed,
        "seconds": round(took, 1),
        "walls": {w.name: r.verdict for w, r in walls},
        "results": results,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description="remove each fence and see a test fail")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these mutants and walls, and no report")
    parser.add_argument("--list", action="store_true", help="say what there is, and try nothing")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="variants tested at a time (default 2)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    if options.list:
        for one in EVERY:
            say(f"{one.name:<34} {one.breaks:<4} {one.wrong if isinstance(one, Mutant) else one.why}")
        return 0
    mutants = [m for m in MUTANTS if not options.only or m.name in options.only]
    walls = [w for w in WALLS if not options.only or w.name in options.only]
    if options.only and len(mutants) + len(walls) != len(set(options.only)):
        sys.stderr.write("make mutants: no such mutant; ARGS=--list names them\n")
        return 2
    began = time.monotonic()
    chosen: list[Mutant | Wall] = [*mutants, *walls]
    tests = [test for one in chosen for test in one.tests]
    with workshop(options.at_once, database=any(test.startswith("tests/integration") for test in tests)) as shop:
        if not try_as_it_is(shop, tests):
            return 1
        say(f"{'fence removed':<34} {'breaks':<6} {'verdict':<8} {'s':>5}  caught by")
        tried = list(try_all(shop, mutants, try_mutant, lambda m: f"{m.name:<34} {m.breaks:<6}"))
        held = list(try_all(shop, walls, try_wall, lambda w: f"{w.name:<34} {w.breaks:<6}"))
    took = time.monotonic() - began
    if not options.only:
        write_report(tried, held, took)
    caught, hold = (sum(result.good for _, result in results) for results in (tried, held))
    say(f"\n{caught} of {len(tried)} mutants caught, {hold} of {len(held)} walls hold, {took:.0f} s")
    return int(not all(result.good for _, result in (*tried, *held)))


if __name__ == "__main__":
    sys.exit(main())
