"""How an execution ended. A closed sum type: match it exhaustively."""

from datetime import timedelta

from attrs import frozen

from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.policy import Denied
from imgproc_domain.product import Product


@frozen
class Succeeded:
    """The work is done. ``product`` is None for maintenance tasks, which write their own rows."""

    product: Product | None


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
class Blocked:
    """The operation policy took its permission back before the call: the stage is blocked, as after a denial."""

    denied: Denied


Outcome = Succeeded | AlreadyValid | Retry | Failed | Unknown | GivenBack | Blocked
