"""People change things: contexts, pictures, existence. Each changes what can be found in its own transaction."""

from collections.abc import AsyncIterator

from imgproc_domain.context import Context, ContextStatus, Description, Origin, Provenance
from imgproc_domain.errors import ContextConflict, MemeNotFound
from imgproc_domain.ids import MemeId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme, Picture, parse_filename
from imgproc_domain.policy import Operation
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.advance import Plan
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.ingest import take_in
from imgproc_domain.usecases.permitted import expect_permission, permitted
from imgproc_domain.usecases.submit import Submitted, submit_locked
from imgproc_domain.values import evolve


async def edit_context(
    deployment: Deployment, scope: Scope, meme_id: MemeId, revision: int, description: Description
) -> Context:
    """Replace a context by a person's words, if it still has the ``revision`` they were shown (0 for none).

    The text stage becomes stale and a job that embeds the new words is live when this returns.

    Raises:
        MemeNotFound: no such picture in this scope.
        ContextConflict: somebody else wrote the context first; nothing was changed.
    """

    async def once() -> tuple[Context, Plan]:
        async with deployment.uow.begin(scope) as tx:
            meme = await _locked(tx, meme_id)
            before = (await tx.contexts.get([meme_id])).get(meme_id)
            found = before.revision if before else 0
            if found != revision:
                raise ContextConflict("the context was changed by somebody else", context_revision=found)
            context = Context(
                scope=scope,
                meme_id=meme_id,
                status=ContextStatus.READY,
                revision=found + 1,
                description=description,
                provenance=Provenance(Origin.PERSON, meme.picture.sha256),
                updated_at=await tx.now(),
            )
            await tx.contexts.put([context])
            await tx.search.refresh([meme_id])
            return context, (await _resubmit(tx, deployment, meme, Mode.EXPLICIT))[1]

    context, plan = await decided_again(once)
    _note(deployment, plan)
    return context


async def replace_picture(
    deployment: Deployment,
    scope: Scope,
    meme_id: MemeId,
    filename: str | None,
    chunks: AsyncIterator[bytes],
) -> tuple[Meme, Job | None]:
    """Give a meme other bytes: what was made from the old ones is no longer found, and a new job is live.

    Raises:
        MemeNotFound: no such picture in this scope.
        OperationDenied, PictureRejected, InsufficientStorage: as `ingest.upload`; the old picture stays.
        Conflict: another picture of the scope has these bytes already; the old picture stays.
    """
    async with deployment.uow.begin(scope) as tx:
        await _locked(tx, meme_id)

    async def register(picture: Picture) -> tuple[tuple[Meme, Job | None, Plan], bool]:
        async def once() -> tuple[Meme, Job | None, Plan]:
            async with deployment.uow.begin(scope) as tx:
                before = await _locked(tx, meme_id)
                name = parse_filename(filename) if filename else before.filename
                meme = evolve(before, filename=name, picture=picture, updated_at=await tx.now())
                await tx.memes.save(meme)
                await tx.search.refresh([meme_id])
                job, plan = await _resubmit(tx, deployment, meme, Mode.AUTOMATIC)
                return meme, job, plan

        return await decided_again(once), True

    meme, job, plan = await take_in(deployment, scope, chunks, register)
    _note(deployment, plan)
    return meme, job


async def delete_meme(deployment: Deployment, scope: Scope, meme_id: MemeId) -> None:
    """Delete a picture: it cannot be found or listed any more when this returns; its active job ends by itself.

    Raises:
        OperationDenied: the operation policy does not permit it; the picture stays.
        MemeNotFound: no such picture in this scope.
    """

    async def delete() -> tuple[None, bool]:
        async with deployment.uow.begin(scope) as tx:
            await _delete(tx, meme_id)
        return None, True

    await expect_permission(deployment, scope, Operation.IMAGE_DELETE)
    await permitted(deployment, scope, Operation.IMAGE_DELETE, str(meme_id), delete)


async def _delete(tx: Transaction, meme_id: MemeId) -> None:
    meme = await _locked(tx, meme_id)
    now = await tx.now()
    await tx.memes.save(evolve(meme, deleted_at=now, updated_at=now))
    await tx.search.refresh([meme_id])
    active = await tx.jobs.active([meme_id])
    locked = await tx.jobs.lock(active.values())
    due = [evolve(job, due_at=now) for job in locked.values() if job.live]
    if due:
        await tx.jobs.save(due)


async def _locked(tx: Transaction, meme_id: MemeId) -> Meme:
    meme = (await tx.memes.lock([meme_id])).get(meme_id)
    if meme is None or not meme.exists:
        raise MemeNotFound("there is no such picture", meme_id=str(meme_id))
    return meme


async def _resubmit(tx: Transaction, deployment: Deployment, meme: Meme, mode: Mode) -> tuple[Job | None, Plan]:
    """Make the job of a changed meme live, under the policy of its newest job.

    A person who writes a context asks for it to be embedded, also where the last job failed: that is explicit.
    """
    newest = (await tx.jobs.newest([meme.meme_id])).get(meme.meme_id)
    policy = newest.reverse_image_policy if newest else ReverseImagePolicy.FORBID
    submission = Submission(meme.meme_id, policy, mode)
    (answer,), plan = await submit_locked(tx, deployment, [submission], {meme.meme_id: meme})
    return (answer.job if isinstance(answer, Submitted) else None), plan


def _note(deployment: Deployment, plan: Plan) -> None:
    for event in plan.events:
        deployment.observer.note(event)
