"""The runner of the protocol's model reads what spin prints, and its catalogue and the model know the same switches."""

import importlib
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

FORMAL = Path(__file__).resolve().parents[2] / "formal"
MODEL = (FORMAL / "protocol.pml").read_text(encoding="utf-8")

CLEAN = """\
State-vector 132 byte, depth reached 360, errors: 0
  5562325 states, stored
 11243247 transitions (= stored+matched)
  422.989	total actual memory usage
"""
MANY = CLEAN.replace("  5562325", "1.0976537e+08")
BROKEN = """\
pan:1: assertion violated ((I9||(0==2))||(n==0)) (at depth 137)
State-vector 132 byte, depth reached 152, errors: 1
     1100 states, stored
"""
STUCK = BROKEN.replace("assertion violated ((I9||(0==2))||(n==0))", "invalid end state")
FULL = "pan: reached -DMEMLIM bound\nWarning: Search not completed\n" + CLEAN
DEEP = "error: max search depth too small\n" + CLEAN


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    return load("formal.catalogue")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return load("formal.check")


def load(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FORMAL.parent)
        return importlib.import_module(name)


def test_a_clean_run_is_complete_and_counted(check: ModuleType) -> None:
    run = check.parse(CLEAN)
    assert (run.states, run.depth, run.errors, run.broken, run.complete) == (5562325, 360, 0, None, True)
    assert run.megabytes == pytest.approx(422.989)
    assert check.parse(MANY).states == 109_765_370


@pytest.mark.parametrize(("output", "broken"), [(BROKEN, "I9"), (STUCK, "quiescence")])
def test_the_first_error_names_its_invariant(check: ModuleType, output: str, broken: str) -> None:
    run = check.parse(output)
    assert (run.errors, run.broken) == (1, broken)


@pytest.mark.parametrize("output", [FULL, DEEP, "", "no verifier's output"])
def test_a_run_that_was_cut_proves_nothing(check: ModuleType, output: str) -> None:
    assert not check.parse(output).complete


def test_every_switch_of_the_model_is_in_the_catalogue(catalogue: ModuleType) -> None:
    mutants = [mutant.name for mutant in catalogue.MUTANTS]
    assert len(mutants) == len(set(mutants))
    assert set(mutants) == set(re.findall(r"\bM_([A-Z_]+)\b", MODEL))
    assert {wall.name for wall in catalogue.WALLS} == set(re.findall(r"\bW_([A-Z_]+)\b", MODEL))


def test_every_invariant_of_the_model_is_broken_by_a_mutant(catalogue: ModuleType) -> None:
    checked = set(re.findall(r"^hidden byte (I\d+|quiescence) =", MODEL, re.MULTILINE))
    assert checked == {mutant.breaks for mutant in catalogue.MUTANTS}
    assert checked == set(re.findall(r"assert\((I\d+|quiescence)\b", MODEL))


def test_bounds_and_mutants_set_only_what_the_model_reads(catalogue: ModuleType) -> None:
    known = set(re.findall(r"^#ifndef ([A-Z]+)$", MODEL, re.MULTILINE))
    used = {name for item in (*catalogue.BOUNDS, *catalogue.MUTANTS) for name in item.defines}
    assert used <= known


def test_a_missing_tool_is_named_with_its_package(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check.main([]) == 2
    assert "apt install spin gcc" in capsys.readouterr().err


@pytest.mark.skipif(not (shutil.which("spin") and shutil.which("cc")), reason="spin or a C compiler is not installed")
def test_spin_finds_a_wrong_variant_and_nothing_in_the_model(check: ModuleType, catalogue: ModuleType) -> None:
    tiny = {"ACTS": "0", "FAULTS": "1"}
    run = check.verify(tiny, check.SMALL, "-O0")
    assert (run.complete, run.errors) == (True, 0)
    assert run.states > 1000
    (mutant,) = (m for m in catalogue.MUTANTS if m.name == "UNFENCED_SETTLE")
    assert check.check_mutant(mutant).broken == mutant.breaks
