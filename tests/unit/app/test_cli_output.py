"""What the command line prints, and where."""

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from attrs import frozen

from imgproc_adapters.models.host import ModelTimedOut
from imgproc_adapters.postgres.embedded import EmbeddedPostgresError
from imgproc_app.cli.output import Output, one_line, table_of
from imgproc_app.cli.problems import explain
from imgproc_app.cli.questions import Answered, answers_table
from imgproc_app.cli.samples import Question, read_questions, samples_folder
from imgproc_domain.errors import CacheNotReady, DatabaseUnavailable


def test_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output.create(as_json=True)
    output.say("for a person")
    output.table(table_of("title", ("a",), [("1",)]))
    output.note("a remark")
    output.document({"when": datetime(2026, 1, 2, tzinfo=UTC), "id": UUID(int=1), "path": Path("猫")})
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "when": "2026-01-02T00:00:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "path": "猫",
    }
    assert printed.err == "a remark\n"


def test_a_file_name_is_content_and_never_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output.create(as_json=False)
    output.table(table_of("", ("file",), [("[bold]:smile:[/bold].jpg",)]))
    assert "[bold]:smile:[/bold].jpg" in capsys.readouterr().out


def test_text_from_anywhere_becomes_one_safe_line() -> None:
    assert one_line("a\n\tb\x1b[31m c\0") == "a b[31m c"
    assert len(one_line("x" * 500, 100)) == 100


@frozen
class _Known:
    error: Exception
    code: str


@pytest.mark.parametrize(
    "known",
    [
        _Known(DatabaseUnavailable("no answer"), "database_unavailable"),
        _Known(CacheNotReady("nothing yet"), "cache_not_ready"),
        _Known(EmbeddedPostgresError("no room"), "embedded_postgres_failed"),
        _Known(ModelTimedOut("too slow"), "model_call_failed"),
        _Known(ValueError("a bug"), "internal_error"),
    ],
    ids=lambda known: known.code,
)
def test_every_error_has_a_code_one_line_and_a_hint(known: _Known) -> None:
    code, message, hint = explain(known.error)
    assert code == known.code
    assert str(known.error) in message
    assert hint


def test_an_error_is_a_line_for_people_and_a_document_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    Output.create(as_json=True).error("conflict", "somebody was first", None)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"error": "conflict", "message": "somebody was first"}
    assert printed.err == "error: somebody was first\n"


def test_an_answer_is_marked_by_whether_it_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    answers = (("cat.jpg", 0.5), ("dog.jpg", 0.25))
    hit, miss, unknown = (Answered(Question("q", "en", file), answers) for file in ("dog.jpg", "owl.jpg", None))
    assert (hit.hit, miss.hit) == (True, False)
    Output.create(as_json=False).table(answers_table("searches", [hit, miss, unknown]))
    printed = capsys.readouterr().out
    assert printed.count("✔") == 1
    assert printed.count("✘") == 1
    assert printed.count("0.50 cat") == 3


def test_every_question_about_the_samples_expects_a_sample() -> None:
    folder = samples_folder()
    questions = read_questions(folder)
    assert all(question.file is not None and (folder / question.file).is_file() for question in questions)
    assert {question.language for question in questions} == {"en", "zh"}
