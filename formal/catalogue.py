"""What `make model` checks: growing bounds of the correct model, wrong variants, and second walls."""

from collections.abc import Mapping
from typing import Final

from attrs import Factory, frozen

QUIESCENCE: Final = "quiescence"


@frozen
class Bound:
    """One exhaustive run of the correct model; ``defines`` overrides the bounds of `protocol.pml`."""

    name: str
    defines: Mapping[str, str]
    hash_bits: int = 24


@frozen
class Mutant:
    """A wrong variant, switched on by ``M_name``: checked for the one invariant that it must break."""

    name: str
    breaks: str
    wrong: str
    defines: Mapping[str, str] = Factory(dict)


@frozen
class Wall:
    """A check that another one repeats, switched off by ``W_name``: nothing may break."""

    name: str
    left_out: str


_TWO_SLOTS: Final = {"LANE": "2"}
_TWO_ACTS: Final = {"ACTS": "2", "FAULTS": "0", "FAILURES": "1"}
_LOST_TWICE: Final = {"FAULTS": "2", "LOSSES": "1"}
_LOOKUP: Final = {"LANE": "2", "REPLAY": "1"}

BOUNDS: Final = (
    Bound("one picture, no people, 3 faults", {"ACTS": "0", "FAULTS": "3", "LOSSES": "3"}),
    Bound("two pictures, one slot", {"MEMES": "2", "ACTS": "0", "FAULTS": "1"}),
    Bound("two pictures, two slots", {"MEMES": "2", "ACTS": "0", "FAULTS": "1", "LANE": "2"}),
    Bound("a person acts", {"FAULTS": "1"}),
    Bound("a person acts, look-up", {"FAULTS": "1", **_LOOKUP}),
    Bound("a person acts, safe", {"FAULTS": "1", "LANE": "2", "REPLAY": "2"}),
    Bound("a person acts, leases are lost", _LOST_TWICE),
    Bound("two reconcilers", {"FAULTS": "1", "RECONCILERS": "2"}),
    Bound("two faults, look-up", {"FAULTS": "2", **_LOOKUP}, 26),
    Bound("three faults", {"FAULTS": "3"}, 27),
)

MUTANTS: Final = (
    Mutant("UNFENCED_SETTLE", "I4", "settle looks at no claim"),
    Mutant("CHECK_THEN_WRITE", "I4", "settle checks the claim in one transaction and writes in the next"),
    Mutant("EXPIRY_KEEPS_GENERATION", "I4", "expiry does not raise the generation, the only thing the fence compares"),
    Mutant("OWNER_FENCE", "I4", "every fence compares the lease owner, a process, and no generation"),
    Mutant("SETTLE_WITHOUT_ATTEMPT", "I4", "settle asks whether the task runs, not by whose claim and attempt"),
    Mutant("RECONCILE_UNFENCED", "I4", "a reconcile decides though its claim on the job is gone", {"RECONCILERS": "2"}),
    Mutant("CLAIM_KEEPS_GENERATION", "I3", "a claim does not raise the generation"),
    Mutant("SPLIT_CLAIM", "I3", "a claim picks its task in one transaction and takes it in the next"),
    Mutant("BUSY_IGNORED", "I2", "a new revision opens its stage beside a live task of the same picture version"),
    Mutant("STALE_PRODUCT", "I5", "settle does not compare the picture's version"),
    Mutant("ATTEMPT_REUSED", "I6", "a recovered claim goes on with an attempt that had started", _TWO_SLOTS),
    Mutant("CLOSURE_RETRIED", "I6", "a lost reply to COMMIT runs call and settle once more"),
    Mutant("NOT_STARTED_TOO_EARLY", "I6", "a look-up's `not started` counts before the hard deadline", _LOOKUP),
    Mutant("START_AFTER_CALL", "I7", "external_started is persisted after the call"),
    Mutant("START_UNCHECKED", "I7", "the row count of external_started is not checked"),
    Mutant("COMMIT_AFTER_CALL", "I7", "the policy's commit comes after the call"),
    Mutant("COMMIT_UNCHECKED", "I7", "the policy's answer to commit is not looked at"),
    Mutant("TASK_BEFORE_GRANT", "I7", "the task is inserted before the policy was asked"),
    Mutant("GRANT_BOUND_LATER", "I7", "task and grant are inserted in two transactions"),
    Mutant("RELEASED_BEFORE_FENCED", "I8", "recovery releases before the claim is fenced", {"LOSSES": "1"}),
    Mutant("UNKNOWN_RELEASED", "I8", "an unknown outcome releases its grant"),
    Mutant("COMMITTED_RELEASED", "I8", "a failed task releases its grant though it was committed"),
    Mutant("RELEASED_KEY_ACQUIRED", "I8", "the policy grants a released key again"),
    Mutant("ACQUIRE_PER_ATTEMPT", "I8", "every attempt asks for a grant, not every logical task"),
    Mutant("UNKNOWN_REPLAYED", "I9", "a lost call that nobody can look up is made again"),
    Mutant("LOST_IS_TRANSIENT", "I9", "a broken connection counts as a transient answer"),
    Mutant("UNDECIDED_EXHAUSTED", "I9", "lost leases end a task whose call may have been made", {"LOSSES": "1"}),
    Mutant("LOST_LOOKUPS_FAIL", "I9", "a call whose look-ups are lost too often counts as failed", _LOST_TWICE),
    Mutant("WAITING_JOB_CALLS_AGAIN", "I9", "a job that waited for a call that became unknown makes it again"),
    Mutant("PUT_BACK_CALLS_AGAIN", "I9", "a picture that is put back opens a job that repeats its unknown call"),
    Mutant("JOB_REVIVED", "I10", "an explicit retry makes the old job active again"),
    Mutant("CLOSED_JOB_SETTLED", "I10", "settle ends the stage of a job that is over"),
    Mutant("SLOT_FREED_AT_EXPIRY", "I18", "the slot is free when the lease has run out"),
    Mutant("SLOT_FREED_ON_UNKNOWN", "I18", "the slot is free when the outcome is unknown"),
    Mutant("START_WITHOUT_SLOT", "I18", "a task is claimed and its call started without a slot"),
    Mutant("CALL_AFTER_DEADLINE", "I18", "a worker that stood still begins its call after the hard deadline"),
    Mutant("RESOLVED_WITHOUT_EVIDENCE", "I18", "an operator frees the slot of a call that may still run", _TWO_ACTS),
    Mutant("NO_TOMBSTONE", QUIESCENCE, "the policy forgets the release of a key it never saw"),
    Mutant("KEY_PER_ASK", QUIESCENCE, "the request key is made anew for every reconcile"),
    Mutant("CLOSE_WITHOUT_RELEASE", QUIESCENCE, "a job that ends unopened releases nothing"),
    Mutant("BLOCK_WITHOUT_RELEASE", QUIESCENCE, "a job blocked for want of an answer releases nothing"),
    Mutant("DENIAL_WITHOUT_RELEASE", QUIESCENCE, "a job that was denied releases nothing", {"RECONCILERS": "2"}),
    Mutant("SPENT_NOT_GIVEN_BACK", QUIESCENCE, "the policy refuses to release what it had committed"),
    Mutant("OUTBOX_IN_MEMORY", QUIESCENCE, "releases are remembered by the process, not by a row"),
    Mutant("SPLIT_SETTLE", QUIESCENCE, "the job's stage ends in a transaction after the task's"),
    Mutant("SPLIT_SLOT", QUIESCENCE, "the slot is taken in a transaction before the claim"),
    Mutant("SLOT_WITHOUT_DEADLINE", QUIESCENCE, "the slot of a lost call waits for no deadline"),
)

WALLS: Final = (
    Wall("NO_ATTEMPT_CHECK", "settle does not compare the attempt: its generation is the task's"),
    Wall("NO_SLOT_CHECK", "start does not look for its slot: a current claim still holds it"),
    Wall("NO_RAISE_AT_EXPIRY", "expiry raises no generation: status and owner fence, the next claim raises it"),
)
