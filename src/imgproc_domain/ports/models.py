"""The three models and the decoder, local or remote. Each says of itself what recovery may assume."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from attrs import frozen

from imgproc_domain.attempt import Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description, Usage
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.ids import AttemptId
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.vector import Vector


@frozen
class Declined:
    """A definite answer that is no product: the call was made and is over, or certainly was not made."""

    diagnosis: Diagnosis
    transient: bool
    retry_after: timedelta | None = None


@frozen
class Lost:
    """Nobody knows whether the call was made, or how it ended."""

    diagnosis: Diagnosis


@frozen
class NotStarted:
    """The provider proves that it never saw the request."""


class VisualModel(Protocol):
    @property
    def space(self) -> VectorSpace: ...
    @property
    def replay(self) -> Replay: ...
    @property
    def hard_deadline(self) -> timedelta:
        """After this no call is in flight any more, whatever happened."""
        ...

    @property
    def batch(self) -> int:
        """How many pictures one call takes at best: 1 if several in one call are no faster than one after the other."""
        ...

    async def embed(self, pictures: Sequence[Path]) -> Sequence[Vector | Declined | Lost]:
        """Return one answer a picture, in order. One bad picture never harms its neighbours.

        The hard deadline is that of the call, however many pictures it has.
        """
        ...


@frozen
class AgentCall:
    """One call: the picture, the frozen policy, and the ids under which its result may later be looked up."""

    attempt_id: AttemptId
    request_id: str
    session_id: str
    picture: Path
    reverse_image_policy: ReverseImagePolicy


@frozen
class AgentAnswer:
    """A parsed and validated description; ``status`` is ``partial`` or ``ready``."""

    description: Description
    status: ContextStatus
    usage: Usage | None = None


class Agent(Protocol):
    @property
    def fingerprint(self) -> str:
        """Name everything that changes what the agent would say: provider, model, prompt and parser versions."""
        ...

    @property
    def replay(self) -> Replay: ...
    @property
    def hard_deadline(self) -> timedelta: ...

    async def describe(self, call: AgentCall) -> AgentAnswer | Declined | Lost:
        """Make exactly one external call, without transport retries, within the hard deadline."""
        ...

    async def look_up(self, call: AgentCall) -> AgentAnswer | Declined | NotStarted | Lost:
        """Ask for the result of exactly this attempt; makes no new call. `Lost` unless ``replay`` is ``lookup``."""
        ...


class TextModel(Protocol):
    @property
    def space(self) -> VectorSpace: ...
    @property
    def replay(self) -> Replay: ...
    @property
    def hard_deadline(self) -> timedelta: ...

    @property
    def batch(self) -> int:
        """How many texts one call takes at best, as `VisualModel.batch`."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector | Declined | Lost]:
        """Return one answer a text, in order. Over-long texts are cut, never refused."""
        ...

    async def embed_query(self, text: str) -> Vector | Declined | Lost: ...


@frozen
class PictureInfo:
    """What the decoder saw: pixels after EXIF orientation, frames 1 for still pictures."""

    media_type: str
    width: int
    height: int
    frames: int


class Decoder(Protocol):
    """Runs where a hostile file cannot harm the service."""

    async def probe(self, path: Path) -> PictureInfo:
        """Identify and decode a file by its content.

        Caps are checked from the header before anything is decoded.

        Raises:
            UnsupportedMedia, ImageCorrupt, ImageTooLarge, TooManyPixels, TooManyFrames.
        """
        ...

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:
        """Return a re-encoded WebP without metadata, at most ``longest_side`` pixels; raises like `probe`."""
        ...
