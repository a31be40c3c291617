"""A record of every external call, kept outside the database, against which recovery is checked."""

import json
import os
import time
from pathlib import Path
from typing import Final, Literal, Protocol

from attrs import asdict, define, field, frozen

_PRIVATE: Final = 0o600

Phase = Literal["started", "ended"]


@frozen
class Call:
    """One end of one call. ``key`` says what was asked: an attempt's id, a file's name, a text. ``at`` is monotonic.

    Where the side that is called is simulated as well, ``outcome`` is how it ends the call, and ``until`` when: both
    are settled as the call starts, whatever becomes of the caller.
    """

    model: str
    key: str
    phase: Phase
    at: float
    process: int
    outcome: str | None = None
    until: float | None = None


class Ledger(Protocol):
    def note(self, model: str, key: str, phase: Phase) -> None: ...
    def calls(self) -> list[Call]: ...


def _call(model: str, key: str, phase: Phase, outcome: str | None = None, until: float | None = None) -> Call:
    return Call(model, key, phase, time.monotonic(), os.getpid(), outcome, until)


@define
class MemoryLedger:
    """A ledger of one process."""

    _calls: list[Call] = field(factory=list)

    def note(self, model: str, key: str, phase: Phase) -> None:
        self._calls.append(_call(model, key, phase))

    def calls(self) -> list[Call]:
        return list(self._calls)


@frozen
class FileLedger:
    """An append-only file of JSON lines, shared by processes; a line is whole also when its writer is killed."""

    path: Path

    def note(self, model: str, key: str, phase: Phase, outcome: str | None = None, until: float | None = None) -> None:
        line = json.dumps(asdict(_call(model, key, phase, outcome, until))) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def calls(self) -> list[Call]:
        return self.since(0)[0]

    def since(self, place: int) -> tuple[list[Call], int]:
        """Return what was noted behind ``place``, 0 being the beginning, and the place to go on from."""
        if not self.path.exists():
            return [], place
        with self.path.open("rb") as file:
            file.seek(place)
            lines = file.read().splitlines(keepends=True)
        # the last one may still be on its way to the disk
        whole = [line for line in lines if line.endswith(b"\n")]
        return [Call(**json.loads(line)) for line in whole], place + sum(map(len, whole))


def started(ledger: Ledger, model: str) -> list[str]:
    """Return what a model was asked, in order; a key that comes twice was called twice."""
    return [call.key for call in ledger.calls() if call.model == model and call.phase == "started"]


def most_in_flight(ledger: Ledger, model: str) -> int:
    """Return how many calls of a model were in flight at once, at most; a call that never ended stays in flight."""
    running = most = 0
    for call in sorted(ledger.calls(), key=lambda call: call.at):
        if call.model == model:
            running += 1 if call.phase == "started" else -1
            most = max(most, running)
    return most
