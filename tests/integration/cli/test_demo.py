"""The demo over a folder of one's own."""

import json
import sys
from pathlib import Path

from .terminal import Imgproc, copied


def test_a_demo_of_ones_own_folder_ends_by_itself_and_reports_what_it_measured(
    imgproc: Imgproc, tmp_path: Path
) -> None:
    copied(("macaw.jpg", "coffee-loading.jpg"), tmp_path / "mine")
    (tmp_path / "mine" / "again.jpg").write_bytes((tmp_path / "mine" / "macaw.jpg").read_bytes())
    demo = imgproc.run("demo", str(tmp_path / "mine"), "--once", "--port", "0", cwd=tmp_path)
    assert demo.code == 0, demo.err
    report = json.loads((tmp_path / "reports" / "demo.json").read_text())
    assert (report["pictures"], report["succeeded"]) == (2, 2)
    assert 0 < report["seconds_to_first_result"] <= report["seconds_total"]
    assert "[  2/2] " in demo.err
    assert "没喝咖啡的早晨" in demo.out
    assert "http://127.0.0.1:" in demo.out
    suggested = demo.out.splitlines()[-1].strip()
    assert suggested.startswith(f"{sys.executable} -m imgproc_app.cli --data-dir {imgproc.data_dir}/demo-")
    assert suggested.endswith(' search "..."')
