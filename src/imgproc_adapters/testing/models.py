"""Scripted models: deterministic, instant, programmable, and honest about every call in a ledger.

Plan answers by ``script.then(...)``: a product, a `Declined` (transient or not), a `Lost`, an exception, or any of
them `Held` until released. Without a plan every call succeeds. For tests, benchmarks and chaos runs.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import Factory, define, field, frozen

from imgproc_adapters.testing.ledger import Ledger, MemoryLedger
from imgproc_adapters.testing.script import Script
from imgproc_adapters.testing.words import gram_vector
from imgproc_domain.attempt import Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, NotStarted
from imgproc_domain.vector import Vector

VISUAL: Final = "visual"
AGENT: Final = "agent"
LOOK_UP: Final = "agent_look_up"
TEXT: Final = "text"
QUERY: Final = "query"

Embedded = Vector | Declined | Lost


NOTHING_KNOWN: Final = Lost(Diagnosis(ErrorCode.AGENT_FAILED, "nothing is known about this attempt"))


@frozen
class ReplyLost:
    """The provider finishes the call, but its reply never arrives: a later look-up can find the answer."""

    lost: Lost
    answer: AgentAnswer


Described = AgentAnswer | Declined | Lost | ReplyLost


def picture_vector(picture: Path, dimension: int) -> Vector:
    """Return a vector that depends on the file's name alone: no file is read."""
    stream = hashlib.shake_128(picture.name.encode()).digest(dimension)
    return Vector.unit(byte - 127.5 for byte in stream)


def name_answer(call: AgentCall) -> AgentAnswer:
    """Describe a picture by the name of its file alone."""
    return AgentAnswer(Description(title=f"picture {call.picture.name}", keywords=["picture"]), ContextStatus.READY)


@define(eq=False)
class ScriptedVisualModel:
    """A `VisualModel`; its script answers one picture at a time."""

    space: VectorSpace = Factory(lambda: VectorSpace("scripted-visual-1", 8))
    replay: Replay = Replay.SAFE
    hard_deadline: timedelta = timedelta(seconds=30)
    batch: int = 1
    ledger: Ledger = Factory(MemoryLedger)
    script: Script[Path, Embedded] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.script = Script(lambda picture: picture_vector(picture, self.space.dimension))

    async def embed(self, pictures: Sequence[Path]) -> Sequence[Embedded]:
        return [await self._one(picture) for picture in pictures]

    async def _one(self, picture: Path) -> Embedded:
        self.ledger.note(VISUAL, picture.name, "started")
        try:
            return await self.script.answer(picture)
        finally:
            self.ledger.note(VISUAL, picture.name, "ended")


@define(eq=False)
class ScriptedAgent:
    """An `Agent` that remembers what it finished, as a provider does; ``replay`` says whether it may be asked."""

    fingerprint: str = "scripted-agent-1"
    replay: Replay = Replay.NEVER
    hard_deadline: timedelta = timedelta(seconds=30)
    ledger: Ledger = Factory(MemoryLedger)
    script: Script[AgentCall, Described] = Factory(lambda: Script[AgentCall, Described](name_answer))
    _seen: set[AttemptId] = field(init=False, factory=set)
    _finished: dict[AttemptId, AgentAnswer | Declined] = field(init=False, factory=dict)

    def answered(self, attempt_id: AttemptId) -> bool:
        """Whether the provider came to an end with this attempt, whoever heard of it."""
        return attempt_id in self._finished

    async def describe(self, call: AgentCall) -> AgentAnswer | Declined | Lost:
        self.ledger.note(AGENT, call.attempt_id, "started")
        self._seen.add(call.attempt_id)
        try:
            return self._reply(call, await self.script.answer(call))
        finally:
            self.ledger.note(AGENT, call.attempt_id, "ended")

    async def look_up(self, call: AgentCall) -> AgentAnswer | Declined | NotStarted | Lost:
        self.ledger.note(LOOK_UP, call.attempt_id, "started")
        self.ledger.note(LOOK_UP, call.attempt_id, "ended")
        if self.replay is not Replay.LOOKUP:
            return NOTHING_KNOWN
        if call.attempt_id not in self._seen:
            return NotStarted()
        return self._finished.get(call.attempt_id, NOTHING_KNOWN)

    def _reply(self, call: AgentCall, answer: Described) -> AgentAnswer | Declined | Lost:
        match answer:
            case ReplyLost(lost, finished):
                self._finished[call.attempt_id] = finished
                return lost
            case Lost():
                return answer
            case AgentAnswer() | Declined():
                self._finished[call.attempt_id] = answer
                return answer


@define(eq=False)
class ScriptedTextModel:
    """A `TextModel` over character bigrams: texts that share words are near each other, in any language."""

    space: VectorSpace = Factory(lambda: VectorSpace("scripted-text-1", 64))
    replay: Replay = Replay.SAFE
    hard_deadline: timedelta = timedelta(seconds=30)
    batch: int = 1
    ledger: Ledger = Factory(MemoryLedger)
    script: Script[str, Embedded] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.script = Script(lambda text: gram_vector(text, self.space.dimension))

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Embedded]:
        return [await self._one(TEXT, text) for text in texts]

    async def embed_query(self, text: str) -> Embedded:
        return await self._one(QUERY, text)

    async def _one(self, kind: str, text: str) -> Embedded:
        self.ledger.note(kind, text, "started")
        try:
            return await self.script.answer(text)
        finally:
            self.ledger.note(kind, text, "ended")
