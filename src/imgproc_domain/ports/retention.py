"""Finding and deleting history. What may go is decided by `imgproc_domain.retention`."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from imgproc_domain.ids import GenerationId, JobId, MemeId, Sha256, TaskId
from imgproc_domain.policy import Operation
from imgproc_domain.retention import JobFacts, KeyFacts, Kind, MaintenanceFacts, MemeFacts
from imgproc_domain.scope import Scope

RequestKey = tuple[Operation, str]
VisualKey = tuple[MemeId, Sha256, str]
TextKey = tuple[MemeId, Sha256, Sha256, str]


@frozen
class JobHistory:
    """Jobs, oldest first; ``after`` is the cursor of the next page, None at the end."""

    jobs: tuple[JobFacts, ...]
    after: JobId | None


@frozen
class MemeHistory:
    """Deleted memes, oldest first; ``after`` as in `JobHistory`."""

    memes: tuple[MemeFacts, ...]
    after: MemeId | None


@frozen
class MaintenanceHistory:
    """Maintenance tasks, oldest first; ``after`` as in `JobHistory`."""

    tasks: tuple[MaintenanceFacts, ...]
    after: TaskId | None


@frozen
class KeyHistory:
    """Remembered requests in the order of their keys; ``after`` as in `JobHistory`."""

    keys: tuple[KeyFacts, ...]
    after: RequestKey | None


class RetentionStore(Protocol):
    """The history of a scope, page by page. Every page and every deletion costs what it holds.

    Pages lock nothing. What ``lock_...`` returns is locked until the transaction ends, and its facts are of that
    moment; what others hold is left out, so that nobody waits for history. Of jobs their tasks are locked too, first.
    """

    async def jobs(self, after: JobId | None, limit: int) -> JobHistory:
        """Return the next ``limit`` jobs, whatever their status."""
        ...

    async def lock_jobs(self, ids: Collection[JobId]) -> Sequence[JobFacts]: ...

    async def weigh_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        """Count what `delete_jobs` would delete."""
        ...

    async def delete_jobs(self, ids: Collection[JobId]) -> Mapping[Kind, int]:
        """Delete locked jobs with all that was done for them, and return how much of each kind there was."""
        ...

    async def deleted_memes(self, after: MemeId | None, limit: int) -> MemeHistory:
        """Return the next ``limit`` memes that were deleted, with their jobs."""
        ...

    async def lock_memes(self, ids: Collection[MemeId]) -> Sequence[MemeFacts]:
        """Lock deleted memes and their jobs; one of which others hold a row is left out."""
        ...

    async def weigh_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        """Count what `strip_memes` would delete."""
        ...

    async def strip_memes(self, ids: Collection[MemeId]) -> Mapping[Kind, int]:
        """Delete all that belongs to locked memes, their jobs included, but not the memes themselves."""
        ...

    async def delete_memes(self, ids: Collection[MemeId]) -> None:
        """Delete locked memes that were stripped."""
        ...

    async def maintenance(self, after: TaskId | None, limit: int) -> MaintenanceHistory:
        """Return the next ``limit`` maintenance tasks, whatever their status."""
        ...

    async def lock_maintenance(self, ids: Collection[TaskId]) -> Sequence[MaintenanceFacts]: ...

    async def entries(self, generation_id: GenerationId) -> int:
        """Count the entries of a generation."""
        ...

    async def delete_entries(self, generation_id: GenerationId, limit: int) -> int:
        """Delete up to ``limit`` entries of a generation and return how many there were."""
        ...

    async def delete_maintenance(self, ids: Collection[TaskId]) -> Mapping[Kind, int]:
        """Delete locked maintenance tasks with their generations, which have no entries any more."""
        ...

    async def tombstones(self, after: RequestKey | None, limit: int) -> KeyHistory:
        """Return the next ``limit`` rows of the release outbox."""
        ...

    async def delete_tombstones(self, keys: Collection[RequestKey]) -> Mapping[Kind, int]:
        """Delete rows of the outbox that are done."""
        ...

    async def reservations(self, after: RequestKey | None, limit: int) -> KeyHistory:
        """Return the next ``limit`` reservations of a policy that keeps them in this database."""
        ...

    async def delete_reservations(self, keys: Collection[RequestKey], before: datetime) -> Mapping[Kind, int]:
        """Delete reservations to which nothing happened since ``before``."""
        ...

    async def delete_vectors(self, visual: Collection[VisualKey], text: Collection[TextKey]) -> Mapping[Kind, int]:
        """Delete vectors of memes that this transaction has locked; what of them could be found cannot any more."""
        ...


class OldBlobs(Protocol):
    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: datetime) -> bool:
        """Remove bytes that nobody kept (again) since then; True if they are gone, as missing ones are.

        An upload keeps its bytes before its meme is registered: bytes that were kept a moment ago have a meme soon.
        """
        ...
