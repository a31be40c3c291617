"""Search in scopes of 100 to 1,000,000 vectors among others: the whole way, beside the best SQL and beside numpy.

Of every query four things are timed in turn, so that all meet the same machine: the use case with a text model that
takes no time, the store inside a transaction, one prepared statement in binary on a connection that does nothing else,
and (of a few queries) a comparison of all vectors in this process.
"""

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import numpy as np
import psycopg
from attrs import asdict, define, evolve, field, frozen

from benchmarks.plan import Plan
from benchmarks.rig import open_rig
from benchmarks.search_data import OTHERS_SIZE, SPACE, Asked, Filled, Library
from benchmarks.search_sql import Effort, Raw, open_raw
from benchmarks.search_truth import Truth, truth_of
from benchmarks.server import Database, fresh_database
from benchmarks.stats import median
from benchmarks.steps import Measured, Steps
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.search_indexes import Building, Candidate, open_builder
from imgproc_adapters.testing.models import ScriptedTextModel
from imgproc_app import event_loop
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import Scope
from imgproc_domain.search import Query, Ranking
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.search import search

TOP: Final = 10
EXACT: Final = "exact"
HNSW: Final = "hnsw"
OURS: Final = "use case"
STORE: Final = "store"
GOOD: Final = 0.98
"""The share of the nearest that a search must find to be compared with."""

_WARM: Final = 5
_LEAST: Final = 40
"""So many queries are asked however long they take: the 95th percentile of fewer is the largest of them."""
_BY_NUMPY: Final = 20
_WITHOUT_AN_INDEX: Final = 1_000
"""Scopes of so many vectors and less are measured without an index alone: nobody would build theirs."""

_INDEXES: Final = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = 'search_vectors'::regclass AND NOT indisunique
"""

Way = Callable[[Asked], Awaitable[list[MemeId]]]


@frozen
class Row:
    """A scope's searches by one plan. Times are milliseconds, ``recall_at_10`` is against `Truth`.

    ``best_sql_p50_ms`` is of the quickest single statement that finds 98 of 100, ``ratio`` is the use case to it.
    ``store_p50_ms`` and ``numpy_p50_ms`` are of the meaning alone, also where words are asked for.
    """

    scope_size: int
    plan: str
    ranking: str
    queries: int
    recall_at_10: float
    p50_ms: float
    p95_ms: float
    store_p50_ms: float
    best_sql_p50_ms: float
    ratio: float
    numpy_p50_ms: float


@define
class Taken:
    """What one way took, in seconds, and found, query by query."""

    seconds: list[float] = field(factory=list)
    found: list[list[MemeId]] = field(factory=list)

    @property
    def p50_ms(self) -> float:
        return median(self.seconds) * 1000

    @property
    def p95_ms(self) -> float:
        return statistics.quantiles(self.seconds, n=20, method="inclusive")[-1] * 1000


@define
class SearchPart:
    """Measures on one database. ``known`` has the first ten of the queries, by scope and ranking, as `Truth` says."""

    database: Database
    plan: Plan
    steps: Steps
    library: Library
    rows: list[Row] = field(factory=list)
    details: dict[str, object] = field(factory=dict)
    known: dict[tuple[Scope, Ranking], list[list[MemeId]]] = field(factory=dict)
    by_numpy: dict[Scope, float] = field(factory=dict)

    async def measure(self) -> None:
        """Fill scopes, measure all without an index, then build indexes and measure the large ones again."""
        begun = time.monotonic()
        filled = self._fill()
        self.details["fill_s"] = time.monotonic() - begun
        self.database.settle()
        asked = self.library.ask(self.plan.queries)
        truth = truth_of(self.library.texts)
        for each in filled:
            self.by_numpy[each.scope] = _by_numpy(each, asked[:_BY_NUMPY])
        async with _deployment(self.database, asked) as deployment, open_raw(self.database.dsn) as raw:
            for each in filled:
                await self._both(deployment, raw, each, EXACT, asked, truth)
        # another deployment, which remembers of no scope that it has no index
        async with _deployment(self.database, asked) as deployment, open_raw(self.database.dsn) as raw:
            for each in filled:
                if len(each.memes) > _WITHOUT_AN_INDEX:
                    with self.steps.step(f"an index for {len(each.memes):,} vectors"):
                        await self._build(each)
                    await self._both(deployment, raw, each, HNSW, asked, truth)

    def _fill(self) -> list[Filled]:
        """Load first, build after: the indexes of vectors and words are made when all rows are there."""
        sizes = [size for size in self.plan.vectors if size <= self.plan.largest]
        with psycopg.connect(self.database.dsn, autocommit=True) as connection:
            made = connection.execute(_INDEXES).fetchall()
            for name, _ in made:
                connection.execute(f"DROP INDEX {name}".encode())
        for number in range(self.plan.others):
            self.library.fill(self.database, Scope(f"other-{number}"), OTHERS_SIZE)
        filled = [self.library.fill(self.database, Scope(f"of-{size}"), size) for size in sizes]
        with psycopg.connect(self.database.dsn, autocommit=True) as connection:
            for _, definition in made:
                connection.execute(definition.encode())
        return filled

    async def _build(self, filled: Filled) -> None:
        count = len(filled.memes)
        candidate = Candidate(filled.scope, SPACE, count, used=True)
        begun = time.monotonic()
        async with open_builder(self.database.dsn) as builder:
            await builder.build(candidate, Building(memory=self.plan.build_mb))
        self.details[f"index_{count}_build_s"] = time.monotonic() - begun
        self.details[f"index_{count}_bytes"] = self.database.scalar(
            "SELECT pg_relation_size(to_regclass(%s))", candidate.name
        )
        self.database.run("CHECKPOINT")

    async def _both(
        self, deployment: Deployment, raw: Raw, filled: Filled, plan: str, asked: Sequence[Asked], truth: Truth
    ) -> None:
        for ranking in Ranking:
            with self.steps.step(f"{len(filled.memes):,} vectors, {plan}, {ranking}"):
                taken = await self._in_turn(_ways(deployment, raw, filled.scope, plan, ranking), asked)
                known = self.known.setdefault((filled.scope, ranking), [])
                behind = asked[len(known) : len(taken[OURS].found)]
                known += [truth.first(filled, each, ranking, TOP) for each in behind]
                self.rows.append(self._row(filled, plan, ranking, taken))

    async def _in_turn(self, ways: Mapping[str, Way], asked: Sequence[Asked]) -> dict[str, Taken]:
        """Ask every query in every way, for about as long as the plan says, but 40 at least; the first few warm up."""
        taken = {name: Taken() for name in ways}
        until = time.monotonic() + self.plan.search_s
        for number, each in enumerate([*asked[-_WARM:], *asked]):
            if number >= _WARM + _LEAST and time.monotonic() > until:
                break
            for name, way in ways.items():
                begun = time.perf_counter()
                found = await way(each)
                if number >= _WARM:
                    taken[name].seconds.append(time.perf_counter() - begun)
                    taken[name].found.append(found)
        return taken

    def _row(self, filled: Filled, plan: str, ranking: Ranking, taken: Mapping[str, Taken]) -> Row:
        known = self.known[filled.scope, ranking]
        recalls = {name: _recall(each.found, known) for name, each in taken.items()}
        statements = {name: each for name, each in taken.items() if name not in {OURS, STORE}}
        good = {name: each for name, each in statements.items() if recalls[name] >= GOOD} or statements
        best = min(each.p50_ms for each in good.values())
        ours = taken[OURS]
        self.details[f"{len(filled.memes)} {plan} {ranking}"] = {
            name: {"p50_ms": each.p50_ms, "p95_ms": each.p95_ms, "recall_at_10": recalls[name]}
            for name, each in taken.items()
        }
        return Row(
            scope_size=len(filled.memes),
            plan=plan,
            ranking=ranking.value,
            queries=len(ours.seconds),
            recall_at_10=recalls[OURS],
            p50_ms=ours.p50_ms,
            p95_ms=ours.p95_ms,
            store_p50_ms=taken[STORE].p50_ms,
            best_sql_p50_ms=best,
            ratio=ours.p50_ms / best,
            numpy_p50_ms=self.by_numpy[filled.scope],
        )


def _ways(deployment: Deployment, raw: Raw, scope: Scope, plan: str, ranking: Ranking) -> dict[str, Way]:
    async def ours(asked: Asked) -> list[MemeId]:
        answer = await search(deployment, scope, Query(asked.text, TOP, ranking=ranking))
        return [hit.meme_id for hit in answer.hits]

    async def store(asked: Asked) -> list[MemeId]:
        async with deployment.uow.begin(scope) as tx:
            return [near.meme_id for near in await tx.search.nearest(SPACE.id, asked.vector, TOP)]

    def statement(effort: Effort) -> Way:
        return lambda asked: raw.find(scope, asked, TOP, ranking, effort)

    statements = {name: statement(effort) for name, effort in raw.names(ranking, by_index=plan == HNSW).items()}
    return {OURS: ours, STORE: store, **statements}


def _recall(found: Sequence[Sequence[MemeId]], truth: Sequence[Sequence[MemeId]]) -> float:
    """Return which share of the true ones was found, over the queries that both know."""
    pairs = list(zip(found, truth, strict=False))
    return sum(len(set(some) & set(true)) for some, true in pairs) / sum(len(true) for _, true in pairs)


def _by_numpy(filled: Filled, asked: Sequence[Asked]) -> float:
    """Return the median of milliseconds in which this process compares all vectors, which it has in memory."""
    seconds = []
    for each in asked:
        query = np.frombuffer(each.vector.data, np.float32)
        begun = time.perf_counter()
        products = filled.vectors @ query
        best = np.argpartition(products, -TOP)[-TOP:]
        best[np.argsort(-products[best])]
        seconds.append(time.perf_counter() - begun)
    return median(seconds) * 1000


@asynccontextmanager
async def _deployment(database: Database, asked: Sequence[Asked]) -> AsyncIterator[Deployment]:
    model = ScriptedTextModel(SPACE)
    vectors = {each.text: each.vector for each in asked}
    model.script.always(vectors.__getitem__)
    async with open_rig(database.dsn) as rig:
        yield evolve(rig.deployment, text=model)


def measure(server: EmbeddedPostgres, plan: Plan) -> Measured:
    steps = Steps("search")
    rows: list[Row] = []
    details: dict[str, object] = {}
    with steps.step("search in large scopes"), fresh_database(server, "search") as database:
        library = Library(min(max(plan.vectors), plan.largest))
        event_loop.run(SearchPart(database, plan, steps, library, rows, details).measure())
    return Measured([asdict(row) for row in rows], details, steps.errors)
