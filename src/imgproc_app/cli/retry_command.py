"""``imgproc retry``: process pictures again that did not succeed."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import click

from imgproc_app.cli.opening import opened
from imgproc_app.cli.overview import not_succeeded
from imgproc_app.cli.session import Session, run
from imgproc_domain.errors import ImgprocError
from imgproc_domain.ids import JobId
from imgproc_domain.job import Job
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.submit import Submitted, submit

_BATCH = 100


@click.command("retry")
@click.argument("job_id", required=False, type=click.UUID)
@click.option("--failed", is_flag=True, help="Every picture whose newest job failed, is blocked or unknown.")
@click.pass_obj
def command(session: Session, job_id: UUID | None, *, failed: bool) -> int:
    """Open the next revision of a job that ended as failed, blocked or unknown.

    The old job stays as it is. Nothing is processed here: 'imgproc serve' or 'imgproc worker' does that.

    Exit code 1 if one of several could not be retried.
    """
    if (job_id is None) == (not failed):
        raise click.UsageError("name a JOB_ID, or --failed")
    if job_id is None:
        return run(lambda: _all(session))
    wanted = JobId(job_id)
    return run(lambda: _one(session, wanted))


async def _one(session: Session, job_id: JobId) -> int:
    async with opened(session.settings()) as runtime:
        revision = await retry_job(runtime.deployment, runtime.scope, job_id)
    _tell(session, job_id, revision)
    return 0


async def _all(session: Session) -> int:
    retried = refused = 0
    async with opened(session.settings()) as runtime:
        async for jobs in _batches(not_succeeded(runtime.deployment, runtime.scope)):
            wanted = [Submission(job.meme_id, job.reverse_image_policy, Mode.EXPLICIT) for job in jobs]
            answers = await submit(runtime.deployment, runtime.scope, wanted)
            for job, answer in zip(jobs, answers, strict=True):
                if isinstance(answer, Submitted):
                    retried += 1
                    _tell(session, job.job_id, answer.job)
                else:
                    refused += 1
                    _refuse(session, job.job_id, answer)
    if session.output.as_json:
        session.output.document({"summary": {"retried": retried, "refused": refused}})
    session.output.say(f"{retried} retried" + (f", {refused} could not be" if refused else ""))
    return int(refused > 0)


async def _batches(jobs: AsyncIterator[Job]) -> AsyncIterator[Sequence[Job]]:
    batch: list[Job] = []
    async for job in jobs:
        batch.append(job)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _tell(session: Session, old: JobId, revision: Job) -> None:
    if session.output.as_json:
        new = {"new_job_id": revision.job_id, "revision": revision.revision, "status": revision.status.value}
        session.output.document({"job_id": old, **new})
    session.output.say(f"{old} -> revision {revision.revision}: {revision.job_id}")


def _refuse(session: Session, old: JobId, error: ImgprocError) -> None:
    if session.output.as_json:
        session.output.document({"job_id": old, "error": error.code, "message": error.message})
    session.output.say(f"{old}: {error.message}")
