"""The demo over a folder of one's own."""

import json
from pathlib import Path

from .terminal import Imgproc, copied


def test_a_demo_of_ones_own_folder_ends_by_itself_and_reports_what_it_measured(
    imgproc: Imgproc, tmp_path: Path
) -> None:
    copied(("macaw.jpg", "coffee-loading.jpg"), tmp_path / "mine")
    demo = imgproc.run("demo", str(tmp_path / "mine"), "--once", "--port", "0", cwd=tmp_path)
    assert demo.code == 0, demo.err
    report = json.loads((tmp_path / "reports" / "demo.json").read_text())
    assert (report["pictures"], report["succeeded"]) == (2, 2)
    assert 0 < report["seconds_to_first_result"] <= report["seconds_total"]
    assert "[  2/2] " in demo.err
    assert "没喝咖啡的早晨" in demo.out
    assert "http://127.0.0.1:" in demo.out
