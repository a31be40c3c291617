"""What a run does, and the circumstances it does it in."""

from datetime import timedelta
from typing import Final

from attrs import frozen

from imgproc_adapters.postgres.conninfo import Limits as Bounds
from imgproc_domain.lane import LaneLimits
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane
from imgproc_domain.usecases.deployment import Limits

ALLOW_ALL: Final = "allow_all"
QUOTA: Final = "quota"
POLICIES: Final = (ALLOW_ALL, QUOTA)

SCOPES: Final = {Scope("chaos-a"): 20, Scope("chaos-b"): 10, Scope("chaos-c"): 6, Scope("chaos-d"): 1}
"""Scopes, and how their pictures are to each other in number."""

WATCHED: Final = Scope("chaos-d")
"""The smallest scope: all of it is read again and again while the run lasts."""

RATIONED: Final = Scope("chaos-c")
"""Under the quota policy the quota of this scope is too small for its pictures."""

LEASE: Final = timedelta(seconds=2)
AGENT_DEADLINE: Final = timedelta(seconds=3)
"""Longer than the lease, so that the call of a lost worker may still be running when somebody else takes over."""
LOCAL_DEADLINE: Final = timedelta(seconds=1)
AGENT_LANE: Final = 16
"""Calls of the agent at once, over all processes."""

WORKERS: Final = 4
CLOCKS: Final = (0, 3600, -3600)
"""Seconds by which the workers' wall clocks are off, in turn."""

LIMITS: Final = Limits(
    lease=LEASE,
    job_lease=LEASE,
    configuration_lease=timedelta(seconds=30),
    look_again=timedelta(seconds=0.2),
    look_again_at_most=timedelta(seconds=15),
    lanes=LaneLimits(
        {Lane.VISUAL: 16, Lane.AGENT: AGENT_LANE, Lane.TEXT: 16, Lane.MAINTENANCE: 1}, agent_backpressure=150
    ),
    retry=RetryPolicy(base=timedelta(seconds=0.1), longest=timedelta(seconds=1)),
)
BOUNDS: Final = Bounds(connect=5, statement=10.0, idle_in_transaction=3.0, dead_peer=5.0)


@frozen
class Plan:
    """One run. ``jobs`` counts revisions; ``cuts`` are replies to COMMIT that never arrive; ``pace`` is seconds."""

    policy: str
    jobs: int
    kills: int
    stops: int
    restarts: int
    cuts: int
    seed: int
    pace: float = 0.4
    workers: int = WORKERS

    @property
    def partitions(self) -> int:
        """How often a worker is cut off from the database for a while: beside what was asked for."""
        return max(1, self.kills // 15)

    @property
    def naps(self) -> int:
        """How often a worker stands still for less than its lease: beside what was asked for."""
        return max(1, self.stops // 5)
