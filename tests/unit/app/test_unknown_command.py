"""The arguments of `imgproc unknown`: a group within the group, with the options of every command."""

import getpass
import json
from pathlib import Path
from uuid import uuid4

import pytest

from imgproc_app.cli.group import _run
from imgproc_app.cli.unknown_command import _user

RESOLVE = ("unknown", "resolve", str(uuid4()))


@pytest.mark.parametrize("place", range(3), ids=["before the group", "before the command", "behind the command"])
def test_global_options_stand_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: int) -> None:
    (tmp_path / "file").touch()
    arguments = ["unknown", "list"]
    arguments[place:place] = ["--data-dir", str(tmp_path / "file"), "--json"]
    for _ in range(2):
        assert _run(arguments) == 2
        assert json.loads(capsys.readouterr().out)["error"] == "data_dir_unusable"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["unknown", "lst"], "No such command 'lst'"),
        (["unknown", "show"], "Missing argument 'TASK_ID'"),
        (["unknown", "show", "nonsense"], "'nonsense' is not a valid UUID"),
        ([*RESOLVE, "--evidence", "e"], "Missing option '--reason'"),
        ([*RESOLVE, "--reason", "r"], "Missing option '--evidence'"),
    ],
)
def test_what_is_missing_is_named(arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run([*arguments, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"] == "usage_error"
    assert part in document["message"]


@pytest.mark.parametrize("blank", ["--reason", "--evidence", "--by"])
def test_nothing_is_opened_for_a_resolution_that_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], blank: str
) -> None:
    said = {"--reason": "r", "--evidence": "e", "--by": "b", blank: " "}
    options = [word for pair in said.items() for word in pair]
    assert _run([*RESOLVE, *options, "--data-dir", str(tmp_path / "data"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "validation_error"
    assert not (tmp_path / "data").exists()


def test_who_resolves_is_the_user_of_the_shell_or_nobody_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    assert _user() == "somebody"

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert _user() == "operator"
