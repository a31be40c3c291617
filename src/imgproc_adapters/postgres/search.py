"""What may be found now, by meaning and by words."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from attrs import Factory, frozen

from imgproc_adapters.postgres.arrays import Half, Texts, Uuids, cosine_distance
from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.library import USABLE_STATUSES
from imgproc_adapters.postgres.nearest import Nearest
from imgproc_adapters.postgres.rows import description_of
from imgproc_adapters.postgres.search_state import STATE, state_of
from imgproc_adapters.postgres.session import Session, Sql, statement
from imgproc_adapters.postgres.vectors import text_arrays
from imgproc_domain.ids import GenerationId, MemeId
from imgproc_domain.migration import SearchState
from imgproc_domain.product import TextProduct
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage, Neighbour, WordMatch
from imgproc_domain.vector import Vector
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, Field, Words, words_of

# A state that is about to be switched is held by whoever makes something findable, so that a switch which has the
# state sees all of it. In ordinary times nobody waits here. (What is joined must have run, other than a CTE alone.)
_HELD: Final = """
    held AS MATERIALIZED (
        SELECT 1 FROM search_migrations
        WHERE scope_id = %(scope)s AND (filling_space_id IS NOT NULL OR mode = 'backfill') FOR SHARE
    )
"""

# The scope's first vector says what the scope is searched in; any later one finds that said.
_PUBLISH: Final = statement(
    """
    WITH {held}, pinned AS (
        UPDATE search_migrations
        SET serving_space_id = %(serving)s, serving_dimension = %(serving_dimension)s,
            updated_at = statement_timestamp()
        WHERE scope_id = %(scope)s AND serving_space_id IS NULL
    )
    INSERT INTO search_vectors (scope_id, meme_id, image_sha256, metadata_hash, space_id, dimension, embedding, words)
    SELECT %(scope)s, n.meme_id, n.image_sha256, n.metadata_hash, n.space_id, n.dimension, n.embedding,
        n.words::tsvector
    FROM unnest(%(ids)s, %(image_sha256)s, %(metadata_hash)s, %(space_id)s, %(dimension)s, %(embedding)s, %(words)s)
        AS n (meme_id, image_sha256, metadata_hash, space_id, dimension, embedding, words)
    LEFT JOIN held ON true
    ON CONFLICT (scope_id, space_id, meme_id) DO UPDATE
    SET image_sha256 = excluded.image_sha256, metadata_hash = excluded.metadata_hash,
        dimension = excluded.dimension, embedding = excluded.embedding, words = excluded.words
    """,
    held=_HELD,
)

# What I14 says, over the history: the memes are locked, so nothing of it changes before this transaction ends.
_CURRENT: Final = """
    FROM memes m
    JOIN meme_contexts c ON c.scope_id = m.scope_id AND c.meme_id = m.meme_id
    JOIN text_embeddings e ON e.scope_id = m.scope_id AND e.meme_id = m.meme_id
        AND e.image_sha256 = m.image_sha256 AND e.metadata_hash = c.metadata_hash
    WHERE m.scope_id = %(scope)s AND m.meme_id = ANY (%(ids)s) AND c.meme_id = ANY (%(ids)s)
      AND e.meme_id = ANY (%(ids)s) AND m.deleted_at IS NULL AND c.status = ANY (%(usable)s)
"""
_FINDABLE: Final = f"""
    SELECT e.scope_id, e.meme_id, e.image_sha256, e.metadata_hash, e.embedding_model_version AS space_id,
           e.dimension, e.embedding
    {_CURRENT}
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
_DESCRIBED: Final = statement(
    "SELECT DISTINCT ON (m.meme_id) m.meme_id, m.filename, c.description::text {current} ORDER BY m.meme_id",
    current=_CURRENT,
)
_RESTORE: Final = statement(
    """
    WITH {held}
    INSERT INTO search_vectors (scope_id, meme_id, image_sha256, metadata_hash, space_id, dimension, embedding, words)
    SELECT f.*, n.words::tsvector
    FROM ({findable}) f JOIN unnest(%(ids)s, %(words)s) AS n (meme_id, words) ON n.meme_id = f.meme_id
    LEFT JOIN held ON true
    ON CONFLICT (scope_id, space_id, meme_id) DO UPDATE SET words = excluded.words
    WHERE search_vectors.words IS DISTINCT FROM excluded.words
    """,
    held=_HELD,
    findable=_FINDABLE,
)

# Behind each word a position and a letter, which is what tsvector has for weights, and before the next a quote.
_ENDINGS: Final[Mapping[Field, str]] = {
    Field.TITLE: "':1A '",
    Field.VISIBLE_TEXT: "':1B '",
    Field.KEYWORDS: "':1C '",
    Field.FILE_NAME: "':1 '",
}
_WEIGHTS: Final = ", ".join(str(WEIGHTS[field]) for field in reversed(tuple(_ENDINGS)))
_PARTS: Final = 10**SHARE_DIGITS

# ix_search_vectors_words. ts_rank adds up the weights of those of the words that a meme has, each word being in one
# place of one meme, and divides by how many are asked for - and by pi^2/6, which is undone here.
_WORDED: Final = statement(
    """
    WITH found AS (
        SELECT v.meme_id, v.embedding, length(v.words) AS own,
            (ts_rank(ARRAY[{weights}]::real[], v.words, %(words)s::tsquery) * 1.64493406685 * {parts})::int AS share
        FROM search_vectors v
        WHERE v.scope_id = %(scope)s AND v.space_id = %(space)s AND v.dimension = %(dimension)s
          AND v.words IS NOT NULL AND v.words @@ %(enough)s::tsquery
    )
    SELECT meme_id, share, 1 + (embedding <#> %(query)s) FROM found
    WHERE share >= %(least)s
    ORDER BY share DESC, own, meme_id
    LIMIT %(limit)s
    """,
    weights=_WEIGHTS,
    parts=str(_PARTS),
)

# How many rows a scope has is nothing that the planner is told: it may think a big one small, and read all of it for
# words that few have. A row must look dear to it, compared with an entry of an index, for this one statement.
_PREFER_INDEX: Final = statement("SELECT set_config('cpu_tuple_cost', '100', true)")
_PREFER_NOTHING: Final = Sql(b"SET LOCAL cpu_tuple_cost TO DEFAULT")

# pk_search_vectors and ix_memes_live alone
_COVERAGE: Final = statement(
    """
    SELECT (SELECT count(*) FROM search_vectors WHERE scope_id = %(scope)s AND space_id = %(space)s),
           (SELECT count(*) FROM memes WHERE scope_id = %(scope)s AND deleted_at IS NULL)
    """
)
_STATE: Final = statement("SELECT {state} FROM search_migrations s WHERE s.scope_id = %(scope)s", state=STATE)

# All statements behind it see one snapshot. Nothing is written by what that shows: it may be of the past already.
_ONE_MOMENT: Final = Sql(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

# Few rows are counted anew each time. Counting many is done so seldom that it takes about a fiftieth of the time.
_MANY: Final = 10_000
_COUNTED_A_SECOND: Final = 100_000
_LONGEST: Final = 5.0


def as_tsvector(words: Words) -> str:
    """Words are letters and digits: nothing in them needs to be escaped."""
    parts = ((ending, words.by_field[field]) for field, ending in _ENDINGS.items())
    return " ".join([f"'{ending.join(some)}{ending[:-1]}" for ending, some in parts if some])


def any_of(words: Iterable[str]) -> str:
    """Return the tsquery of what has one of these words."""
    return "|".join([f"'{word}'" for word in words])


def enough_of(words: Sequence[str]) -> str:
    """Return a tsquery that whatever has `LEAST_SHARE` of these words fulfils, and little else does.

    Who has one more of the words than there are groups of them has two of one group. So the index passes over what has
    nothing but one common word, of which a large library has very much. Words that stood side by side are in different
    groups: they are often found together.
    """
    fewest = math.ceil(round(LEAST_SHARE * len(words), SHARE_DIGITS))
    if fewest <= 1:
        return any_of(words)
    groups = [words[number :: fewest - 1] for number in range(fewest - 1)]
    pairs = ((group[place - 1], group[place:]) for group in groups for place in range(1, len(group)))
    return "|".join(f"'{word}'&({any_of(others)})" for word, others in pairs)


@frozen
class SearchMemory:
    """What one process knows for some seconds, over all its transactions."""

    nearest: Nearest = Factory(Nearest)
    counts: Lately[tuple[Scope, str | GenerationId], Coverage] = Factory(Lately)

    def keep(self, key: tuple[Scope, str | GenerationId], found: Coverage, rows: int) -> None:
        """Remember what was counted at the price of reading ``rows`` entries of an index, if those are many.

        Nothing is not remembered: the first that can be found is found at once.
        """
        if found.searchable and rows >= _MANY:
            self.counts.put(key, found, min(rows / _COUNTED_A_SECOND, _LONGEST))


class PostgresSearch:
    def __init__(self, session: Session, memory: SearchMemory | None = None) -> None:
        self._session = session
        self._memory = memory if memory is not None else SearchMemory()

    async def publish(self, products: Sequence[TextProduct], words: Mapping[MemeId, Words]) -> None:
        last = {(p.space_id, p.meme_id): p for p in products}.values()
        if last:
            first = products[0]
            await self._session.run(
                _PUBLISH,
                serving=first.space_id,
                serving_dimension=first.vector.dimension,
                words=Texts(as_tsvector(words[p.meme_id]) for p in last),
                **text_arrays(last),
            )

    async def refresh(self, meme_ids: Collection[MemeId]) -> None:
        if not meme_ids:
            return
        ids = Uuids(set(meme_ids))
        await self._session.run(_WITHDRAW, ids=ids, usable=USABLE_STATUSES)
        described = await self._session.rows(_DESCRIBED, ids=ids, usable=USABLE_STATUSES)
        if described:
            words = [as_tsvector(words_of(description_of(stored), filename)) for _, filename, stored in described]
            current = Uuids(meme_id for meme_id, _, _ in described)
            await self._session.run(_RESTORE, ids=current, words=Texts(words), usable=USABLE_STATUSES)

    async def nearest(self, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        return await self._memory.nearest.find(self._session, space_id, vector, limit)

    async def worded(self, space_id: str, vector: Vector, words: Sequence[str], limit: int) -> Sequence[WordMatch]:
        rows = await self._session.rows_between(
            _PREFER_INDEX,
            _WORDED,
            _PREFER_NOTHING,
            space=space_id,
            query=Half.of(vector),
            dimension=vector.dimension,
            words=any_of(words),
            enough=enough_of(words),
            least=round(LEAST_SHARE * _PARTS),
            limit=limit,
        )
        return [WordMatch(meme_id, share / _PARTS, cosine_distance(distance)) for meme_id, share, distance in rows]

    async def coverage(self, space_id: str) -> Coverage:
        key = (self._session.scope, space_id)
        known = self._memory.counts.get(key)
        if known is not None:
            return known
        ((searchable, total),) = await self._session.rows(_COVERAGE, space=space_id)
        found = Coverage(searchable, total)
        self._memory.keep(key, found, searchable + total)
        return found

    async def state(self) -> SearchState:
        (row,) = await self._session.rows(_STATE)
        return state_of(row)

    async def begin_reading(self) -> SearchState:
        found: tuple[int, SearchState] = await self._session.together(self._session.run(_ONE_MOMENT), self.state())
        return found[1]
