"""What recovery makes of a worker that is lost, as data: the tests are made from it, and so is docs/recovery.md."""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import Final

from attrs import frozen

from imgproc_adapters.testing.crash import Death
from imgproc_domain.attempt import AttemptStatus, Replay
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import Stage
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.points import Point

ENDS: Final = (Point.CALL_ENDED, Point.SETTLED)

ORDER: Final[Mapping[Stage, Sequence[Point]]] = {
    # one transaction claims a pure local call and starts it
    Stage.VISUAL: (Point.TASK_CLAIMED, Point.EXTERNAL_STARTED, *ENDS),
    Stage.AGENT: (
        Point.JOB_CLAIMED,
        Point.ACQUIRED,
        Point.STAGE_OPENED,
        Point.TASK_CLAIMED,
        Point.POLICY_COMMITTED,
        Point.GRANT_COMMITTED,
        Point.EXTERNAL_STARTED,
        *ENDS,
    ),
    # the transaction that settles the agent's task has claimed and started it
    Stage.TEXT: ENDS,
}
"""What a job of one picture passes when nothing happens to it, in this order (I7)."""

AT_ONCE: Final[Mapping[Stage, Sequence[Point]]] = {
    **ORDER,
    Stage.AGENT: (Point.EXTERNAL_STARTED, *ENDS),
}
"""The same under a policy that answers at once: what settles the visual task also opens and claims the agent's, and
commits its grant."""


class Reserved(StrEnum):
    """What the policy knows of a key."""

    NOTHING = "nothing"
    RESERVED = "reserved"
    SPENT = "spent"
    RETURNED = "returned"


@frozen
class Rows:
    """What is written of a stage: its task, the task's last attempt, its grant, and the policy's reservation."""

    told: str
    task: TaskStatus | None = None
    attempt: AttemptStatus | None = None
    grant: GrantStatus | None = None
    reserved: Reserved = Reserved.NOTHING
    calls: tuple[str, ...] = ()
    """The phases of its one call that the ledger has."""


_R: Final = TaskStatus.RUNNING


class Left(Enum):
    """What a lost worker can leave of a stage."""

    DUE = Rows("a due job; the policy knows nothing")
    RESERVED = Rows("a reservation without a task", reserved=Reserved.RESERVED)
    QUEUED = Rows("a queued task", TaskStatus.QUEUED, None, GrantStatus.ACQUIRED, Reserved.RESERVED)
    PREPARED = Rows("a prepared attempt", _R, AttemptStatus.PREPARED, GrantStatus.ACQUIRED, Reserved.RESERVED)
    SPENT = Rows(
        "a prepared attempt, whose reservation is spent",
        _R,
        AttemptStatus.PREPARED,
        GrantStatus.ACQUIRED,
        Reserved.SPENT,
    )
    COMMITTED = Rows(
        "an attempt with its committed grant",
        _R,
        AttemptStatus.GRANT_COMMITTED,
        GrantStatus.COMMITTED,
        Reserved.SPENT,
    )
    STARTED = Rows(
        "a started attempt; no call was made",
        _R,
        AttemptStatus.EXTERNAL_STARTED,
        GrantStatus.COMMITTED,
        Reserved.SPENT,
    )
    CALLING = Rows(
        "a started attempt; its call was made and never ended",
        _R,
        AttemptStatus.EXTERNAL_STARTED,
        GrantStatus.COMMITTED,
        Reserved.SPENT,
        ("started",),
    )
    ANSWERED = Rows(
        "a started attempt; its call ended, and nobody heard how",
        _R,
        AttemptStatus.EXTERNAL_STARTED,
        GrantStatus.COMMITTED,
        Reserved.SPENT,
        ("started", "ended"),
    )
    SETTLED = Rows(
        "a settled task",
        TaskStatus.SUCCEEDED,
        AttemptStatus.COMPLETED,
        GrantStatus.COMMITTED,
        Reserved.SPENT,
        ("started", "ended"),
    )


@frozen
class Outcome:
    """What is there in the end, and what it took. ``calls`` names the attempts that were called, each once.

    ``waits``: nobody can decide before the hard deadline of the lost call. ``busy``: how many slots are still taken
    for a lost call when the job is over.
    """

    told: str
    attempts: tuple[AttemptStatus, ...] = (AttemptStatus.COMPLETED,)
    calls: tuple[int, ...] = (1,)
    asked: bool = False
    waits: bool = False
    busy: int = 0
    job: JobStatus = JobStatus.SUCCEEDED


_TWICE: Final = (AttemptStatus.FAILED, AttemptStatus.COMPLETED)
_LOST: Final = (AttemptStatus.UNKNOWN,)
_UNKNOWN: Final = JobStatus.UNKNOWN


class Ending(Enum):
    GOES_ON = Outcome("the same task goes on, with its attempt and grant where it has them: the first call is made")
    DONE = Outcome("nothing: it is done")
    MADE_AGAIN = Outcome("a second attempt makes the first call", _TWICE, (2,), busy=1)
    REPEATED = Outcome("a second attempt repeats the call", _TWICE, (1, 2), busy=1)
    ADOPTED = Outcome("the provider is asked, and its answer adopted", asked=True, busy=1)
    NEVER_SEEN = Outcome(
        "the provider is asked, and has seen nothing until the call's hard deadline: a second attempt makes the"
        " first call",
        _TWICE,
        (2,),
        asked=True,
        waits=True,
    )
    NEVER_ENDED = Outcome(
        "the provider is asked, and has no answer until the call's hard deadline: `unknown_execution`",
        _LOST,
        asked=True,
        waits=True,
        job=_UNKNOWN,
    )
    NEVER_CALLED = Outcome(
        "`unknown_execution`: nobody can prove that no call was made", _LOST, (), busy=1, job=_UNKNOWN
    )
    UNKNOWN = Outcome("`unknown_execution`", _LOST, busy=1, job=_UNKNOWN)


BEFORE: Final = (Left.DUE, Left.RESERVED, Left.QUEUED, Left.PREPARED, Left.SPENT, Left.COMMITTED)
"""Without a call, certainly: recovery is the same whatever the adapter can prove."""

AFTER: Final[Mapping[Left, Mapping[Replay, Ending]]] = {
    Left.STARTED: {
        Replay.SAFE: Ending.MADE_AGAIN,
        Replay.LOOKUP: Ending.NEVER_SEEN,
        Replay.NEVER: Ending.NEVER_CALLED,
    },
    Left.CALLING: {Replay.SAFE: Ending.REPEATED, Replay.LOOKUP: Ending.NEVER_ENDED, Replay.NEVER: Ending.UNKNOWN},
    Left.ANSWERED: {Replay.SAFE: Ending.REPEATED, Replay.LOOKUP: Ending.ADOPTED, Replay.NEVER: Ending.UNKNOWN},
}


def ending(left: Left, replay: Replay) -> Ending:
    """Return what recovery makes of what was left."""
    if left is Left.SETTLED:
        return Ending.DONE
    return Ending.GOES_ON if left in BEFORE else AFTER[left][replay]


P, C, L = Death.PASSED, Death.COMMITTING, Death.REPLY_LOST

LOCAL: Final[Mapping[tuple[Point, Death], Left]] = {
    (Point.TASK_CLAIMED, P): Left.STARTED,
    # the next transaction is the one that settles
    (Point.TASK_CLAIMED, C): Left.ANSWERED,
    (Point.TASK_CLAIMED, L): Left.SETTLED,
    (Point.EXTERNAL_STARTED, P): Left.STARTED,
    (Point.EXTERNAL_STARTED, Death.CALLING): Left.CALLING,
    (Point.EXTERNAL_STARTED, C): Left.ANSWERED,
    (Point.EXTERNAL_STARTED, L): Left.SETTLED,
    (Point.CALL_ENDED, P): Left.ANSWERED,
    (Point.CALL_ENDED, C): Left.ANSWERED,
    (Point.CALL_ENDED, L): Left.SETTLED,
    (Point.SETTLED, P): Left.SETTLED,
}
"""What is left of a visual or text stage."""

AGENT: Final[Mapping[tuple[Point, Death], Left]] = {
    **LOCAL,
    (Point.JOB_CLAIMED, P): Left.DUE,
    # the policy is asked in between
    (Point.JOB_CLAIMED, C): Left.RESERVED,
    (Point.JOB_CLAIMED, L): Left.QUEUED,
    (Point.ACQUIRED, P): Left.RESERVED,
    (Point.ACQUIRED, C): Left.RESERVED,
    (Point.ACQUIRED, L): Left.QUEUED,
    (Point.STAGE_OPENED, P): Left.QUEUED,
    (Point.STAGE_OPENED, C): Left.QUEUED,
    (Point.STAGE_OPENED, L): Left.PREPARED,
    (Point.TASK_CLAIMED, P): Left.PREPARED,
    # the policy is told in between
    (Point.TASK_CLAIMED, C): Left.SPENT,
    (Point.TASK_CLAIMED, L): Left.COMMITTED,
    (Point.POLICY_COMMITTED, P): Left.SPENT,
    (Point.POLICY_COMMITTED, C): Left.SPENT,
    (Point.POLICY_COMMITTED, L): Left.COMMITTED,
    (Point.GRANT_COMMITTED, P): Left.COMMITTED,
    (Point.GRANT_COMMITTED, C): Left.COMMITTED,
    (Point.GRANT_COMMITTED, L): Left.STARTED,
    # the next transaction settles the text stage: see HANDED_OVER
    (Point.SETTLED, C): Left.SETTLED,
    (Point.SETTLED, L): Left.SETTLED,
}
"""What is left of an agent stage."""

HANDED_OVER: Final[Mapping[tuple[Stage, Death], Left]] = {
    # a policy that answers at once commits where the transaction decides
    (Stage.AGENT, P): Left.COMMITTED,
    (Stage.AGENT, C): Left.COMMITTED,
    (Stage.AGENT, L): Left.STARTED,
    (Stage.TEXT, P): Left.STARTED,
    (Stage.TEXT, Death.CALLING): Left.CALLING,
    # the next transaction is the one that settles
    (Stage.TEXT, C): Left.ANSWERED,
    (Stage.TEXT, L): Left.SETTLED,
}
"""What is left of a stage if its worker dies when it has settled the one before and claimed this one with it."""


EXPIRY: Final = ((Point.LEASES_EXPIRED, P), (Point.LEASES_EXPIRED, C), (Point.LEASES_EXPIRED, L))
"""Where a worker dies that takes leases away. It leaves a queued task, or one that is claimed again by nobody."""


@frozen
class Debt:
    """How far the release of an unused grant has come."""

    told: str
    pending: int
    reserved: Reserved


class Owed(Enum):
    """What a worker that dies can leave of a release."""

    NOTED = Debt("the release is in the outbox; it is told", 1, Reserved.RESERVED)
    TOLD = Debt("the policy knows; it is told once more, which changes nothing", 1, Reserved.RETURNED)
    DONE = Debt("nothing: a tombstone stays, and nobody acquires this key again", 0, Reserved.RETURNED)


RELEASES: Final[Mapping[tuple[Point, Death], Owed]] = {
    # the next transaction only reads
    (Point.SETTLED, P): Owed.NOTED,
    (Point.SETTLED, C): Owed.NOTED,
    (Point.SETTLED, L): Owed.NOTED,
    (Point.RELEASE_TOLD, P): Owed.TOLD,
    (Point.RELEASE_TOLD, C): Owed.TOLD,
    (Point.RELEASE_TOLD, L): Owed.DONE,
    (Point.RELEASE_FINISHED, P): Owed.DONE,
}
"""What is left of the release of a grant under which no call was made."""


@frozen
class Given:
    """What becomes of a grant whose picture is deleted after the death; None where there is no grant or task."""

    told: str
    attempt: AttemptStatus | None
    grant: GrantStatus | None
    reserved: Reserved


_BACK: Final = Given("given back", AttemptStatus.FAILED, GrantStatus.RELEASED, Reserved.RETURNED)
_NONE: Final = Given("given back; no task was made", None, None, Reserved.RETURNED)

DELETED: Final[Mapping[Point, Given]] = {
    Point.JOB_CLAIMED: _NONE,
    Point.ACQUIRED: _NONE,
    Point.STAGE_OPENED: _BACK,
    Point.TASK_CLAIMED: _BACK,
    Point.POLICY_COMMITTED: _BACK,
    Point.GRANT_COMMITTED: Given(
        "stays spent: a committed grant is not taken back", AttemptStatus.FAILED, GrantStatus.COMMITTED, Reserved.SPENT
    ),
    Point.EXTERNAL_STARTED: Given(
        "stays spent: a call may have been made", AttemptStatus.UNKNOWN, GrantStatus.UNKNOWN, Reserved.SPENT
    ),
}
"""What becomes of the grant if the picture is deleted after a death at this point; the adapter can prove nothing."""


def nth(stage: Stage, point: Point, order: Mapping[Stage, Sequence[Point]] = ORDER) -> int:
    """Return how many times a job has passed this point when this stage passes it."""
    stages = list(order)
    passed = [each for earlier in stages[: stages.index(stage) + 1] for each in order[earlier]]
    return passed.count(point)
