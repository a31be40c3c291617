"""A tiny run: real processes over a real server, and a judge that finds nothing. Restarts are left to `make chaos`."""

import json
import tempfile
from pathlib import Path

import pytest
from chaos.__main__ import main
from chaos.evidence import Kind
from chaos.plan import ALLOW_ALL


def test_a_tiny_run_breaks_nothing_and_reports_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "chaos.json"
    asked = {"jobs": 40, "kills": 3, "stops": 1, "restarts": 0, "cuts": 1}
    options = [f"--{name}={count}" for name, count in asked.items()]
    status = main([*options, "--policy", ALLOW_ALL, "--seed", "7", "--report", str(path)])
    told = capsys.readouterr().out
    report = json.loads(path.read_text(encoding="utf-8"))
    assert status == 0, told
    assert all(report[name] >= count for name, count in asked.items()), told
    assert [report[kind] for kind in Kind] == [0] * len(Kind)
    assert report["runs"][ALLOW_ALL]["agent_calls"] > 0
