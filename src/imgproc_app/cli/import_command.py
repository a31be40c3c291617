"""``imgproc import``: take a folder in, and process it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from imgproc_app.cli.driving import drive
from imgproc_app.cli.folder import walk
from imgproc_app.cli.intake import Intake
from imgproc_app.cli.jobs import Followed, JobFollower, SpareWorker
from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import folder_type
from imgproc_app.cli.report import ImportReport
from imgproc_app.cli.session import INTERRUPTED, Session, Stop, run_until_stopped
from imgproc_app.lifecycle import Runtime
from imgproc_domain.stage import ReverseImagePolicy


@click.command("import")
@click.argument("folder", type=folder_type(exists=True, file_okay=True))
@click.option(
    "--reverse-image-policy",
    type=click.Choice([policy.value for policy in ReverseImagePolicy]),
    help="Whether the agent may show the pictures to a reverse image search. Given here, it also holds for pictures"
    " that were processed under the other one: they are processed again.  [default: forbid for new pictures]",
)
@click.option("--no-wait", is_flag=True, help="Only submit; 'imgproc serve' or 'imgproc worker' does the rest.")
@click.pass_obj
def command(session: Session, folder: Path, reverse_image_policy: str | None, *, no_wait: bool) -> int:
    """Import the pictures of FOLDER and its subfolders, and process them until all are done. FOLDER may be one file.

    What is a picture is judged by content; hidden files and folders are left out and links are not followed. Run it
    again at any time, also after an interruption: pictures that are in the library already are found by their
    content and left alone. A worker of this process does the work unless another process does.

    Exit code 0 if every picture is in the library and processed (with --no-wait: in the library), 1 if a picture was
    rejected or failed, 130 if interrupted.
    """
    policy = ReverseImagePolicy(reverse_image_policy) if reverse_image_policy else None
    return run_until_stopped(lambda stop: _import(session, folder, policy, stop, wait=not no_wait))


async def _import(session: Session, folder: Path, policy: ReverseImagePolicy | None, stop: Stop, *, wait: bool) -> int:
    report = ImportReport(session.output, folder)
    async with opened(session.settings()) as runtime:
        with report.shown():
            if wait:
                await _processed(runtime, folder, policy, report, stop)
            else:
                await _taken(runtime, folder, policy, report, None, stop)
    report.finish(interrupted=stop.is_set(), waited=wait)
    return INTERRUPTED if stop.is_set() else int(report.anything_wrong)


async def _processed(
    runtime: Runtime, folder: Path, policy: ReverseImagePolicy | None, report: ImportReport, stop: Stop
) -> None:
    """Take files in and follow their jobs at the same time, until both are done."""
    follower = JobFollower(runtime.deployment, runtime.scope)
    async with SpareWorker(runtime) as worker:

        async def tick(seen: Sequence[Followed]) -> None:
            for followed in seen:
                report.followed(followed)
            report.tick()
            if len(follower) > 0:
                await worker.consider()

        await drive(_taken(runtime, folder, policy, report, follower, stop), follower, tick, stop)


async def _taken(
    runtime: Runtime,
    folder: Path,
    policy: ReverseImagePolicy | None,
    report: ImportReport,
    follower: JobFollower | None,
    stop: Stop,
) -> None:
    report.expect(await asyncio.to_thread(lambda: sum(1 for _ in walk(folder))))
    async for item in Intake(runtime.deployment, runtime.scope, policy).run(walk(folder), stop):
        name = report.taken(item)
        if follower is not None and item.job is not None:
            follower.add(name, item.job.job_id)
