"""Vectors: the history of what was made."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from imgproc_adapters.postgres.arrays import Half, Halves, Ints, Texts, Uuids
from imgproc_adapters.postgres.library import PostgresContexts
from imgproc_adapters.postgres.session import Session, statement
from imgproc_domain.context import Context
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.ports.library import NOTHING_KNOWN
from imgproc_domain.product import Products, TextProduct, TextStamp, VisualProduct, VisualStamp

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


def text_arrays(products: Collection[TextProduct]) -> dict[str, object]:
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

    async def stamps(
        self, ids: Collection[MemeId], known: Mapping[MemeId, Context | None] = NOTHING_KNOWN
    ) -> Mapping[MemeId, Products]:
        if not ids:
            return {}
        found: dict[MemeId, tuple[list[VisualStamp], list[TextStamp]]] = {meme_id: ([], []) for meme_id in ids}
        session = self._session
        unread = [meme_id for meme_id in found if meme_id not in known]
        rows, contexts = await session.together(
            session.rows(_STAMPS, ids=Uuids(found)), PostgresContexts(session).get(unread)
        )
        for meme_id, sha256, metadata_hash, space_id, dimension in rows:
            visual, text = found[meme_id]
            if metadata_hash is None:
                visual.append(VisualStamp(Sha256(sha256), space_id, dimension))
            else:
                text.append(TextStamp(Sha256(sha256), Sha256(metadata_hash), space_id, dimension))
        return {
            key: Products(frozenset(seen), contexts.get(key) or known.get(key), frozenset(said))
            for key, (seen, said) in found.items()
        }

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
            await self._session.run(_PUT_TEXT, **text_arrays(last))
