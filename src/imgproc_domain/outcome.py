"""How an execution ended. A closed sum type: match it exhaustively."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.policy import Denied
from imgproc_domain.product import Product, TextProduct


@frozen
class Succeeded:
    """The work is done. ``product`` is None for maintenance tasks, which write their own rows.

    ``beside`` are vectors of the same picture and words in further spaces: worth keeping where ``product`` is kept.
    """

    product: Product | None
    beside: tuple[TextProduct, ...] = ()


@frozen
class Retry:
    """A definite, transient answer (rate limit, overload): the same task is tried again, later."""

    diagnosis: Diagnosis
    retry_after: timedelta | None = None


@frozen
class Failed:
    """A definite, permanent answer: trying again would end the same way."""

    diagnosis: Diagnosis


@frozen
class AlreadyValid:
    """The stage's product became valid by other means before a call was made: none is needed any more."""

    diagnosis: Diagnosis


@frozen
class Unknown:
    """An external call may have been made and its outcome cannot be proven: never replayed (I9).

    ``in_flight``: the call was made under this very claim and may still be running, so that its slot stays taken.
    """

    diagnosis: Diagnosis
    in_flight: bool = True


@frozen
class GivenBack:
    """The worker stopped before it started the call, or its call is a pure local one: somebody else may take over."""

    diagnosis: Diagnosis


@frozen
class Postponed:
    """A look-up proved nothing, and the call it asked about may still begin or end: ask again ``until`` it cannot."""

    diagnosis: Diagnosis
    until: datetime


@frozen
class Blocked:
    """The operation policy took its permission back before the call: the stage is blocked, as after a denial."""

    denied: Denied


Outcome = Succeeded | AlreadyValid | Retry | Failed | Unknown | GivenBack | Postponed | Blocked


class Kind(StrEnum):
    """An outcome's name where only that much is kept of it."""

    SUCCEEDED = "succeeded"
    ALREADY_VALID = "already_valid"
    RETRY = "retry"
    FAILED = "failed"
    UNKNOWN = "unknown"
    GIVEN_BACK = "given_back"
    POSTPONED = "postponed"
    BLOCKED = "blocked"


def kind_of(outcome: Outcome) -> Kind:
    match outcome:
        case Succeeded():
            return Kind.SUCCEEDED
        case AlreadyValid():
            return Kind.ALREADY_VALID
        case Retry():
            return Kind.RETRY
        case Failed():
            return Kind.FAILED
        case Unknown():
            return Kind.UNKNOWN
        case GivenBack():
            return Kind.GIVEN_BACK
        case Postponed():
            return Kind.POSTPONED
        case Blocked():
            return Kind.BLOCKED
        case _:
            assert_never(outcome)


def diagnosis_of(outcome: Outcome) -> Diagnosis | None:
    """Return what an outcome says went wrong; None where nothing did."""
    match outcome:
        case Succeeded():
            return None
        case Blocked(denied):
            return denied.diagnosis
        case _:
            return outcome.diagnosis
