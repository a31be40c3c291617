"""The boundaries of the protocol by name: what has just become true for ever, and nothing yet of what follows.

A process may end at any of them. `Deployment.passed` is told; tests end the process there and look at what recovery
makes of it.
"""

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    JOB_CLAIMED = "job_claimed"
    """A due job is claimed; the policy was not asked."""
    ACQUIRED = "acquired"
    """The policy answered; task and grant are not written."""
    STAGE_OPENED = "stage_opened"
    """A reconcile's decision is committed: the task with its grant, a block, or the job's end."""
    TASK_CLAIMED = "task_claimed"
    """Task, lane slot and attempt are taken in one transaction."""
    POLICY_COMMITTED = "policy_committed"
    """The policy spent the reservation; no row of ours says so."""
    GRANT_COMMITTED = "grant_committed"
    """Grant and attempt say that it is spent."""
    EXTERNAL_STARTED = "external_started"
    """From here on a call may have been made."""
    CALL_ENDED = "call_ended"
    """The call's answer is in this process alone."""
    SETTLED = "settled"
    """Outcome, product and the job's next step are committed."""
    LEASES_EXPIRED = "leases_expired"
    """Leases of lost workers are taken away."""
    RELEASE_TOLD = "release_told"
    """The policy knows of a release; the outbox does not know that it does."""
    RELEASE_FINISHED = "release_finished"
    """The outbox row is done: a tombstone."""


Passed = Callable[[Point], None]


def onwards(point: Point) -> None:
    """Go on: what every process does that is not under test."""
