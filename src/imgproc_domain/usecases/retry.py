"""A person asks again: explicit submissions."""

from imgproc_domain.errors import GenerationPolicyConflict, JobNotRetryable, MemeNotFound, TaskNotFound
from imgproc_domain.ids import JobId
from imgproc_domain.job import RETRYABLE, Job
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.submit import Submitted, submit


async def retry_job(
    deployment: Deployment, scope: Scope, job_id: JobId, policy: ReverseImagePolicy | None = None
) -> Job:
    """Open the next revision of a job that ended as failed, blocked or unknown, and return it.

    The old job, its tasks and its grant stay as they are. ``policy`` defaults to the old job's.

    Raises:
        TaskNotFound: no such job in this scope.
        JobNotRetryable: the job is active or succeeded.
        GenerationPolicyConflict: a newer revision is active under another policy.
        MemeNotFound: the picture was deleted.
    """
    async with deployment.uow.begin(scope) as tx:
        job = (await tx.jobs.get([job_id])).get(job_id)
    if job is None:
        raise TaskNotFound("there is no such job", job_id=str(job_id))
    if job.status not in RETRYABLE:
        raise JobNotRetryable(f"a job that is {job.status} cannot be retried", status=str(job.status))
    submission = Submission(job.meme_id, policy or job.reverse_image_policy, Mode.EXPLICIT)
    (answer,) = await submit(deployment, scope, [submission])
    match answer:
        case Submitted(revision):
            return revision
        case GenerationPolicyConflict() | MemeNotFound():
            raise answer
