"""``imgproc check-invariants`` as an operator types it."""

from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import frozen
from psycopg.conninfo import make_conninfo
from tests.integration.cli.terminal import Imgproc, Result, environment
from tests.integration.postgres.outcomes import BYSTANDER, S

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.invariants import CHECKS

LOSE: Final = "DELETE FROM search_vectors WHERE scope_id = %s RETURNING meme_id"


@frozen
class Operator:
    imgproc: Imgproc

    @property
    def data_dir(self) -> Path:
        return self.imgproc.data_dir

    def types(self, *words: str, dsn: str | None = None) -> Result:
        return self.imgproc.run(*_of(dsn), "check-invariants", *words)

    def document(self, *words: str, dsn: str | None = None) -> tuple[int, Any]:
        done = self.imgproc.json(*_of(dsn), "check-invariants", *words)
        return done.code, done.document


def _of(dsn: str | None) -> tuple[str, ...]:
    return ("--dsn", dsn) if dsn else ()


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(Imgproc(tmp_path / "data", environment()))


def lose(dsn: str, scope: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [str(meme_id) for (meme_id,) in connection.execute(LOSE, [scope]).fetchall()]


def test_every_check_is_listed_and_holds(operator: Operator, busy: str) -> None:
    done = operator.types(dsn=busy)
    assert (done.code, done.err) == (0, "")
    assert all(each.name in done.out for each in CHECKS if not each.quiescent)
    assert done.out.splitlines()[-1] == "every invariant holds in 2 scopes"
    assert not operator.data_dir.exists(), "looking makes nothing"


def test_what_is_broken_is_named(operator: Operator, busy: str) -> None:
    (meme_id,) = lose(busy, BYSTANDER)
    done = operator.types(dsn=busy)
    assert done.code == 1
    said = f"I14 current-not-found: meme {meme_id} is not found in scripted-text-1 (scope {BYSTANDER})"
    assert done.out.splitlines()[-2:] == [said, "1 checks found what must not be in 2 scopes"]


def test_the_document_says_the_same(operator: Operator, busy: str) -> None:
    lost = lose(busy, S)
    code, document = operator.document("--scope", S, "--limit", "1", dsn=busy)
    assert (code, document["holds"], document["scopes"], document["revision"]) == (1, False, 1, migrate.head())
    (found,) = (each for each in document["checks"] if each["violations"])
    assert (found["invariant"], found["name"], found["violations"]) == ("I14", "current-not-found", len(lost))
    (example,) = found["examples"]
    assert (example["scope"], example["row"]) == (S, f"meme {min(lost)}")


def test_what_was_left_over_is_looked_for_when_asked(operator: Operator, busy: str) -> None:
    code, document = operator.document("--quiescent", dsn=busy)
    assert code == 1
    found = {each["invariant"] for each in document["checks"] if each["violations"]}
    # on a slow machine what was left under way is overdue by now
    assert found - {"progress"} == {"rest"}


def test_errors_are_told_in_one_line(operator: Operator, busy: str) -> None:
    for words, dsn, error in (
        ((), make_conninfo(busy, dbname="no_such_database"), "database_unavailable"),
        (("--scope", "nobody"), busy, "validation_error"),
        ((), None, "schema_missing"),
    ):
        code, document = operator.document(*words, dsn=dsn)
        assert (code, document["error"]) == (2, error)
    assert not operator.data_dir.exists()


def test_the_embedded_library_is_joined_as_it_is(operator: Operator) -> None:
    with EmbeddedPostgres(operator.data_dir / "postgres", durable=False) as server:
        migrate.upgrade(server.dsn())
        migrate.downgrade(server.dsn(), "0002")
        done = operator.types()
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1].endswith("checks do not know schema revision 0002")
        assert migrate.current(server.dsn()) == "0002"
