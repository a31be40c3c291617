"""The pages about the domain say what the code says."""

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from attrs import evolve, fields, has

REPOSITORY = Path(__file__).resolve().parents[3]
DOCS = REPOSITORY / "docs"
ROW = re.compile(r"^\| (?P<word>[^|]+?) \| [^|]+ \| `(?P<place>imgproc_[\w.]+)` \|$", re.MULTILINE)
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
PLACES = [(found["word"], found["place"]) for found in ROW.finditer(GLOSSARY)]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", REPOSITORY / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def defined(place: str) -> bool:
    """Return whether a dotted name leads to a module's member, or to a member or field of one of its classes."""
    parts = place.split(".")
    depth = 3 if parts[1] == "ports" else 2
    found: object = import_module(".".join(parts[:depth]))
    names = parts[depth:]
    for name in names:
        if isinstance(found, type) and has(found) and name in {field.name for field in fields(found)}:
            return name == names[-1]
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def test_the_page_of_lifecycles_is_the_one_the_transition_tables_make(script: ModuleType) -> None:
    page = (DOCS / "lifecycle.md").read_text(encoding="utf-8")
    assert page == script.lifecycle(), "run scripts/make_docs.py"


def test_checking_the_pages_writes_nothing(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    before = script.PAGE.stat().st_mtime_ns
    assert script.main(["--check"]) == 0
    assert script.PAGE.stat().st_mtime_ns == before
    assert "up to date" in capsys.readouterr().out


def test_a_page_that_is_out_of_date_is_noticed_and_written_anew(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PAGE", tmp_path / "lifecycle.md")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0


def test_an_edge_without_its_sentence_stops_the_page(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="Grant: edges and sentences differ in acquired -> committed"):
        script.section(evolve(script.GRANT, why=dict(list(script.GRANT.why.items())[1:])))


def test_every_diagram_shows_every_state(script: ModuleType) -> None:
    page = script.lifecycle()
    for machine in (script.TASK, script.ATTEMPT, script.GRANT, script.JOB, script.SEARCH):
        for state in machine.edges:
            assert re.search(rf"^    .*\b{state}\b", page, re.MULTILINE)


def test_the_glossary_names_each_word_once() -> None:
    assert len(PLACES) == GLOSSARY.count("| `imgproc_"), "every row of the tables is read"
    assert len({word for word, _ in PLACES}) == len(PLACES)


@pytest.mark.parametrize(("word", "place"), PLACES, ids=[word for word, _ in PLACES])
def test_a_word_of_the_glossary_exists_in_the_code(word: str, place: str) -> None:
    assert defined(place)


@pytest.mark.parametrize("place", ["imgproc_domain.task.Nothing", "imgproc_domain.claim.Claim.nothing"])
def test_a_word_that_is_not_in_the_code_would_be_noticed(place: str) -> None:
    assert not defined(place)
