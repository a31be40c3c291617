"""Legacy generations: whole-scope copies of what was findable when they were made."""

from collections.abc import Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Half, cosine_distance
from imgproc_adapters.postgres.library import USABLE_STATUSES
from imgproc_adapters.postgres.search import SearchMemory
from imgproc_adapters.postgres.session import Row, Session, statement
from imgproc_domain.config import VectorSpace
from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.migration import Generation
from imgproc_domain.ports.search import Entry, Readable
from imgproc_domain.search import Coverage
from imgproc_domain.vector import Vector

_GENERATION: Final = """
    g.generation_id, g.task_id, g.space_id, g.dimension, g.created_at, g.completed_at,
    (SELECT count(*) FROM cache_generation_entries e
     WHERE e.scope_id = g.scope_id AND e.generation_id = g.generation_id)
"""

# uq_cache_generations_task
_OF_TASK: Final = statement(
    "SELECT {generation} FROM cache_generations g WHERE g.scope_id = %(scope)s AND g.task_id = %(task_id)s",
    generation=_GENERATION,
)

# pk_cache_generations, backwards
_COMPLETE_FIRST: Final = """
    FROM cache_generations g
    WHERE g.scope_id = %(scope)s AND g.completed_at IS NOT NULL ORDER BY g.generation_id DESC LIMIT 1
"""
_NEWEST: Final = statement("SELECT {generation} {first}", generation=_GENERATION, first=_COMPLETE_FIRST)
_READABLE: Final = statement("SELECT g.generation_id, g.space_id, g.dimension {first}", first=_COMPLETE_FIRST)
_ADD: Final = statement(
    """
    INSERT INTO cache_generations (scope_id, generation_id, task_id, space_id, dimension, created_at, completed_at)
    VALUES (%(scope)s, %(id)s, %(task_id)s, %(space_id)s, %(dimension)s, %(created_at)s, %(completed_at)s)
    """
)

# pk_search_vectors is this order within a space. The page counts what it read, not what was new to the copy: a page
# that an earlier try copied already must not look like the end.
_COPY: Final = statement(
    """
    WITH page AS MATERIALIZED (
        SELECT v.meme_id, v.image_sha256, v.metadata_hash, v.dimension, v.embedding FROM search_vectors v
        WHERE v.scope_id = %(scope)s AND v.space_id = (
            SELECT g.space_id FROM cache_generations g
            WHERE g.scope_id = %(scope)s AND g.generation_id = %(id)s
        ) AND (%(after)s::uuid IS NULL OR v.meme_id > %(after)s)
        ORDER BY v.meme_id LIMIT %(limit)s
    ), copied AS (
        INSERT INTO cache_generation_entries
            (scope_id, generation_id, meme_id, image_sha256, metadata_hash, dimension, embedding)
        SELECT %(scope)s, %(id)s, page.* FROM page ON CONFLICT (scope_id, generation_id, meme_id) DO NOTHING
    )
    SELECT meme_id FROM page ORDER BY meme_id DESC LIMIT 1
    """
)
_COMPLETE: Final = statement(
    """
    UPDATE cache_generations SET completed_at = statement_timestamp()
    WHERE scope_id = %(scope)s AND generation_id = %(id)s
    """
)

# What a generation remembers is compared with what is stored now, row by row: nothing writes to it when a picture, its
# context or its existence changes. A probe of a key each, whatever the planner thinks of how many entries there are.
_USABLE: Final = """
    FROM cache_generations g
    JOIN cache_generation_entries e ON e.scope_id = g.scope_id AND e.generation_id = g.generation_id
        AND e.dimension = g.dimension
    CROSS JOIN LATERAL (
        SELECT m.storage_key FROM memes m
        WHERE m.scope_id = %(scope)s AND m.meme_id = e.meme_id AND m.image_sha256 = e.image_sha256
          AND m.deleted_at IS NULL LIMIT 1
    ) m
    CROSS JOIN LATERAL (
        SELECT c.meme_id FROM meme_contexts c
        WHERE c.scope_id = %(scope)s AND c.meme_id = e.meme_id AND c.metadata_hash = e.metadata_hash
          AND c.status = ANY (%(usable)s) LIMIT 1
    ) c
    WHERE g.scope_id = %(scope)s AND g.generation_id = %(id)s AND g.completed_at IS NOT NULL
      AND e.scope_id = %(scope)s AND e.generation_id = %(id)s
"""
# Exact, and never by an approximate index: see PostgresSearch.
_NEAREST: Final = statement(
    """
    SELECT e.meme_id, 1 + (e.embedding <#> %(query)s), m.storage_key {usable} AND e.dimension = %(dimension)s
    ORDER BY (e.embedding <#> %(query)s) + 0, e.meme_id
    LIMIT %(limit)s
    """,
    usable=_USABLE,
)
_COVERAGE: Final = statement(
    """
    SELECT (SELECT count(*) {usable}),
           (SELECT count(*) FROM memes WHERE scope_id = %(scope)s AND deleted_at IS NULL)
    """,
    usable=_USABLE,
)
_PROBED: Final = 50
"""An entry that is compared with what is stored takes as long as so many that are counted in an index alone."""


class PostgresGenerations:
    def __init__(self, session: Session, memory: SearchMemory | None = None) -> None:
        self._session = session
        self._memory = memory if memory is not None else SearchMemory()

    async def of_task(self, task_id: TaskId) -> Generation | None:
        rows = await self._session.rows(_OF_TASK, task_id=task_id)
        return self._generation(rows[0]) if rows else None

    async def newest(self) -> Generation | None:
        rows = await self._session.rows(_NEWEST)
        return self._generation(rows[0]) if rows else None

    async def readable(self) -> Readable | None:
        rows = await self._session.rows(_READABLE)
        return Readable(rows[0][0], VectorSpace(*rows[0][1:])) if rows else None

    async def add(self, generation: Generation) -> None:
        await self._session.run(
            _ADD,
            id=generation.generation_id,
            task_id=generation.task_id,
            space_id=generation.space.id,
            dimension=generation.space.dimension,
            created_at=generation.created_at,
            completed_at=generation.completed_at,
        )

    async def copy_page(self, generation_id: GenerationId, after: MemeId | None, limit: int) -> MemeId | None:
        rows = await self._session.rows(_COPY, id=generation_id, after=after, limit=limit)
        return MemeId(rows[0][0]) if rows else None

    async def complete(self, generation_id: GenerationId) -> None:
        if await self._session.run(_COMPLETE, id=generation_id) != 1:
            raise self._session.conflict("a generation to be completed is gone")

    async def nearest(self, generation_id: GenerationId, vector: Vector, limit: int) -> Sequence[Entry]:
        rows = await self._session.rows(
            _NEAREST,
            id=generation_id,
            query=Half.of(vector),
            dimension=vector.dimension,
            usable=USABLE_STATUSES,
            limit=limit,
        )
        return [Entry(meme_id, cosine_distance(distance), storage_key) for meme_id, distance, storage_key in rows]

    async def coverage(self, generation_id: GenerationId) -> Coverage:
        key = (self._session.scope, generation_id)
        known = self._memory.counts.get(key)
        if known is not None:
            return known
        ((usable, total),) = await self._session.rows(_COVERAGE, id=generation_id, usable=USABLE_STATUSES)
        found = Coverage(usable, total)
        self._memory.keep(key, found, _PROBED * usable + total)
        return found

    def _generation(self, row: Row) -> Generation:
        generation_id, task_id, space_id, dimension, created_at, completed_at, entries = row
        space = VectorSpace(space_id, dimension)
        return Generation(self._session.scope, generation_id, task_id, space, created_at, completed_at, entries)
