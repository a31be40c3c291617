"""What the judges look at, and what they say."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from chaos.history import Change
from chaos.reading import Reserved
from imgproc_adapters.testing.ledger import Call
from imgproc_adapters.testing.view import View
from imgproc_domain.ids import JobId
from imgproc_domain.scope import Scope


class Kind(StrEnum):
    """The promises, by what breaking one of them is called in the report."""

    LOST = "lost"
    DOUBLE_CALL = "double_calls"
    SILENT_REPLAY = "silent_replays"
    STALE_WRITE = "stale_writes"
    LEAKED_GRANT = "leaked_grants"
    LEAKED_SLOT = "leaked_slots"
    INVARIANT = "broken_invariants"
    """Anything else that must never be seen, by an invariant's number."""


@frozen
class Offence:
    """One broken promise; ``what`` names the rows."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@frozen
class Evidence:
    """Everything that is left of a run, and everything that was written down beside the database.

    ``clock`` is the database's clock minus the monotonic one, in seconds; ``lane`` how many agent calls may be in
    flight. ``promised`` are the jobs that people were told of, ``texts`` every text that may rightly be embedded.
    """

    views: Sequence[View]
    calls: Sequence[Call]
    history: Sequence[Change]
    promised: Mapping[JobId, Scope]
    texts: Collection[str]
    pending: Collection[str]
    reserved: Sequence[Reserved]
    clock: float
    lane: int
    quota: bool
