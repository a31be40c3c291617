"""``imgproc status``: what is queued, running, done and stuck."""

from uuid import UUID

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from imgproc_app.cli.opening import opened
from imgproc_app.cli.output import table_of
from imgproc_app.cli.overview import Overview, job_document, look, stage_rows
from imgproc_app.cli.program import demo_hint
from imgproc_app.cli.session import Session, Stop, pause, run, run_until_stopped
from imgproc_domain.ids import JobId
from imgproc_domain.usecases.views import get_images, get_job

_EVERY_SECONDS = 1.0
_LANE_COLUMNS = ("lane", "waiting", "running", "at once")


@click.command("status")
@click.argument("job_id", required=False, type=click.UUID)
@click.option(
    "--watch",
    is_flag=True,
    help="Look again every second until Ctrl-C (exit code 0). With --json, or where nothing can be redrawn, each look"
    " is printed below the last.",
)
@click.pass_obj
def command(session: Session, job_id: UUID | None, *, watch: bool) -> int:
    """Show counts, queues and what did not succeed; or one job in detail, with JOB_ID."""
    if job_id is not None:
        wanted = JobId(job_id)
        return run(lambda: _one(session, wanted))
    if watch:
        return run_until_stopped(lambda stop: _watch(session, stop))
    return run(lambda: _all(session))


async def _all(session: Session) -> int:
    async with opened(session.settings()) as runtime:
        overview = await look(runtime)
    _show(session, overview)
    if overview.empty:
        session.output.note("the library is empty: 'imgproc import FOLDER' brings pictures in")
        if (hint := demo_hint(runtime.settings)) is not None:
            session.output.note(hint)
    return 0


async def _watch(session: Session, stop: Stop) -> int:
    async with opened(session.settings()) as runtime:
        if session.output.as_json or not session.output.out.is_terminal:
            while not stop.is_set():
                _show(session, await look(runtime))
                await pause(_EVERY_SECONDS, stop)
            return 0
        with Live(console=session.output.out, auto_refresh=False) as live:
            while not stop.is_set():
                live.update(_rendered(await look(runtime)), refresh=True)
                await pause(_EVERY_SECONDS, stop)
    return 0


async def _one(session: Session, job_id: JobId) -> int:
    async with opened(session.settings()) as runtime:
        view = await get_job(runtime.deployment, runtime.scope, job_id)
        pictures = await get_images(runtime.deployment, runtime.scope, [view.job.meme_id])
    # a job outlives its picture
    filename = pictures[view.job.meme_id].meme.filename if pictures else "(deleted)"
    if session.output.as_json:
        session.output.document({**job_document(view), "filename": filename})
        return 0
    job = view.job
    session.output.say(f"{filename}: revision {job.revision}, {job.status.value}")
    columns = ("stage", "status", "attempts", "code", "message", "task id")
    session.output.table(table_of("", columns, stage_rows(view), right=["attempts"]))
    return 0


def _show(session: Session, overview: Overview) -> None:
    if session.output.as_json:
        session.output.document(overview.document())
    else:
        session.output.out.print(_rendered(overview))


def _rendered(overview: Overview) -> RenderableType:
    parts: list[RenderableType] = [
        table_of("pictures", ("newest job", "pictures"), overview.count_rows(), right=["pictures"]),
        table_of("lanes", _LANE_COLUMNS, overview.lane_rows(), right=_LANE_COLUMNS[1:3]),
    ]
    parts += [Text(remark, style="yellow") for remark in overview.remarks()]
    if overview.stuck:
        columns = ("file", "stage", "code", "message", "retry", "job id")
        parts.append(table_of("not succeeded", columns, overview.stuck_rows()))
        if overview.more_stuck:
            parts.append(Text("... and more"))
    return Group(*parts)
