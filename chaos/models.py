"""Models that succeed, decline, fail, hang and lose replies by the dice, and make the same of the same input always.

So whatever is stored can be made again and compared. Every call is in the ledger before it does anything, together
with what the called side will make of it: a provider goes on when its caller is killed, and can be asked later.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from attrs import Factory, define, field

from chaos.plan import AGENT_DEADLINE, LOCAL_DEADLINE
from imgproc_adapters.testing.ledger import Call, FileLedger
from imgproc_adapters.testing.models import AGENT, LOOK_UP, NOTHING_KNOWN, TEXT, VISUAL, picture_vector
from imgproc_adapters.testing.words import gram_vector
from imgproc_domain.attempt import Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, NotStarted
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.vector import Vector

VISUAL_SPACE: Final = VectorSpace("chaos-visual-1", 8)
TEXT_SPACE: Final = VectorSpace("chaos-text-1", 32)
FINGERPRINT: Final = "chaos-agent-1"

_FOR_EVER: Final = 3600.0


class Fate(StrEnum):
    """How the called side ends a call, decided as it starts."""

    ANSWERED = "answered"
    BUSY = "busy"
    """Declined for now: a definite answer, after which the same task may call again."""
    REFUSED = "refused"
    """Declined for good."""
    REPLY_LOST = "reply_lost"
    """Answered, but the reply is lost on its way."""
    FORGOTTEN = "forgotten"
    """Nobody will ever know how it ended."""
    RAISED = "raised"
    """Answered, but the adapter trips over the reply."""
    HUNG = "hung"
    """It takes longer than any deadline."""


FINISHED: Final = frozenset({Fate.ANSWERED, Fate.REPLY_LOST, Fate.RAISED})
"""What a provider can be asked for later."""

_AGENT_ODDS: Final = {
    Fate.ANSWERED: 900,
    Fate.BUSY: 40,
    Fate.REFUSED: 15,
    Fate.REPLY_LOST: 15,
    Fate.FORGOTTEN: 10,
    Fate.RAISED: 15,
    Fate.HUNG: 5,
}
_LOCAL_ODDS: Final = {Fate.ANSWERED: 970, Fate.BUSY: 12, Fate.REFUSED: 3, Fate.RAISED: 12, Fate.HUNG: 3}


class ReplyUnreadableError(Exception):
    """What an adapter raises that trips over a reply."""


def described(name: str, scope: str, policy: ReverseImagePolicy) -> Description:
    """Return what the agent says of a picture: it depends on the picture, its scope and the job's policy alone."""
    return Description(title=f"picture {name} of {scope}", summary=f"seen under {policy}", keywords=["picture"])


def picture_made(sha256: str) -> Vector:
    return picture_vector(Path(sha256), VISUAL_SPACE.dimension)


def text_made(text: str) -> Vector:
    return gram_vector(text, TEXT_SPACE.dimension)


@define(eq=False)
class Dice:
    _random: random.Random

    def agent(self) -> tuple[Fate, float]:
        return self._throw(_AGENT_ODDS, 0.1)

    def local(self) -> tuple[Fate, float]:
        return self._throw(_LOCAL_ODDS, 0.01)

    def _throw(self, odds: dict[Fate, int], mean: float) -> tuple[Fate, float]:
        (fate,) = self._random.choices(list(odds), list(odds.values()))
        return fate, _FOR_EVER if fate is Fate.HUNG else min(self._random.expovariate(1 / mean), 0.5)


@define(eq=False)
class ChaosAgent:
    """An `Agent` whose provider has a memory: the ledger, which all processes share."""

    replay: Replay
    ledger: FileLedger
    dice: Dice
    fingerprint: str = FINGERPRINT
    hard_deadline: timedelta = AGENT_DEADLINE
    _known: dict[str, Call] = field(init=False, factory=dict)
    _place: int = field(init=False, default=0)

    async def describe(self, call: AgentCall) -> AgentAnswer | Declined | Lost:
        fate, seconds = self.dice.agent()
        self.ledger.note(AGENT, call.attempt_id, "started", fate, time.monotonic() + seconds)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.ledger.note(AGENT, call.attempt_id, "ended", fate)
        if fate is Fate.RAISED:
            raise ReplyUnreadableError
        if fate is Fate.REPLY_LOST:
            return NOTHING_KNOWN
        return _told(fate, call)

    async def look_up(self, call: AgentCall) -> AgentAnswer | Declined | NotStarted | Lost:
        self.ledger.note(LOOK_UP, call.attempt_id, "started")
        if self.replay is not Replay.LOOKUP:
            return NOTHING_KNOWN
        await asyncio.to_thread(self._remember)
        found = self._known.get(call.attempt_id)
        if found is None:
            return NotStarted()
        if found.outcome is None or found.until is None or time.monotonic() < found.until:
            return NOTHING_KNOWN
        return _told(Fate(found.outcome), call)

    def _remember(self) -> None:
        calls, self._place = self.ledger.since(self._place)
        self._known.update({call.key: call for call in calls if call.model == AGENT and call.phase == "started"})


def _told(fate: Fate, call: AgentCall) -> AgentAnswer | Declined | Lost:
    if fate is Fate.BUSY:
        busy = Diagnosis(ErrorCode.AGENT_FAILED, "the provider is busy")
        return Declined(busy, transient=True, retry_after=timedelta(seconds=0.2))
    if fate is Fate.REFUSED:
        return Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "the provider does not describe this"), transient=False)
    if fate in FINISHED:
        said = described(call.picture.name, call.picture.parent.name, call.reverse_image_policy)
        return AgentAnswer(said, ContextStatus.READY)
    return NOTHING_KNOWN


@define(eq=False)
class _LocalModel:
    ledger: FileLedger
    dice: Dice
    replay: Replay = Replay.SAFE
    hard_deadline: timedelta = LOCAL_DEADLINE
    batch: int = 4
    """Most of what is ready finds company: a call that ends badly ends for all of it."""

    async def _made(self, model: str, key: str, code: ErrorCode, vector: Vector) -> Vector | Declined:
        fate, seconds = self.dice.local()
        self.ledger.note(model, key, "started", fate)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.ledger.note(model, key, "ended", fate)
        if fate is Fate.RAISED:
            raise ReplyUnreadableError
        if fate is Fate.ANSWERED:
            return vector
        return Declined(Diagnosis(code, f"the model is {fate}"), transient=fate is Fate.BUSY)


@define(eq=False)
class ChaosVisualModel(_LocalModel):
    space: VectorSpace = Factory(lambda: VISUAL_SPACE)

    async def embed(self, pictures: Sequence[Path]) -> Sequence[Vector | Declined | Lost]:
        return [
            await self._made(VISUAL, f"{p.parent.name}/{p.name}", ErrorCode.VISUAL_FAILED, picture_made(p.name))
            for p in pictures
        ]


@define(eq=False)
class ChaosTextModel(_LocalModel):
    space: VectorSpace = Factory(lambda: TEXT_SPACE)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector | Declined | Lost]:
        return [await self._made(TEXT, t, ErrorCode.EMBEDDING_FAILED, text_made(t)) for t in texts]

    async def embed_query(self, text: str) -> Vector | Declined | Lost:
        return text_made(text)
