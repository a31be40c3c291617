"""What a run over many hosts does, and when."""

from datetime import timedelta
from typing import Final

from attrs import frozen

from chaos.plan import LEASE
from imgproc_domain.scope import Scope

DATABASE: Final = "database"
WORKERS: Final = ("host-1", "host-2", "host-3", "host-4")
CUT_OFF: Final = "host-3"
SLOW: Final = "host-4"
HOSTS: Final = (DATABASE, *WORKERS)

SCOPES: Final = tuple(Scope(f"hosts-{number}") for number in range(10))

DELAY: Final = timedelta(milliseconds=50)
JITTER: Final = timedelta(milliseconds=10)
SILENCE: Final = 4 * LEASE
"""How long the host that is cut off stays so."""

WARM: Final = 0.05
SLOW_FROM: Final = 0.3
CUT_FROM: Final = 0.55
"""Shares of the jobs that have ended when throughput begins to count, one host becomes slow, and one is cut off."""


@frozen
class Plan:
    """``jobs`` are spread evenly over `SCOPES`; ``workers`` are processes a host."""

    jobs: int
    workers: int
    seed: int
