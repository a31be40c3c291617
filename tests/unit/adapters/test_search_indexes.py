"""Which scopes should have an index, how much memory it is built in, and what is remembered for some seconds."""

import pytest

from imgproc_adapters.postgres.lately import Lately
from imgproc_adapters.postgres.search_indexes import Candidate, Index, Todo, todo
from imgproc_domain.config import VectorSpace
from imgproc_domain.scope import Scope

SPACE = VectorSpace("some-512", 512)
READY = Index("some", ready=True, size=1)
UNFINISHED = Index("some", ready=False, size=1)


def candidate(vectors: int, index: Index | None = None, *, used: bool = True) -> Candidate:
    return Candidate(Scope("some"), SPACE, vectors, used, index)


@pytest.mark.parametrize(
    ("vectors", "index", "used", "wanted"),
    [
        (101, None, True, Todo.BUILD),
        (100, None, True, Todo.NOTHING),
        (101, None, False, Todo.NOTHING),
        (101, READY, True, Todo.NOTHING),
        (50, READY, True, Todo.NOTHING),
        (49, READY, True, Todo.DROP),
        (101, READY, False, Todo.DROP),
        (101, UNFINISHED, True, Todo.REBUILD),
        (100, UNFINISHED, True, Todo.DROP),
        (101, UNFINISHED, False, Todo.DROP),
    ],
)
def test_an_index_is_for_more_than_a_threshold_and_stays_until_half_of_it(
    vectors: int, index: Index | None, used: bool, wanted: Todo
) -> None:
    assert todo(candidate(vectors, index, used=used), 100) is wanted


@pytest.mark.parametrize(("vectors", "least", "most"), [(1, 64, 64), (100_000, 140, 250), (10_000_000, 1024, 1024)])
def test_memory_for_building_follows_the_vectors_within_bounds(vectors: int, least: int, most: int) -> None:
    assert least <= candidate(vectors).memory <= most


def test_what_was_found_out_is_known_for_so_long() -> None:
    now = 100.0
    lately: Lately[str, int] = Lately(lambda: now)
    lately.put("a", 0, 5.0)
    now += 4.9
    assert lately.get("a") == 0
    now += 0.1
    assert lately.get("a") is None
    assert lately.get("b") is None


def test_of_too_many_the_oldest_is_forgotten() -> None:
    lately: Lately[str, int] = Lately(lambda: 0.0, most=2)
    for name in ("a", "b", "a", "c"):
        lately.put(name, 1, 5.0)
    assert [lately.get(name) for name in "abc"] == [1, None, 1]
