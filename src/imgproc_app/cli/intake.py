"""Take many files in: several uploads at once, never more than a batch in memory, nothing sent twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Final, TypeVar

from attrs import frozen

from imgproc_app.cli.folder import Candidate, NoPicture, Refused, inspect
from imgproc_domain.errors import (
    DatabaseUnavailable,
    GenerationPolicyConflict,
    ImgprocError,
    OperationDenied,
    PictureRejected,
)
from imgproc_domain.ids import MemeId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import UploadStatus, upload
from imgproc_domain.usecases.submit import Submitted, submit

T = TypeVar("T")

_BATCH: Final = 32
_AT_ONCE: Final = 4
_CHUNK: Final = 256 * 1024
_PATIENCE: Final = 60.0
_AGAIN_AFTER: Final = 0.5
_FOR_NEW: Final = ReverseImagePolicy.FORBID


class Outcome(StrEnum):
    IMPORTED = "imported"
    PRESENT = "present"
    REJECTED = "rejected"
    SKIPPED = "skipped"


@frozen
class Item:
    """What became of one file: the job that stands for it in the library, or why it is not there.

    ``again``: a known picture is processed once more because another reverse-image policy was asked for.
    """

    path: Path
    outcome: Outcome
    job: Job | None = None
    code: str | None = None
    reason: str | None = None
    again: bool = False


class _Unreadable(ImgprocError):
    code = "unreadable"


@frozen
class Intake:
    """Takes files into one scope. A database that is away for less than a minute is waited for.

    Without a ``policy`` a known picture keeps the one of its newest job, and a new one gets `forbid`.
    """

    deployment: Deployment
    scope: Scope
    policy: ReverseImagePolicy | None = None

    async def run(self, files: Iterator[Path | Refused], stop: asyncio.Event) -> AsyncIterator[Item]:
        """Yield an item a file, in no particular order, until all are done or ``stop`` is set.

        Raises:
            ImgprocError: what concerns not one file but all: no room, no database, no decoder.
        """
        while not stop.is_set():
            batch = await asyncio.to_thread(_look, files, self.deployment.limits.upload_bytes)
            if not batch:
                return
            for found in batch:
                if isinstance(found, Refused):
                    yield Item(found.path, _OUTCOME_OF[found.verdict], None, found.code, found.reason)
            candidates = [found for found in batch if isinstance(found, Candidate)]
            known = await self._known(candidates)
            for item in known:
                yield item
            done = {item.path for item in known}
            async for item in self._upload([c.path for c in candidates if c.path not in done], stop):
                yield item

    async def _known(self, candidates: Sequence[Candidate]) -> Sequence[Item]:
        """Submit the pictures whose content is in the library already, without sending their bytes again."""
        digests = {c.sha256 for c in candidates if c.sha256 is not None}

        async def by_content() -> tuple[dict[str, Meme], Mapping[MemeId, Job]]:
            async with self.deployment.uow.begin(self.scope) as tx:
                found = await tx.memes.by_content(digests)
                newest = await tx.jobs.newest({meme.meme_id for meme in found.values()})
            return {sha256.hex: meme for sha256, meme in found.items()}, newest

        there, jobs = await _patiently(by_content) if digests else ({}, {})
        memes = [(c.path, there[c.sha256.hex]) for c in candidates if c.sha256 is not None and c.sha256.hex in there]
        # two files with the same content are one submission
        ids = list(dict.fromkeys(meme.meme_id for _, meme in memes))
        before = {meme_id: job.reverse_image_policy for meme_id, job in jobs.items()}
        wanted = {meme_id: self.policy or before.get(meme_id, _FOR_NEW) for meme_id in ids}
        submissions = [Submission(meme_id, policy, Mode.AUTOMATIC) for meme_id, policy in wanted.items()]
        submitted = await _patiently(lambda: submit(self.deployment, self.scope, submissions))
        answers = dict(zip(ids, submitted, strict=True))
        changed = {meme_id for meme_id in ids if before.get(meme_id, wanted[meme_id]) is not wanted[meme_id]}
        # of several files with the same content, the first stands for what happens to their picture
        first = {meme.meme_id: path for path, meme in reversed(memes) if meme.meme_id in changed}
        items = (_present(path, answers[m.meme_id], other=first.get(m.meme_id) is path) for path, m in memes)
        return [item for item in items if item is not None]

    async def _upload(self, paths: Iterable[Path], stop: asyncio.Event) -> AsyncIterator[Item]:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(path: Path) -> Item | None:
            async with places:
                return None if stop.is_set() else await self._one(path)

        uploads = [asyncio.create_task(one(path)) for path in paths]
        try:
            for done in asyncio.as_completed(uploads):
                if (item := await done) is not None:
                    yield item
        finally:
            for task in uploads:
                task.cancel()
            await asyncio.gather(*uploads, return_exceptions=True)

    async def _one(self, path: Path) -> Item:
        try:
            result = await _patiently(
                lambda: upload(self.deployment, self.scope, path.name, chunks_of(path), self.policy or _FOR_NEW)
            )
        except (PictureRejected, OperationDenied, _Unreadable) as error:
            return Item(path, Outcome.REJECTED, None, error.code, error.message)
        if result.conflict is not None:
            return Item(path, Outcome.REJECTED, None, result.conflict.code, result.conflict.message)
        outcome = Outcome.IMPORTED if result.status is UploadStatus.CREATED else Outcome.PRESENT
        return Item(path, outcome, result.job)


_OUTCOME_OF: Final = {NoPicture.SKIPPED: Outcome.SKIPPED, NoPicture.REJECTED: Outcome.REJECTED}


def _look(files: Iterator[Path | Refused], limit: int) -> Sequence[Candidate | Refused]:
    return [f if isinstance(f, Refused) else inspect(f, limit) for f in islice(files, _BATCH)]


def _present(path: Path, answer: object, *, other: bool) -> Item | None:
    match answer:
        case Submitted(job=job, created=created):
            return Item(path, Outcome.PRESENT, job, again=created and other)
        case GenerationPolicyConflict():
            return Item(path, Outcome.REJECTED, None, answer.code, answer.message)
        case _:
            # deleted this moment: it is uploaded like any other
            return None


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    """Yield a file's bytes; raises an `ImgprocError` with the code ``unreadable`` if that cannot be done."""
    try:
        file: IO[bytes] = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from error
    with file:
        while chunk := await _read(file):
            yield chunk


async def _read(file: IO[bytes]) -> bytes:
    try:
        return await asyncio.to_thread(file.read, _CHUNK)
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from error


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Wait for a database that is away for a moment, as when the process that had started it ends."""
    give_up = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            return await call()
        except DatabaseUnavailable:
            if asyncio.get_running_loop().time() > give_up:
                raise
            await asyncio.sleep(_AGAIN_AFTER)
