"""The live table of pictures on their way through the stages."""

import io
from datetime import UTC, datetime
from uuid import UUID

from rich.console import Console

from imgproc_app.cli.jobs import Followed
from imgproc_app.cli.output import Output
from imgproc_app.cli.stage_view import StageView
from imgproc_domain.ids import JobId, MemeId, Sha256
from imgproc_domain.job import Job, JobStatus, new_stages
from imgproc_domain.scope import LOCAL
from imgproc_domain.stage import ReverseImagePolicy

WHEN = datetime(2026, 1, 2, tzinfo=UTC)


def job(number: int) -> Job:
    return Job(
        scope=LOCAL,
        job_id=JobId(UUID(int=number)),
        meme_id=MemeId(UUID(int=number)),
        revision=1,
        image_sha256=Sha256(f"{number:064x}"),
        reverse_image_policy=ReverseImagePolicy.FORBID,
        config_fingerprint="f",
        status=JobStatus.RUNNING,
        stages=new_stages(),
        created_at=WHEN,
        updated_at=WHEN,
        due_at=None,
    )


def test_rows_stand_in_the_order_of_names_and_fit_a_narrow_terminal() -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=70, height=40, markup=False)
    view = StageView(Output(as_json=True, out=console, err=console), "pictures")
    names = ["b.jpg", "c" * 60 + ".jpg", "a.jpg"]
    for number, name in enumerate(names):
        view.put(Followed(name, job(number)))
    console.print(view._render())
    lines = printed.getvalue().splitlines()
    assert max(map(len, lines)) <= 70
    assert [line[2] for line in lines if line.startswith("│")] == ["a", "b", "c"]
    assert "0 of 3 pictures" in lines[-1]
