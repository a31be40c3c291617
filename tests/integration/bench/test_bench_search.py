"""The part of the benchmarks that searches, at a size that is quick to see."""

import shutil
from collections.abc import Iterator

import pytest
from benchmarks.plan import Plan
from benchmarks.search import EXACT, HNSW, measure

from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_domain.search import Ranking

SMALL = Plan(vectors=(60, 1_100), others=1, queries=8, search_s=60.0, build_mb=64)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    data_dir = tmp_path_factory.mktemp("bench")
    with EmbeddedPostgres(data_dir, durable=False) as running:
        yield running
    shutil.rmtree(data_dir)


def test_scopes_are_searched_without_and_large_ones_with_an_index(server: EmbeddedPostgres) -> None:
    found = measure(server, SMALL)
    assert found.errors == {}
    rows = {(row["scope_size"], row["plan"], row["ranking"]): row for row in found.values}
    wanted = [(60, EXACT), (1_100, EXACT), (1_100, HNSW)]
    assert list(rows) == [(*place, ranking) for place in wanted for ranking in Ranking]
    for (_, plan, _), row in rows.items():
        assert row["queries"] == SMALL.queries
        assert 0 < row["p50_ms"] <= row["p95_ms"]
        assert row["ratio"] == pytest.approx(row["p50_ms"] / row["best_sql_p50_ms"])
        # but for what rounding to half precision makes equal, comparing everything finds the nearest
        assert row["recall_at_10"] >= (0.97 if plan == EXACT else 0.9)
    assert found.details["index_1100_build_s"]


def test_no_scope_is_larger_than_was_asked_for(server: EmbeddedPostgres) -> None:
    found = measure(server, Plan(vectors=(30, 5_000), largest=100, others=0, queries=6, search_s=30.0))
    assert {row["scope_size"] for row in found.values} == {30}
