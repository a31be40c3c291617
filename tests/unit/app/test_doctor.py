"""What the doctor thinks of what it finds."""

from pathlib import Path

import pytest
from attrs import evolve

from imgproc_adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from imgproc_app.doctor import examine
from imgproc_app.doctor.check import Verdict
from imgproc_app.doctor.database import Facts, _not_started, judge
from imgproc_app.doctor.machine import disk, wanted_packages
from imgproc_app.doctor.service import examine_service
from imgproc_app.settings import Settings, load_settings

GOOD = Facts(18, "18.6", "0.8.6", "0.8.6", "1.6", "1.6", "C.UTF-8", "UTF8")
GIGABYTE = 1024**3


def verdicts(facts: Facts) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in judge(facts)}


def test_a_good_server_passes_every_check() -> None:
    assert set(verdicts(GOOD).values()) == {Verdict.OK}


@pytest.mark.parametrize(
    ("facts", "check", "verdict"),
    [
        (evolve(GOOD, major=14, version="14.1"), "server version", Verdict.FAILED),
        (evolve(GOOD, major=15, version="15.0"), "server version", Verdict.OK),
        (evolve(GOOD, major=19, version="19beta1"), "server version", Verdict.WARNING),
        (evolve(GOOD, vector=None, vector_available=None), "pgvector", Verdict.FAILED),
        (evolve(GOOD, vector=None), "pgvector", Verdict.WARNING),
        (evolve(GOOD, vector="0.7.4"), "pgvector", Verdict.FAILED),
        (evolve(GOOD, vector="0.10.0"), "pgvector", Verdict.OK),
        (evolve(GOOD, btree_gin=None, btree_gin_available=None), "btree_gin", Verdict.FAILED),
        (evolve(GOOD, ctype="C"), "locale", Verdict.WARNING),
        (evolve(GOOD, ctype="en_US.UTF-8"), "locale", Verdict.OK),
        (evolve(GOOD, encoding="SQL_ASCII"), "locale", Verdict.FAILED),
    ],
)
def test_what_is_missing_or_old_is_found(facts: Facts, check: str, verdict: Verdict) -> None:
    assert verdicts(facts)[check] is verdict


def test_every_complaint_says_how_to_fix_it() -> None:
    bad = Facts(13, "13.0", None, None, None, None, "C", "LATIN1")
    assert all(check.fix for check in judge(bad))


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(10 * GIGABYTE, Verdict.OK), (GIGABYTE, Verdict.WARNING), (GIGABYTE // 10, Verdict.FAILED)],
)
def test_little_room_is_a_warning_and_no_room_a_failure(free: int, verdict: Verdict) -> None:
    assert disk(Path("/data"), free).verdict is verdict


def test_wanted_packages_are_those_of_the_core_and_of_the_local_models() -> None:
    requirements = ["attrs>=26.1", "psycopg[binary]>=3", "onnx>=1; extra == 'local'", "openai; extra == 'openai'"]
    assert wanted_packages(requirements) == ["attrs", "psycopg", "onnx"]


@pytest.mark.parametrize(
    ("given", "verdict", "told"),
    [
        ({}, Verdict.OK, "has those below /maintenance, because it listens on 127.0.0.1 alone"),
        ({"OPERATOR_API": "1"}, Verdict.OK, "has those below /maintenance, because IMGPROC_OPERATOR_API is 1"),
        ({"OPERATOR_API": "0"}, Verdict.OK, "has none below /maintenance, because IMGPROC_OPERATOR_API is 0"),
        ({"HOST": "0.0.0.0"}, Verdict.OK, "has none below /maintenance, because IMGPROC_HOST is 0.0.0.0"),
        (
            {"HOSTS": "a.example, b.example"},
            Verdict.OK,
            "has none below /maintenance, because IMGPROC_HOSTS lets it be called as a.example, b.example",
        ),
        ({"HOST": "0.0.0.0", "OPERATOR_API": "1"}, Verdict.WARNING, "everybody who can call it: IMGPROC_HOST"),
        ({"HOSTS": "a.example", "OPERATOR_API": "1"}, Verdict.WARNING, "everybody who can call it: IMGPROC_HOSTS"),
    ],
    ids=str,
)
def test_whether_the_routes_for_operators_are_there_is_told_with_the_reason(
    given: dict[str, str], verdict: Verdict, told: str
) -> None:
    settings = load_settings({f"IMGPROC_{name}": value for name, value in given.items()})
    check = examine_service(settings)
    assert (check.name, check.verdict) == ("operator routes", verdict)
    assert told in check.found
    assert ("has those" in check.found) is settings.operators
    assert bool(check.fix) is (verdict is Verdict.WARNING)


async def test_a_data_directory_that_cannot_be_used_is_one_failure_and_the_rest_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    found = {check.name: check async for check in examine(Settings(data_dir=tmp_path / "file" / "data"))}
    failed = [check for check in found.values() if check.verdict is Verdict.FAILED and check.name != "packages"]
    assert [check.name for check in failed] == ["data directory"]
    assert f"{tmp_path / 'file'} is a file" in failed[0].found
    assert f"move the file {tmp_path / 'file'} away" in failed[0].fix
    assert found["operator routes"].verdict is Verdict.OK
    skipped = {name for name, check in found.items() if check.verdict is Verdict.SKIPPED}
    assert skipped == {"blob directory", "database", "models"}
    assert all(found[name].found.startswith("skipped, because ") for name in skipped)


def test_a_server_that_does_not_start_is_explained_in_words(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    cause = PermissionError(13, "Permission denied", str(tmp_path))
    error = EmbeddedPostgresError(f"Cannot use the data directory {tmp_path}: {cause}")
    assert str(server.log_path) not in _not_started(server, error).fix
    server.log_path.touch()
    assert str(server.log_path) in _not_started(server, error).fix
    error.__cause__ = cause
    check = _not_started(server, error)
    assert "Errno" not in check.found
    assert "permission denied" in check.found
    assert "give your user access" in check.fix
