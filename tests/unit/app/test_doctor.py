"""What the doctor thinks of what it finds."""

from pathlib import Path

import pytest
from attrs import evolve

from imgproc_app.doctor.check import Verdict
from imgproc_app.doctor.database import Facts, judge
from imgproc_app.doctor.machine import disk, wanted_packages

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
        (evolve(GOOD, trgm=None, trgm_available=None), "pg_trgm", Verdict.FAILED),
        (evolve(GOOD, ctype="C"), "locale", Verdict.FAILED),
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
