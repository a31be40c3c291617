"""What search is compared with: one prepared statement in binary, on a connection that does nothing else.

Each statement has its scope written into it, so that one plan is made once and serves every query.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from attrs import evolve, frozen
from psycopg import AsyncConnection, sql

from benchmarks.search_data import SPACE, Asked
from imgproc_adapters.postgres.arrays import Half
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.search import any_of, enough_of
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.search import HEAD, Ranking
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, Field, query_words

COVERING: Final = "all compared, covering index"
EFFORTS: Final = (100, 200, 400)
"""How many candidates an approximate index keeps."""

_ROWS: Final = "search_vectors WHERE scope_id = {scope} AND space_id = {space} AND dimension"
_ALL: Final = f"SELECT meme_id, 1 + (embedding <#> %(query)s) AS d FROM {_ROWS} <= 1100 ORDER BY d, meme_id"
_SOME: Final = (
    f"SELECT meme_id, 1 + (embedding <#> %(query)s) AS d FROM {_ROWS} = {{size}}"
    " ORDER BY embedding::halfvec({size}) <#> %(query)s"
)
# The question that `PostgresSearch.worded` asks, and the order that `page` gives: whoever has enough of the words, by
# shares in ten thousandths; equal merits by distance, then by id.
_FUSED: Final = """
    WITH near AS MATERIALIZED ({near} LIMIT {head}),
    meaning AS (SELECT meme_id, d, row_number() OVER (ORDER BY d + 0, meme_id) AS place FROM near),
    word AS (
        SELECT meme_id, d, share / {parts}::float AS share,
            row_number() OVER (ORDER BY share DESC, own, meme_id) AS place
        FROM (
            SELECT meme_id, share, own, 1 + (embedding <#> %(query)s) AS d FROM (
                SELECT meme_id, embedding, length(words) AS own,
                    (ts_rank({weights}, words, %(words)s::tsquery) * 1.64493406685 * {parts})::int AS share
                FROM search_vectors
                WHERE scope_id = {scope} AND space_id = {space} AND dimension = {size}
                  AND words IS NOT NULL AND words @@ %(enough)s::tsquery
            ) found
            WHERE share >= {least}
            ORDER BY share DESC, own, meme_id LIMIT {head}
        ) best
    )
    SELECT meme_id FROM meaning FULL JOIN word USING (meme_id)
    ORDER BY coalesce(1.0 / (60 + meaning.place), 0) + coalesce(word.share / (60 + word.place), 0) DESC,
        coalesce(meaning.d, word.d), meme_id
    LIMIT {limit}
"""


@frozen
class Effort:
    """How many candidates an approximate index keeps, if one is used, and whether rows look dear to the planner.

    They do where words are found: so it takes the index for words, as it might not by itself.
    """

    candidates: int | None = None
    rows_are_dear: bool = False


_NEAR: Final = {COVERING: Effort()} | {f"index, ef {candidates}": Effort(candidates) for candidates in EFFORTS}
_DEAR: Final = {f"{name}, words by theirs": evolve(effort, rows_are_dear=True) for name, effort in _NEAR.items()}


@frozen
class Raw:
    """A connection for each effort."""

    connections: Mapping[Effort, AsyncConnection[Any]]

    def names(self, ranking: Ranking, *, by_index: bool) -> Mapping[str, Effort]:
        """Return what there is to compare with, by name."""
        some = _NEAR if ranking is Ranking.SEMANTIC else {**_NEAR, **_DEAR}
        return {name: effort for name, effort in some.items() if (effort.candidates is not None) == by_index}

    async def find(self, scope: Scope, asked: Asked, limit: int, ranking: Ranking, effort: Effort) -> list[MemeId]:
        near = _SOME if effort.candidates else _ALL
        text = f"{near} LIMIT {{limit}}" if ranking is Ranking.SEMANTIC else _FUSED.replace("{near}", near)
        query = sql.SQL(text).format(
            scope=sql.Literal(scope),
            space=sql.Literal(SPACE.id),
            size=sql.Literal(SPACE.dimension),
            head=sql.Literal(HEAD),
            limit=sql.Literal(limit),
            parts=sql.Literal(10**SHARE_DIGITS),
            least=sql.Literal(round(LEAST_SHARE * 10**SHARE_DIGITS)),
            weights=sql.Literal("{" + ",".join(str(WEIGHTS[field]) for field in reversed(_IN_ORDER)) + "}"),
        )
        values: dict[str, object] = {"query": Half.of(asked.vector)}
        if ranking is Ranking.HYBRID:
            words = query_words(asked.text).words
            values |= {"words": any_of(words), "enough": enough_of(words)}
        rows = await (await self.connections[effort].execute(query, values, prepare=True, binary=True)).fetchall()
        return [row[0] for row in rows]


_IN_ORDER: Final[Sequence[Field]] = (Field.TITLE, Field.VISIBLE_TEXT, Field.KEYWORDS, Field.FILE_NAME)


@asynccontextmanager
async def open_raw(dsn: str) -> AsyncIterator[Raw]:
    efforts = [*_NEAR.values(), *_DEAR.values()]
    engine = open_engine(dsn, pool_size=len(efforts))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        connections: dict[Effort, AsyncConnection[Any]] = {}
        for effort in efforts:
            connection = await stack.enter_async_context(checked_out(engine, autocommit=True))
            if effort.rows_are_dear:
                await connection.execute("SET cpu_tuple_cost = 100")
            if effort.candidates:
                await connection.execute("SET enable_sort = off")
                await connection.execute("SET hnsw.iterative_scan = relaxed_order")
                await connection.execute(f"SET hnsw.ef_search = {effort.candidates}".encode())
            connections[effort] = connection
        yield Raw(connections)
