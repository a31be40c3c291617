"""What the documents show works as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from attrs import fields

from imgproc_app.settings import PREFIX, Settings

ROOT = Path(__file__).parents[3]


def test_the_program_in_the_library_guide_runs_and_prints_what_it_says(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    program, output = re.findall(r"```(?:python)?\n(.*?)```", guide, re.DOTALL)[:2]
    environment = os.environ | {
        "IMGPROC_DSN": database,
        "IMGPROC_POOLER": str(int(pooled)),
        "IMGPROC_DATA_DIR": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == output, done.stderr


def test_every_setting_is_in_the_operating_guide() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(IMGPROC_[A-Z_]+)`", guide))
    settings = {PREFIX + field.name.upper() for field in fields(Settings)}
    assert settings <= documented, settings - documented


def test_every_link_between_the_documents_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"
