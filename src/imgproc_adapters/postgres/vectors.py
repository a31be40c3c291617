"""Vectors: the history of what was made, and which of them may be found now."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Half, Halves, Ints, Texts, Uuids
from imgproc_adapters.postgres.library import PostgresContexts
from imgproc_adapters.postgres.session import Session, statement
from imgproc_domain.context import USABLE
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.product import Products, TextProduct, TextStamp, VisualProduct, VisualStamp
from imgproc_domain.search import Neighbour
from imgproc_domain.vector import Vector

_STAMPS: Final = statement(
    """
    SELECT meme_id, image_sha256, NULL, space_id, dimension FROM visual_embeddings
    WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s)
    UNION ALL
    SELECT meme_id, image_sha256, metadata_hash, embedding_model_version, dimension FROM text_embeddings
    WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s)
    """
)
_PUT_VISUAL: Final = statement(
    """
    INSERT INTO visual_embeddings (scope_id, meme_id, image_sha256, space_id, dimension, embedding, created_at)
    SELECT %(scope)s, n.*, statement_timestamp()
    FROM unnest(%(ids)s, %(image_sha256)s, %(space_id)s, %(dimension)s, %(embedding)s) AS n
    ON CONFLICT (scope_id, meme_id, image_sha256, space_id) DO UPDATE
    SET dimension = excluded.dimension, embedding = excluded.embedding, created_at = excluded.created_at
    """
)
_PUT_TEXT: Final = statement(
    """
    INSERT INTO text_embeddings
        (scope_id, meme_id, image_sha256, metadata_hash, embedding_model_version, dimension, embedding, created_at)
    SELECT %(scope)s, n.*, statement_timestamp()
    FROM unnest(%(ids)s, %(image_sha256)s, %(metadata_hash)s, %(space_id)s, %(dimension)s, %(embedding)s)
        AS n
    ON CONFLICT (scope_id, meme_id, image_sha256, metadata_hash, embedding_model_version) DO UPDATE
    SET dimension = excluded.dimension, embedding = excluded.embedding, created_at = excluded.created_at
    """
)
_PUBLISH: Final = statement(
    """
    INSERT INTO search_vectors (scope_id, meme_id, image_sha256, metadata_hash, space_id, dimension, embedding)
    SELECT %(scope)s, n.*
    FROM unnest(%(ids)s, %(image_sha256)s, %(metadata_hash)s, %(space_id)s, %(dimension)s, %(embedding)s)
        AS n
    ON CONFLICT (scope_id, space_id, meme_id) DO UPDATE
    SET image_sha256 = excluded.image_sha256, metadata_hash = excluded.metadata_hash,
        dimension = excluded.dimension, embedding = excluded.embedding
    """
)

# What I14 says, over the history: the memes are locked, so nothing of it changes before this transaction ends.
_FINDABLE: Final = """
    SELECT e.scope_id, e.meme_id, e.image_sha256, e.metadata_hash, e.embedding_model_version AS space_id,
           e.dimension, e.embedding
    FROM memes m
    JOIN meme_contexts c ON c.scope_id = m.scope_id AND c.meme_id = m.meme_id
    JOIN text_embeddings e ON e.scope_id = m.scope_id AND e.meme_id = m.meme_id
        AND e.image_sha256 = m.image_sha256 AND e.metadata_hash = c.metadata_hash
    WHERE m.scope_id = %(scope)s AND m.meme_id = ANY (%(ids)s) AND c.meme_id = ANY (%(ids)s)
      AND e.meme_id = ANY (%(ids)s) AND m.deleted_at IS NULL AND c.status = ANY (%(usable)s)
"""

# pk_search_vectors leads with the space, of which a scope has one or two: they are listed by hopping from one to the
# next, so that a meme's rows are found without an index of their own.
_WITHDRAW: Final = statement(
    """
    WITH RECURSIVE spaces (space_id) AS (
        (SELECT space_id FROM search_vectors WHERE scope_id = %(scope)s ORDER BY space_id LIMIT 1)
        UNION ALL
        SELECT (SELECT v.space_id FROM search_vectors v
                WHERE v.scope_id = %(scope)s AND v.space_id > s.space_id ORDER BY v.space_id LIMIT 1)
        FROM spaces s WHERE s.space_id IS NOT NULL
    ), findable AS MATERIALIZED ({findable})
    DELETE FROM search_vectors v
    WHERE v.scope_id = %(scope)s AND v.space_id = ANY (ARRAY(SELECT space_id FROM spaces))
      AND v.meme_id = ANY (%(ids)s)
      AND NOT EXISTS (
          SELECT FROM findable f
          WHERE f.meme_id = v.meme_id AND f.space_id = v.space_id
            AND f.image_sha256 = v.image_sha256 AND f.metadata_hash = v.metadata_hash
      )
    """,
    findable=_FINDABLE,
)
_RESTORE: Final = statement(
    """
    INSERT INTO search_vectors (scope_id, meme_id, image_sha256, metadata_hash, space_id, dimension, embedding)
    {findable}
    ON CONFLICT (scope_id, space_id, meme_id) DO NOTHING
    """,
    findable=_FINDABLE,
)

# Exact: the sum in the sort key keeps an approximate index, should there ever be one, from answering with a short
# page. Unit vectors, so that the inner product is the cosine; the dimension is a filter, because vectors of two
# dimensions cannot be compared and one misfit must not fail everybody's search.
_NEAREST: Final = statement(
    """
    SELECT meme_id, 1 + (embedding <#> %(query)s) AS distance FROM search_vectors
    WHERE scope_id = %(scope)s AND space_id = %(space)s AND dimension = %(dimension)s
    ORDER BY (embedding <#> %(query)s) + 0, meme_id
    LIMIT %(limit)s
    """
)

# pk_search_vectors alone
_SEARCHABLE: Final = statement(
    "SELECT count(*) FROM search_vectors WHERE scope_id = %(scope)s AND space_id = %(space)s"
)
_STATE: Final = statement("SELECT mode, epoch FROM search_migrations WHERE scope_id = %(scope)s")

_USABLE: Final = Texts(sorted(USABLE))


def _text_arrays(products: Collection[TextProduct]) -> dict[str, object]:
    return {
        "ids": Uuids(p.meme_id for p in products),
        "image_sha256": Texts(p.image_sha256.hex for p in products),
        "metadata_hash": Texts(p.metadata_hash.hex for p in products),
        "space_id": Texts(p.space_id for p in products),
        "dimension": Ints(p.vector.dimension for p in products),
        "embedding": Halves(Half.of(p.vector) for p in products),
    }


class PostgresProducts:
    """Within one statement a row can be written once: of two products with one key the last one given stays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def stamps(self, ids: Collection[MemeId]) -> Mapping[MemeId, Products]:
        if not ids:
            return {}
        visual: dict[MemeId, set[VisualStamp]] = {meme_id: set() for meme_id in ids}
        text: dict[MemeId, set[TextStamp]] = {meme_id: set() for meme_id in ids}
        for meme_id, sha256, metadata_hash, space_id, dimension in await self._session.rows(_STAMPS, ids=Uuids(visual)):
            if metadata_hash is None:
                visual[meme_id].add(VisualStamp(Sha256(sha256), space_id, dimension))
            else:
                text[meme_id].add(TextStamp(Sha256(sha256), Sha256(metadata_hash), space_id, dimension))
        contexts = await PostgresContexts(self._session).get(visual)
        return {key: Products(frozenset(visual[key]), contexts.get(key), frozenset(text[key])) for key in visual}

    async def put_visual(self, products: Sequence[VisualProduct]) -> None:
        last = {(p.meme_id, p.image_sha256, p.space_id): p for p in products}.values()
        if last:
            await self._session.run(
                _PUT_VISUAL,
                ids=Uuids(p.meme_id for p in last),
                image_sha256=Texts(p.image_sha256.hex for p in last),
                space_id=Texts(p.space_id for p in last),
                dimension=Ints(p.vector.dimension for p in last),
                embedding=Halves(Half.of(p.vector) for p in last),
            )

    async def put_text(self, products: Sequence[TextProduct]) -> None:
        last = {(p.meme_id, p.image_sha256, p.metadata_hash, p.space_id): p for p in products}.values()
        if last:
            await self._session.run(_PUT_TEXT, **_text_arrays(last))


class PostgresSearch:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def publish(self, products: Sequence[TextProduct]) -> None:
        last = {(p.space_id, p.meme_id): p for p in products}.values()
        if last:
            await self._session.run(_PUBLISH, **_text_arrays(last))

    async def refresh(self, meme_ids: Collection[MemeId]) -> None:
        if meme_ids:
            ids = Uuids(set(meme_ids))
            await self._session.run(_WITHDRAW, ids=ids, usable=_USABLE)
            await self._session.run(_RESTORE, ids=ids, usable=_USABLE)

    async def nearest(self, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        rows = await self._session.rows(
            _NEAREST, space=space_id, query=Half.of(vector), dimension=vector.dimension, limit=limit
        )
        # rounding may bring the distance of two equal vectors a hair below nothing
        return [Neighbour(meme_id, max(0.0, distance)) for meme_id, distance in rows]

    async def searchable(self, space_id: str) -> int:
        ((count,),) = await self._session.rows(_SEARCHABLE, space=space_id)
        return int(count)

    async def state(self) -> SearchState:
        ((mode, epoch),) = await self._session.rows(_STATE)
        return SearchState(SearchMode(mode), epoch)
