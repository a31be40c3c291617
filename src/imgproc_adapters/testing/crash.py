"""A process that ends at a chosen point of the protocol: for tests of what recovery makes of it.

Give `Fate` to a deployment as ``passed`` and `FatedUnitOfWork` around its unit of work, in a process of its own.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

from attrs import define, field

from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_adapters.testing.models import AGENT, LOOK_UP, NOTHING_KNOWN, ScriptedAgent, name_answer
from imgproc_domain.attempt import Replay
from imgproc_domain.errors import CommitOutcomeUnknown
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, NotStarted
from imgproc_domain.ports.unit_of_work import Transaction, UnitOfWork
from imgproc_domain.scope import Scope

EXIT_CODE: Final = 137
"""What the shell reports of a process that ``kill -9`` ended."""


class Death(StrEnum):
    """When, behind a point, the process ends."""

    PASSED = "passed"
    """At once."""
    COMMITTING = "committing"
    """In the next transaction: everything is written, and COMMIT is never sent."""
    CALLING = "calling"
    """In the next call of a model, which has begun: see `Fate.during`."""
    REPLY_LOST = "reply_lost"
    """Not at all: the next transaction is committed, but the process never hears of it."""


@define(eq=False)
class Fate:
    """Strikes once, behind the ``nth`` time that ``point`` is passed, and leaves a line in ``told`` when it does.

    Points are those of the protocol (`Point`), and whatever else a test passes.
    """

    point: str
    death: Death
    told: Path
    nth: int = 1
    _left: int = field(init=False)
    _near: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._left = self.nth

    def __call__(self, point: str) -> None:
        if point != self.point:
            return
        self._left -= 1
        self._near = self._left == 0
        if self._near and self.death is Death.PASSED:
            self.end()

    def during(self, death: Death) -> bool:
        """Whether this strikes in what begins now; never says so twice."""
        struck = self._near and self.death is death
        self._near = self._near and not struck
        return struck

    def tell(self) -> None:
        self.told.write_text(f"{self.death} {self.point}\n", encoding="utf-8")

    def end(self) -> NoReturn:
        """End this process as ``kill -9`` would: nothing is flushed, rolled back or closed by it."""
        self.tell()
        os._exit(EXIT_CODE)


class FatedUnitOfWork:
    """One transaction at a time, so that the next one behind a point is always the same one, and meets its fate.

    A point is passed before any other transaction begins.
    """

    def __init__(self, inner: UnitOfWork, fate: Fate) -> None:
        self._inner = FaultyUnitOfWork(inner)
        self._fate = fate
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def begin(self, scope: Scope) -> AsyncIterator[Transaction]:
        async with self._turn:
            doomed = self._fate.during(Death.COMMITTING)
            if self._fate.during(Death.REPLY_LOST):
                self._inner.plan(Fault.REPLY_LOST)
            try:
                async with self._inner.begin(scope) as tx:
                    yield tx
                    if doomed:
                        self._fate.end()
            except CommitOutcomeUnknown:
                self._fate.tell()
                raise


@define(eq=False)
class RememberedAgent(ScriptedAgent):
    """A `ScriptedAgent` whose memory is its ledger: with a `FileLedger` it outlives the process that called."""

    async def look_up(self, call: AgentCall) -> AgentAnswer | Declined | NotStarted | Lost:
        self.ledger.note(LOOK_UP, call.attempt_id, "started")
        known = {made.phase for made in self.ledger.calls() if (made.model, made.key) == (AGENT, call.attempt_id)}
        self.ledger.note(LOOK_UP, call.attempt_id, "ended")
        if self.replay is not Replay.LOOKUP:
            return NOTHING_KNOWN
        if not known:
            return NotStarted()
        return name_answer(call) if "ended" in known else NOTHING_KNOWN
