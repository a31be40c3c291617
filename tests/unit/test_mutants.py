"""The catalogue of removed fences fits the code, and its runner tells a failed test from a variant that cannot run."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from mutants.__main__ import Workshop, by_file, main, try_as_it_is, try_mutant, try_wall
from mutants.catalogue import EVERY, MUTANTS
from mutants.kinds import ROOT, CatalogueError, Edit, Mutant, Wall
from mutants.workshop import Bench, Verdict, copy_tree, tracked

INVARIANTS = {f"I{number}" for number in range(1, 19)}
TESTED = sorted({test for one in EVERY for test in one.tests})


def edits(one: Mutant | Wall) -> Sequence[Edit]:
    return one.edits if isinstance(one, Mutant) else (one.left_out, one.other)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_what_a_mutant_changes_is_there_once_and_still_a_program(one: Mutant | Wall) -> None:
    changed: dict[str, str] = {}
    for edit in edits(one):
        before = changed.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        changed[edit.file] = edit.apply(before)
        assert changed[edit.file] != before
        ast.parse(changed[edit.file])


def test_every_name_is_there_once() -> None:
    names = [one.name for one in EVERY]
    assert len(names) == len(set(names))


def test_every_invariant_has_its_mutants() -> None:
    assert {mutant.breaks for mutant in MUTANTS} == INVARIANTS


def functions() -> set[str]:
    places = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/imgproc_adapters/testing/contracts").glob("*.py")]
    return {name for path in places for name in re.findall(r"\bdef (test_\w+)", path.read_text(encoding="utf-8"))}


def test_the_tests_of_the_catalogue_exist() -> None:
    known = functions()
    for test in TESTED:
        file, *parts = test.split("::")
        assert (ROOT / file).exists(), test
        name = parts[-1].split("[")[0] if parts else ""
        assert not name.startswith("test_") or name in known, test


@pytest.mark.parametrize("text", ["nothing", "twice twice"])
def test_a_text_that_is_not_there_once_is_an_error(text: str) -> None:
    with pytest.raises(CatalogueError):
        Edit("a.py", "twice", "once").apply(text)


CODE = """\
def limited(value: int) -> int:
    return min(value, 3)


def checked(value: int) -> int:
    return limited(min(value, 3))
"""
TEST = """\
import pytest

from imgproc_domain import checked, limited


@pytest.fixture
def value() -> int:
    return limited(2)


def test_limit(value: int) -> None:
    assert limited(value + 7) == 3


def test_check() -> None:
    assert checked(7) == 3
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A tree of one module and its tests."""
    tree = tmp_path / "tree"
    for package, text in (("imgproc_domain", CODE), ("imgproc_adapters", ""), ("imgproc_app", "")):
        (tree / "src" / package).mkdir(parents=True)
        (tree / "src" / package / "__init__.py").write_text(text, encoding="utf-8")
    copy_tree(ROOT, tree, ["mutants/__init__.py", "mutants/witness.py"])
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (tree / "test_it.py").write_text(TEST, encoding="utf-8")
    return Bench(tree, {})


def variant(before: str, after: str, test: str = "test_it.py") -> Mutant:
    return Mutant("NAME", "I1", "something", "src/imgproc_domain/__init__.py", before, after, (test,))


LIMIT = "return min(value, 3)"


def test_a_variant_is_caught_by_a_test_that_fails_and_put_back_afterwards(bench: Bench) -> None:
    caught = try_mutant(bench, variant(LIMIT, "return min(value, 4)"))
    assert (caught.verdict, caught.good, caught.by) == ("caught", True, "test_it.py::test_limit")
    assert try_as_it_is(Workshop([bench]), ["test_it.py"])


def test_a_variant_that_no_test_notices_is_missed(bench: Bench) -> None:
    missed = try_mutant(bench, variant(LIMIT, "return min(3, value)"))
    assert (missed.verdict, missed.good, missed.by) == (Verdict.MISSED, False, None)


@pytest.mark.parametrize(
    "after",
    ["return minimum(value, 3)", "return (", "raise ImportError", "assert value == 9; return value"],
    ids=["a name", "a syntax", "an import", "a fixture"],
)
def test_a_variant_that_cannot_run_is_not_caught(bench: Bench, after: str) -> None:
    assert try_mutant(bench, variant(LIMIT, after)).verdict == Verdict.BROKEN


def test_a_test_that_does_not_exist_catches_nothing(bench: Bench) -> None:
    unknown = variant(LIMIT, "return value", "test_it.py::test_nothing")
    assert try_mutant(bench, unknown).verdict == Verdict.BROKEN


def test_a_variant_that_takes_too_long_is_slow(bench: Bench) -> None:
    endless = variant(LIMIT, "\n    while True: pass").edits
    assert bench.trial(endless, ["test_it.py"], seconds=0.5).verdict is Verdict.SLOW


def test_a_wall_holds_if_only_both_together_are_noticed(bench: Bench) -> None:
    file = "src/imgproc_domain/__init__.py"
    outer = Edit(file, "return limited(min(value, 3))", "return limited(value)")
    inner = Edit(file, "    return min(value, 3)\n", "    return value\n")
    wall = Wall("NAME", "I1", "said twice", outer, inner, ("test_it.py::test_check",))
    assert try_wall(bench, wall).verdict == "holds"
    alone = Wall("NAME", "I1", "said once", inner, outer, ("test_it.py::test_limit",))
    assert try_wall(bench, alone).verdict == "no wall"


def test_code_that_is_not_the_copy_s_is_refused(tmp_path: Path) -> None:
    copy_tree(ROOT, tmp_path / "tree", ["mutants/__init__.py", "mutants/witness.py"])
    (tmp_path / "tree" / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (tmp_path / "tree" / "test_it.py").write_text("def test_it() -> None: ...\n", encoding="utf-8")
    trial = Bench(tmp_path / "tree", {}).trial((), ["test_it.py"], 60.0)
    assert trial.verdict is Verdict.BROKEN
    assert "not from the copy" in trial.output


def test_a_file_as_a_whole_contains_its_tests() -> None:
    halves = by_file(["b.py::test_1", "a.py::test_1", "b.py", "a.py::test_2", "a.py::test_1"])
    assert sorted(halves) == [("a.py::test_1", "a.py::test_2"), ("b.py",)]


def test_new_files_belong_to_the_tree_and_ignored_ones_do_not() -> None:
    names = tracked(ROOT)
    assert "mutants/kinds.py" in names
    assert not any(name.startswith((".venv/", "reports/")) for name in names)


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [one.name for one in EVERY]


def test_a_name_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "NO_SUCH_MUTANT"]) == 2
    assert "no such mutant" in capsys.readouterr().err
