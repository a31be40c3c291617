"""How much is measured."""

from collections.abc import Iterable
from typing import Final

from attrs import field, frozen


def _widths(raw: Iterable[int]) -> tuple[int, ...]:
    return tuple(raw)


@frozen
class Plan:
    """Sizes of a run.

    ``jobs`` complete jobs are measured at a time, ``rounds`` times over, the limit (``seconds`` a pgbench run) before
    each; beside ``finished`` or ``queued`` other ones. ``samples`` jobs are submitted to an idle engine, ``singles``
    one a transaction, ``bulk`` many a transaction. Beside a queue at most ``within`` seconds are measured.
    What begins with ``peer`` is that of a peer, ``repeats`` how often the samples go through the models in a round.
    Searched are scopes of so many ``vectors``, none above ``largest``, among ``others`` of 1,000, with ``queries`` each
    or as many as fit into ``search_s`` seconds; indexes are built in ``build_mb`` megabytes.
    """

    jobs: int = 5_000
    rounds: int = 3
    seconds: int = 5
    samples: int = 400
    singles: int = 2_000
    bulk: int = 20_000
    finished: int = 1_000_000
    queued: int = 200_000
    within: float = 60.0
    peer_jobs: int = 1_000
    peer_rounds: int = 2
    peer_samples: int = 200
    peer_concurrency: tuple[int, ...] = field(default=(10, 50), converter=_widths)
    repeats: int = 4
    model_rounds: int = 3
    backlog: int = 100_000
    fairness_rounds: int = 20
    vectors: tuple[int, ...] = field(default=(100, 10_000, 100_000, 1_000_000), converter=_widths)
    largest: int = 1_000_000
    others: int = 50
    queries: int = 300
    search_s: float = 30.0
    build_mb: int = 2_000


FULL: Final = Plan()
QUICK: Final = Plan(
    jobs=300,
    rounds=1,
    seconds=2,
    samples=30,
    singles=50,
    bulk=500,
    finished=3_000,
    queued=1_000,
    within=10.0,
    peer_jobs=100,
    peer_rounds=1,
    peer_samples=10,
    peer_concurrency=(50,),
    repeats=1,
    model_rounds=1,
    backlog=2_000,
    fairness_rounds=2,
    vectors=(100, 2_000, 10_000),
    others=5,
    queries=40,
    search_s=10.0,
    build_mb=256,
)
"""Small enough to see in minutes that everything works; its figures mean nothing."""
