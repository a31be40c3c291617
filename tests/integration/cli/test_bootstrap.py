"""`make` on machines that lack something."""

import shutil
import subprocess
from pathlib import Path

import pytest

from .terminal import REPOSITORY

TOOLS = ("sh", "cat", "cksum", "dirname", "flock", "rm")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A source tree and a PATH with a shell's tools and no Python."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "venv.sh", tmp_path / "scripts")
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        if (found := shutil.which(tool)) is not None:
            (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def bootstrap(machine: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(machine / "bin" / "sh"), str(machine / "scripts" / "venv.sh")],
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_shim_that_fails_is_no_python(machine: Path) -> None:
    program(machine / "bin" / "python3.13", "echo 'python3.13: command not found' >&2; exit 127")
    found = bootstrap(machine)
    assert found.returncode == 2
    assert "needs Python 3.11 or newer" in found.stderr


def test_a_python_without_its_venv_module_is_told_how_to_get_it(machine: Path) -> None:
    answer = 'case "$2" in *ensurepip*) exit 1;; *executable*) echo "$0";; *version_info*2\\]*) echo 3.12;; esac'
    program(machine / "bin" / "python3.12", answer)
    found = bootstrap(machine)
    assert found.returncode == 2
    assert "python3.12-venv" in found.stderr


def test_a_folder_with_spaces_reaches_the_demo_as_one_argument(machine: Path) -> None:
    if (make := shutil.which("make")) is None:
        pytest.skip("there is no make")
    shutil.copy(REPOSITORY / "Makefile", machine)
    (machine / "scripts" / "venv.sh").write_text("exit 0\n")
    (machine / ".venv" / "bin").mkdir(parents=True)
    program(machine / ".venv" / "bin" / "imgproc", "printf '%s|' \"$@\"")
    for folder, expected in (("/my 'pics'", "demo|/my 'pics'|--once|"), ("", "demo|--once|")):
        found = subprocess.run(
            [make, "-s", "demo", f"FOLDER={folder}", "ARGS=--once"],
            cwd=machine,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (found.returncode, found.stdout) == (0, expected), found.stderr
