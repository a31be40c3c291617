"""A shifted clock is off for everybody who asks for the time of day, and for nobody who measures."""

import subprocess
import sys
from pathlib import Path

import pytest
from chaos import clocks

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import datetime, time
true, monotonic, kind = time.time(), time.monotonic(), datetime.datetime
moment = kind.now(datetime.UTC)
from chaos import clocks
clocks.shift(int({seconds}))
from datetime import datetime as late
assert isinstance(moment, late) and isinstance(late.now(), kind) and issubclass(kind, late)
off = [time.time() - true, time.time_ns() / 1e9 - true, late.now(datetime.UTC).timestamp() - true]
off += [late.now().timestamp() - true, late.utcnow().replace(tzinfo=datetime.UTC).timestamp() - true]
assert all(abs(each - {seconds}) < 60 for each in off), off
assert 0 <= time.monotonic() - monotonic < 60
"""


@pytest.mark.parametrize("seconds", [3600, -3600, 0])
def test_every_wall_clock_is_off_and_no_other(seconds: int) -> None:
    program = [sys.executable, "-c", PROGRAM.format(seconds=seconds)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_library_is_told_by_how_much_and_leaves_monotonic_clocks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "_LIBRARIES", (str(tmp_path),))
    assert clocks.environment(-3600) == {}
    library = tmp_path / "lib" / "faketime" / "libfaketime.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    assert clocks.environment(0) == {}
    assert clocks.environment(-3600) == {
        "LD_PRELOAD": str(library),
        "FAKETIME": "-3600s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
