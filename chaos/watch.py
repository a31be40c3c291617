"""Somebody who looks on while the run lasts: the invariants hold at every moment, not only in the end."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
from attrs import define, field

from chaos.evidence import Kind, Offence
from chaos.plan import WATCHED
from chaos.reading import connect, read_view
from imgproc_adapters.postgres import invariants
from imgproc_adapters.testing.invariants import regressions, violations
from imgproc_adapters.testing.view import View
from imgproc_domain.errors import DatabaseUnavailable

log = logging.getLogger(__name__)

_LOOK: Final = 3.0
_CHECK_EVERY: Final = 10
"""Looks after which the whole database is checked."""


@define(eq=False)
class Watch:
    """Reads the smallest scope again and again, and compares each moment with the one before."""

    dsn: Callable[[], str]
    looks: int = 0
    checks: int = 0
    seen: set[str] = field(factory=set)
    _before: View | None = None

    async def run(self) -> None:
        """Look until cancelled; a database that is just being restarted is looked at later."""
        while True:
            await asyncio.sleep(_LOOK)
            with suppress(psycopg.OperationalError, DatabaseUnavailable):
                await asyncio.to_thread(self._look)
                if self.looks % _CHECK_EVERY == 0:
                    await self.check(quiescent=False)

    async def check(self, *, quiescent: bool) -> None:
        """Run the checker that operators have."""
        report = await invariants.check(self.dsn(), quiescent=quiescent)
        self.checks += 1
        self.seen.update(report.lines())

    def _look(self) -> None:
        with connect(self.dsn()) as connection:
            view = read_view(connection, WATCHED)
        self.looks += 1
        self.seen.update(violations(view))
        if self._before is not None:
            self.seen.update(regressions(self._before, view))
        self._before = view

    def offences(self) -> list[Offence]:
        return [Offence(Kind.INVARIANT, sentence) for sentence in sorted(self.seen)]
