"""Memes and their contexts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Texts, Uuids
from imgproc_adapters.postgres.rows import CONTEXT, MEME, context_arrays, context_of, meme_of, meme_values
from imgproc_adapters.postgres.session import Session, Sql, statement
from imgproc_domain.context import USABLE, Context
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.ports.library import MemePage

USABLE_STATUSES: Final = Texts(sorted(USABLE))
"""The statuses in which a context may be found, as a parameter."""

_ADD: Final = statement(
    """
    INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
        storage_key, created_at, updated_at, deleted_at)
    VALUES (%(scope)s, %(meme_id)s, %(filename)s, %(image_sha256)s, %(media_type)s, %(byte_size)s, %(width)s,
        %(height)s, %(frames)s, %(storage_key)s, %(created_at)s, %(updated_at)s, %(deleted_at)s)
    """
)
_GET: Final = statement(
    "SELECT {meme} FROM memes m WHERE m.scope_id = %(scope)s AND m.meme_id = ANY (%(ids)s)", meme=MEME
)
_LOCK: Final = statement(
    """
    SELECT {meme} FROM memes m WHERE m.scope_id = %(scope)s AND m.meme_id = ANY (%(ids)s)
    ORDER BY m.meme_id FOR NO KEY UPDATE
    """,
    meme=MEME,
)

# uq_memes_live_content, one probe a digest.
_BY_CONTENT: Final = statement(
    """
    SELECT {meme} FROM unnest(%(digests)s) AS wanted (image_sha256)
    CROSS JOIN LATERAL (
        SELECT * FROM memes
        WHERE scope_id = %(scope)s AND image_sha256 = wanted.image_sha256 AND deleted_at IS NULL
        LIMIT 1
    ) m
    """,
    meme=MEME,
)

# ix_memes_live, backwards; name and status are looked at row by row, the newest job of each by uq_..._revision.
_PAGE: Final = statement(
    """
    SELECT {meme} FROM memes m
    WHERE m.scope_id = %(scope)s AND m.deleted_at IS NULL AND (%(after)s::uuid IS NULL OR m.meme_id < %(after)s)
      AND (%(name)s = '' OR strpos(lower(m.filename), lower(%(name)s)) > 0)
      AND (%(status)s::text IS NULL OR %(status)s = (
        SELECT j.status FROM image_processing_jobs j
        WHERE j.scope_id = m.scope_id AND j.meme_id = m.meme_id AND j.revision >= 1
        ORDER BY j.revision DESC LIMIT 1
      ))
    ORDER BY m.meme_id DESC LIMIT %(limit)s
    """,
    meme=MEME,
)
_SAVE: Final = statement(
    """
    UPDATE memes
    SET filename = %(filename)s, image_sha256 = %(image_sha256)s, media_type = %(media_type)s,
        byte_size = %(byte_size)s, width = %(width)s, height = %(height)s, frames = %(frames)s,
        storage_key = %(storage_key)s, created_at = %(created_at)s, updated_at = %(updated_at)s,
        deleted_at = %(deleted_at)s
    WHERE scope_id = %(scope)s AND meme_id = %(meme_id)s
    """
)

# ix_memes_live alone
_COUNT: Final = statement("SELECT count(*) FROM memes WHERE scope_id = %(scope)s AND deleted_at IS NULL")

_CONTEXTS: Final = statement(
    "SELECT {context} FROM meme_contexts c WHERE c.scope_id = %(scope)s AND c.meme_id = ANY (%(ids)s)", context=CONTEXT
)
_PUT_CONTEXTS: Final = statement(
    """
    INSERT INTO meme_contexts
        (scope_id, meme_id, status, revision, description, metadata_hash, provenance, updated_at)
    SELECT %(scope)s, n.meme_id, n.status, n.revision, n.description::jsonb, n.metadata_hash, n.provenance::jsonb,
        n.updated_at
    FROM unnest(%(ids)s, %(status)s, %(revision)s, %(description)s, %(metadata_hash)s, %(provenance)s, %(updated_at)s)
        AS n (meme_id, status, revision, description, metadata_hash, provenance, updated_at)
    ON CONFLICT (scope_id, meme_id) DO UPDATE
    SET status = excluded.status, revision = excluded.revision, description = excluded.description,
        metadata_hash = excluded.metadata_hash, provenance = excluded.provenance, updated_at = excluded.updated_at
    """
)


class PostgresMemes:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, meme: Meme) -> None:
        await self._session.run(_ADD, **meme_values(meme))

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        return await self._memes(_GET, ids)

    async def lock(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        return await self._memes(_LOCK, ids)

    async def by_content(self, digests: Collection[Sha256]) -> Mapping[Sha256, Meme]:
        wanted = Texts({digest.hex for digest in digests})
        rows = await self._session.rows(_BY_CONTENT, digests=wanted) if wanted else ()
        memes = (meme_of(self._session.scope, row) for row in rows)
        return {meme.picture.sha256: meme for meme in memes}

    async def page(
        self, after: MemeId | None, limit: int, name_contains: str = "", status: JobStatus | None = None
    ) -> MemePage:
        rows = await self._session.rows(_PAGE, after=after, limit=limit + 1, name=name_contains, status=status)
        memes = tuple(meme_of(self._session.scope, row) for row in rows[:limit])
        return MemePage(memes, memes[-1].meme_id if len(rows) > limit else None)

    async def save(self, meme: Meme) -> None:
        if await self._session.run(_SAVE, **meme_values(meme)) != 1:
            raise self._session.conflict("a meme to be written is gone")

    async def count(self) -> int:
        ((count,),) = await self._session.rows(_COUNT)
        return int(count)

    async def _memes(self, sql: Sql, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        rows = await self._session.rows(sql, ids=Uuids(set(ids))) if ids else ()
        memes = (meme_of(self._session.scope, row) for row in rows)
        return {meme.meme_id: meme for meme in memes}


class PostgresContexts:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Context]:
        rows = await self._session.rows(_CONTEXTS, ids=Uuids(set(ids))) if ids else ()
        contexts = (context_of(self._session.scope, row) for row in rows)
        return {context.meme_id: context for context in contexts}

    async def put(self, contexts: Sequence[Context]) -> None:
        # within one statement a row can be written once: the last one given is the one that stays
        last = {context.meme_id: context for context in contexts}
        if last:
            await self._session.run(_PUT_CONTEXTS, **context_arrays(list(last.values())))
