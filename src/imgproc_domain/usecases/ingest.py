"""Take a picture in: bytes first, then the meme, then its job - each durable before the next."""

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from attrs import frozen

from imgproc_domain.errors import Conflict, GenerationPolicyConflict
from imgproc_domain.events import Event
from imgproc_domain.ids import MemeId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme, Picture
from imgproc_domain.policy import Operation
from imgproc_domain.ports.blobs import Staged
from imgproc_domain.ports.models import PictureInfo
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.usecases.permitted import expect_permission, permitted
from imgproc_domain.usecases.submit import Submitted, submit_locked

T = TypeVar("T")


class UploadStatus(StrEnum):
    CREATED = "created"
    DUPLICATE = "duplicate"


@frozen
class Uploaded:
    """The meme that now holds the bytes, and its job; ``conflict`` if an active job runs under another policy."""

    status: UploadStatus
    meme: Meme
    job: Job | None
    conflict: GenerationPolicyConflict | None = None


async def upload(
    deployment: Deployment,
    scope: Scope,
    filename: str | None,
    chunks: AsyncIterator[bytes],
    policy: ReverseImagePolicy,
) -> Uploaded:
    """Store one picture and create or reuse its job. The same bytes twice are one meme; a failed job is not restarted.

    Raises:
        OperationDenied: the operation policy does not permit the upload; nothing is kept.
        PictureRejected: no acceptable picture, or too large; nothing is kept.
        InsufficientStorage: no room; nothing is kept.
        DatabaseUnavailable: the picture may have been stored; the same upload again finds out.
    """

    async def register(picture: Picture) -> tuple[tuple[Uploaded, list[Event]], bool]:
        async def once() -> tuple[Uploaded, list[Event]]:
            async with deployment.uow.begin(scope) as tx:
                return await _register(tx, deployment, filename, picture, policy)

        uploaded, events = await decided_again(once)
        return (uploaded, events), uploaded.status is UploadStatus.CREATED

    uploaded, events = await take_in(deployment, scope, chunks, register)
    for event in events:
        deployment.observer.note(event)
    return uploaded


async def take_in(
    deployment: Deployment,
    scope: Scope,
    chunks: AsyncIterator[bytes],
    register: Callable[[Picture], Awaitable[tuple[T, bool]]],
) -> T:
    """Stream bytes in, prove that they are a picture, keep them where the policy permits it, and ``register`` them.

    ``register`` returns its result, and whether the picture is new to the scope: one that is not costs nothing.
    Raises as `upload`.
    """
    await expect_permission(deployment, scope, Operation.IMAGE_UPLOAD)
    staged = await deployment.blobs.stage(chunks, deployment.limits.upload_bytes)
    try:
        info = await deployment.decoder.probe(staged.path)

        async def store() -> tuple[T, bool]:
            return await register(_picture(staged, info, await deployment.blobs.keep(scope, staged)))

        return await permitted(deployment, scope, Operation.IMAGE_UPLOAD, staged.sha256.hex, store)
    finally:
        await deployment.blobs.discard(staged)


def _picture(staged: Staged, info: PictureInfo, storage_key: str) -> Picture:
    return Picture(
        sha256=staged.sha256,
        media_type=info.media_type,
        byte_size=staged.byte_size,
        width=info.width,
        height=info.height,
        frames=info.frames,
        storage_key=storage_key,
    )


async def _register(
    tx: Transaction, deployment: Deployment, filename: str | None, picture: Picture, policy: ReverseImagePolicy
) -> tuple[Uploaded, list[Event]]:
    known = (await tx.memes.by_content([picture.sha256])).get(picture.sha256)
    if known is None:
        now = await tx.now()
        meme = Meme(tx.scope, MemeId(deployment.ids.ordered(now)), filename, picture, now, now)
        await tx.memes.add(meme)
    else:
        meme = (await tx.memes.lock([known.meme_id])).get(known.meme_id, known)
        if not meme.exists or meme.picture.sha256 != picture.sha256:
            raise Conflict("the picture with these bytes was just replaced or deleted")
    submission = Submission(meme.meme_id, policy, Mode.AUTOMATIC)
    (answer,), plan = await submit_locked(tx, deployment, [submission], {meme.meme_id: meme})
    status = UploadStatus.DUPLICATE if known else UploadStatus.CREATED
    match answer:
        case Submitted(job):
            return Uploaded(status, meme, job), plan.events
        case GenerationPolicyConflict():
            return Uploaded(status, meme, None, answer), plan.events
        case _:
            raise answer
