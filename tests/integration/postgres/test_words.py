"""Words in large tables: found by their index, exactly those that have enough of them, in exactly their order."""

import itertools
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.conftest import cloned

from imgproc_adapters.postgres import search
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.search import PostgresSearch, SearchMemory, any_of, as_tsvector, enough_of
from imgproc_adapters.postgres.session import Session
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.clusters import Clusters, make_findable
from imgproc_adapters.testing.factories import make_context, make_meme, make_text_product, make_words, vector
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.search import Coverage
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, Field, Words, query_words, words_of

SPACE: Final = VectorSpace("words-8", 8)
BIG, SMALL, OTHERS = Scope("words-big"), Scope("words-small"), [Scope(f"words-other-{n}") for n in range(20)]
MANY: Final = 5_000
FEW: Final = 20
OWN: Final = 12
LEXICON: Final = [*(chr(0x4E00 + n) + chr(0x5E00 + n) for n in range(150)), *(f"word{n}" for n in range(150))]
COMMON_FIRST: Final = list(itertools.accumulate(1 / (place + 3) for place in range(len(LEXICON))))
"""As in every language, few words are in most texts, and most words in few."""

BY_INDEX: Final = "Bitmap Index Scan on ix_search_vectors_words"
TYPES: Final = {
    "scope": "text",
    "space": "text",
    "dimension": "int",
    "limit": "bigint",
    "query": "halfvec",
    "words": "tsquery",
    "enough": "tsquery",
    "least": "int",
}


def drawn(count: int, seed: int) -> list[Words]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words = set(draw.choices(LEXICON, cum_weights=COMMON_FIRST, k=OWN))
        by_field: dict[Field, set[str]] = {field: set() for field in Field}
        for word in sorted(words):
            by_field[draw.choice(list(Field))].add(word)
        found.append(Words({field: frozenset(some) for field, some in by_field.items()}))
    return found


ALL: Final = {scope: drawn(count, seed) for seed, (scope, count) in enumerate([(BIG, MANY), (SMALL, FEW)])}


@pytest.fixture(scope="session")
def worded_template(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """A database in which one scope of many has many memes with words."""
    name = f"words_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated_template} STRATEGY file_copy".encode())
        dsn = make_conninfo(postgres_server, dbname=name)
        vectors = Clusters(SPACE.dimension)
        for seed, scope in enumerate(OTHERS):
            make_findable(dsn, scope, SPACE, vectors.vectors(100), drawn(100, 100 + seed))
        for scope, words in ALL.items():
            make_findable(dsn, scope, SPACE, vectors.vectors(len(words)), words)
        with psycopg.connect(dsn, autocommit=True) as inside:
            inside.execute("VACUUM ANALYZE search_vectors")
            inside.execute("VACUUM ANALYZE memes")
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def worded(postgres_server: str, worded_template: str) -> Iterator[str]:
    yield from cloned(postgres_server, worded_template)


@pytest_asyncio.fixture
async def worded_engine(worded: str) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(worded)
    yield engine
    await engine.dispose()


async def ids_of(engine: AsyncEngine, scope: Scope) -> list[MemeId]:
    """Return the memes of a scope in the order they were made in, which is that of their words."""
    async with checked_out(engine) as connection:
        sql = b"SELECT meme_id FROM search_vectors WHERE scope_id = %s ORDER BY meme_id"
        return [MemeId(meme_id) for (meme_id,) in await (await connection.execute(sql, [scope])).fetchall()]


def share(words: Words, asked: Sequence[str]) -> float:
    has = sum(WEIGHTS[field] for field, some in words.by_field.items() for word in asked if word in some)
    return round(has / len(asked), SHARE_DIGITS)


@pytest.mark.parametrize("scope", [BIG, SMALL])
async def test_those_with_enough_words_are_found_in_order_and_nobody_else(
    worded_engine: AsyncEngine, scope: Scope
) -> None:
    ids, draw = await ids_of(worded_engine, scope), random.Random(5)
    for size in (1, 2, 3, 4, 5, 7, 8, 12, 13, 30, 64):
        # some of one text, so that there is something to be found, and some of none
        some = sorted(word for own in ALL[scope][draw.randrange(FEW)].by_field.values() for word in own)
        rest = draw.sample(LEXICON, size)
        asked = list(dict.fromkeys([*some[: size // 2 + 1], *rest]))[:size]
        expected = [
            (share(words, asked), -len(words), -place)
            for place, words in enumerate(ALL[scope])
            if share(words, asked) >= LEAST_SHARE
        ]
        async with checked_out(worded_engine) as connection:
            found = await PostgresSearch(Session(connection, scope)).worded(SPACE.id, vector(1), asked, 100)
        wanted = [(ids[-place], told) for told, _, place in sorted(expected, reverse=True)][:100]
        assert [(match.meme_id, match.share) for match in found] == wanted, asked


@given(st.integers(1, 64), st.data())
def test_whoever_has_enough_of_the_words_fulfils_the_condition(size: int, data: st.DataObject) -> None:
    asked = [f"w{number}" for number in range(size)]
    has = data.draw(st.sets(st.sampled_from(asked)))
    # the condition read as Python: words are what somebody has, or not
    read = enough_of(asked).replace("&", " and ").replace("|", " or ")
    for word in reversed(asked):
        read = read.replace(f"'{word}'", str(word in has))
    if len(has) >= LEAST_SHARE * size:
        assert eval(read)
    if not has:
        assert not eval(read)


async def explain(dsn: str, scope: Scope, asked: Sequence[str], plan: str) -> str:
    values = {
        "scope": scope,
        "space": SPACE.id,
        "dimension": SPACE.dimension,
        "limit": 100,
        "query": f"[{','.join(['1'] + ['0'] * 7)}]",
        "words": any_of(asked),
        "enough": enough_of(asked),
        "least": round(LEAST_SHARE * 10**SHARE_DIGITS),
    }
    sql = search._WORDED.decode()
    for number, name in enumerate(TYPES, start=1):
        sql = sql.replace(f"%({name})s", f"${number}")
    connection: AsyncConnection[tuple[str]]
    async with await AsyncConnection.connect(dsn, options=f"-c plan_cache_mode={plan}") as connection:
        await connection.execute(search._PREFER_INDEX)
        await connection.execute(f"PREPARE worded ({', '.join(TYPES.values())}) AS {sql}".encode())
        literals = ", ".join(f"'{str(values[name]).replace(chr(39), chr(39) * 2)}'" for name in TYPES)
        rows = await (await connection.execute(f"EXPLAIN EXECUTE worded ({literals})".encode())).fetchall()
    return "\n".join(line for (line,) in rows)


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_words_are_found_by_their_index(worded: str, plan: str) -> None:
    for asked in (LEXICON[200:201], LEXICON[100:103], LEXICON[40:52], LEXICON[:64]):
        told = await explain(worded, BIG, asked, plan)
        assert BY_INDEX in told, told
        assert "Seq Scan" not in told, told


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_a_small_scope_reads_no_other_one(worded: str, plan: str) -> None:
    told = await explain(worded, SMALL, LEXICON[:12], plan)
    assert "Seq Scan" not in told, told
    assert "scope_id = " in told


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=4, max_size=4))
def test_every_word_gets_there_as_it_is(postgres_server: str, texts: list[str]) -> None:
    title, visible, keyword, name = texts
    words = words_of(Description(title=title, visible_text=visible, keywords=[keyword]), name)
    every = {word for some in words.by_field.values() for word in some}
    with psycopg.connect(postgres_server) as connection:
        sql = b"SELECT tsvector_to_array(%s::text::tsvector)"
        ((found,),) = connection.execute(sql, [as_tsvector(words)]).fetchall()
        assert set(found) == every
        asked = query_words(" ".join(texts)).words
        if asked and every:
            sql = b"SELECT %s::text::tsvector @@ %s::text::tsquery, %s::text::tsquery IS NOT NULL"
            values = [as_tsvector(words), any_of(sorted(every)), enough_of(asked)]
            assert connection.execute(sql, values).fetchall() == [(True, True)]


async def test_words_that_are_not_known_yet_are_no_words_until_they_are(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(BIG)
    context = make_context(meme)
    async with uow.begin(BIG) as tx:
        await tx.memes.add(meme)
        await tx.contexts.put([context])
        product = make_text_product(meme, context, vector(1), SPACE)
        await tx.products.put_text([product])
        await tx.search.publish([product], make_words((meme, context)))
    with psycopg.connect(direct) as connection:
        connection.execute("UPDATE search_vectors SET words = NULL")
    async with uow.begin(BIG) as tx:
        assert [n.meme_id for n in await tx.search.nearest(SPACE.id, vector(1), 10)] == [meme.meme_id]
        assert await tx.search.worded(SPACE.id, vector(1), ["cat"], 10) == []
        await tx.memes.lock([meme.meme_id])
        await tx.search.refresh([meme.meme_id])
        assert [match.meme_id for match in await tx.search.worded(SPACE.id, vector(1), ["cat"], 10)] == [meme.meme_id]


@define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def counted(engine: AsyncEngine, scope: Scope, memory: SearchMemory) -> Coverage:
    async with checked_out(engine) as connection:
        return await PostgresSearch(Session(connection, scope), memory).coverage(SPACE.id)


async def test_many_are_not_counted_again_at_once_and_few_always_are(worded_engine: AsyncEngine, worded: str) -> None:
    clock = Clock()
    memory = SearchMemory(counts=Lately(clock))
    before = [await counted(worded_engine, scope, memory) for scope in (BIG, SMALL)]
    assert before == [Coverage(MANY, MANY), Coverage(FEW, FEW)]
    with psycopg.connect(worded) as connection:
        for scope in (BIG, SMALL):
            gone = b"""
                DELETE FROM search_vectors WHERE scope_id = %s AND meme_id =
                    (SELECT meme_id FROM search_vectors WHERE scope_id = %s ORDER BY meme_id LIMIT 1)
            """
            connection.execute(gone, [scope, scope])
    assert await counted(worded_engine, SMALL, memory) == Coverage(FEW - 1, FEW)
    assert await counted(worded_engine, BIG, memory) == Coverage(MANY, MANY)
    clock.now = 5.0
    assert await counted(worded_engine, BIG, memory) == Coverage(MANY - 1, MANY)
