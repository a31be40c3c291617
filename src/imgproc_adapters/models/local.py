"""The ports for pictures and models, served by models on this machine: no key, no connection.

All of them are pure, so a lost attempt is simply repeated (`Replay.SAFE`). What goes wrong in a model process is a
definite answer: by the time it is given, nothing of the call is running any more.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
from attrs import evolve, frozen

from imgproc_adapters.agent.describe import DESCRIBER_VERSION, describe
from imgproc_adapters.agent.ocr import READER
from imgproc_adapters.imaging import NORMALIZATION_VERSION
from imgproc_adapters.models import wire
from imgproc_adapters.models.host import ModelCallFailed, ModelCrashed, ModelHost, ModelProblem, ModelTimedOut
from imgproc_adapters.models.wire import Embedded, Problem
from imgproc_adapters.text.encoders import TEXT_MODELS, TextModelName
from imgproc_adapters.visual.weights import DIMENSION, visual_space_id
from imgproc_domain.attempt import Replay
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import (
    ImageCorrupt,
    ImageTooLarge,
    PictureRejected,
    TooManyFrames,
    TooManyPixels,
    UnsupportedMedia,
)
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, PictureInfo
from imgproc_domain.vector import InvalidVector, Vector

_REJECTIONS: Final[dict[str, type[PictureRejected]]] = {
    kind.code: kind for kind in (UnsupportedMedia, ImageCorrupt, ImageTooLarge, TooManyPixels, TooManyFrames)
}
_DECODE_TIME: Final = timedelta(seconds=60)
_BATCH: Final = 8


@frozen
class LocalDecoder:
    """`Decoder` in a process that a hostile file may kill."""

    host: ModelHost

    async def probe(self, path: Path) -> PictureInfo:
        """As the port says; a file that kills or stalls the decoder is `ImageCorrupt`."""
        try:
            return await self.host.run(wire.PROBE, str(path), _DECODE_TIME)
        except ModelCallFailed as error:
            raise _rejection(error) from error

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:
        """As the port says; WebP."""
        try:
            return await self.host.run(wire.THUMBNAIL, wire.ThumbnailOrder(str(path), longest_side), _DECODE_TIME)
        except ModelCallFailed as error:
            raise _rejection(error) from error


@frozen
class _Failures:
    """How one lane names what its model process could not do."""

    failed: ErrorCode
    missing: ErrorCode
    timed_out: ErrorCode

    def declined(self, error: ModelCallFailed) -> Declined:
        match error:
            case ModelProblem():
                return self.of_problem(error.problem)
            case ModelTimedOut():
                return Declined(Diagnosis(self.timed_out, str(error)), transient=True)
            case _:
                # it may have been this input or a machine short of memory; the attempts are bounded
                return Declined(Diagnosis(self.failed, str(error)), transient=True)

    def of_problem(self, problem: Problem) -> Declined:
        code = self.missing if problem.kind == "missing" else self.failed
        return Declined(Diagnosis(code, f"{problem.code}: {problem.message}"), transient=False)


_VISUAL: Final = _Failures(ErrorCode.VISUAL_FAILED, ErrorCode.VISUAL_MODEL_NOT_CONFIGURED, ErrorCode.VISUAL_FAILED)
_AGENT: Final = _Failures(ErrorCode.AGENT_FAILED, ErrorCode.AGENT_NOT_CONFIGURED, ErrorCode.AGENT_TIMEOUT)
_TEXT: Final = _Failures(ErrorCode.EMBEDDING_FAILED, ErrorCode.EMBEDDING_NOT_CONFIGURED, ErrorCode.EMBEDDING_FAILED)


@frozen
class LocalVisualModel:
    """`VisualModel`: EfficientNet-Lite0 features with a classic descriptor, 768-d."""

    host: ModelHost
    space: VectorSpace
    hard_deadline: timedelta = timedelta(seconds=120)
    replay: Replay = Replay.SAFE
    batch: int = 1

    @classmethod
    def on(cls, host: ModelHost) -> "LocalVisualModel":
        """Reads the weights once for their hash (about 20 ms)."""
        return cls(host, VectorSpace(visual_space_id(), DIMENSION))

    async def embed(self, pictures: Sequence[Path]) -> Sequence[Vector | Declined | Lost]:
        """As the port says. A picture that kills the process costs its neighbours one more call, no more."""
        answers: list[Vector | Declined | Lost] = []
        for start in range(0, len(pictures), _BATCH):
            answers += await self._batch([str(path) for path in pictures[start : start + _BATCH]])
        return answers

    async def _batch(self, paths: list[str]) -> list[Vector | Declined | Lost]:
        try:
            found = await self.host.run(wire.EMBED_PICTURES, paths, self.hard_deadline)
        except ModelCallFailed as error:
            if len(paths) == 1 or _is_missing(error):
                return [_VISUAL.declined(error) for _ in paths]
            return [answer for path in paths for answer in await self._batch([path])]
        return [self._answer(item) for item in found]

    def _answer(self, item: Embedded) -> Vector | Declined:
        if item.problem is not None:
            return _VISUAL.of_problem(item.problem)
        return _vector(item.vector, self.space, ErrorCode.VISUAL_FAILED)


@frozen
class LocalAgent:
    """`Agent` without a language model: what OCR reads and a classifier recognises, always `partial`."""

    host: ModelHost
    fingerprint: str = f"local/{READER}/{DESCRIBER_VERSION}/{NORMALIZATION_VERSION}"
    hard_deadline: timedelta = timedelta(seconds=120)
    replay: Replay = Replay.SAFE

    async def describe(self, call: AgentCall) -> AgentAnswer | Declined | Lost:
        """As the port says. It reaches nothing outside, so the reverse-image policy changes nothing."""
        try:
            evidence = await self.host.run(wire.LOOK, str(call.picture), self.hard_deadline)
        except ModelCallFailed as error:
            return _AGENT.declined(error)
        return AgentAnswer(describe(evidence), ContextStatus.PARTIAL)

    async def look_up(self, call: AgentCall) -> Lost:
        """Nothing is kept under an attempt's ids; the call is simply made again."""
        message = f"the local agent keeps no results, also not of {call.request_id}"
        return Lost(Diagnosis(ErrorCode.UNKNOWN_EXECUTION, message))


@frozen
class LocalTextModel:
    """`TextModel`: one of the bundled multilingual sentence encoders."""

    host: ModelHost
    space: VectorSpace
    hard_deadline: timedelta = timedelta(seconds=120)
    replay: Replay = Replay.SAFE
    batch: int = _BATCH

    @classmethod
    def on(cls, host: ModelHost) -> "LocalTextModel":
        """The model that the host's setup names."""
        card = TEXT_MODELS[host.setup.text_model]
        return cls(host, VectorSpace(card.space_id, card.dimension))

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector | Declined | Lost]:
        """As the port says; small calls, so that a query waits for a few documents at most.

        A text that the model cannot embed costs its neighbours one more call, no more.
        """
        answers: list[Vector | Declined | Lost] = []
        for start in range(0, len(texts), _BATCH):
            answers += await self._batch(list(texts[start : start + _BATCH]))
        return answers

    async def embed_query(self, text: str) -> Vector | Declined | Lost:
        if not text.strip():
            return _blank()
        try:
            data = await self.host.run(wire.EMBED_QUERY, text, self.hard_deadline)
        except ModelCallFailed as error:
            return _TEXT.declined(error)
        return _vector(data, self.space, ErrorCode.EMBEDDING_INVALID)

    async def _batch(self, texts: list[str]) -> list[Vector | Declined | Lost]:
        told = [text for text in texts if text.strip()]
        if not told:
            return [_blank() for _ in texts]
        try:
            found = await self.host.run(wire.EMBED_DOCUMENTS, told, self.hard_deadline)
        except ModelCallFailed as error:
            if len(told) > 1 and isinstance(error, ModelProblem) and not _is_missing(error):
                return [answer for text in texts for answer in await self._batch([text])]
            declined = _TEXT.declined(error)
            return [declined if text.strip() else _blank() for text in texts]
        rows = iter(found)
        return [
            _vector(next(rows), self.space, ErrorCode.EMBEDDING_INVALID) if text.strip() else _blank() for text in texts
        ]


def _is_missing(error: ModelCallFailed) -> bool:
    """Whether it is the model that is not there, whatever it is asked."""
    return isinstance(error, ModelProblem) and error.problem.kind == "missing"


@frozen
class LocalModels:
    """Every local part with the processes behind it, one process a lane and one more for each further text model."""

    decoder: LocalDecoder
    visual: LocalVisualModel
    agent: LocalAgent
    text: LocalTextModel
    more_text: tuple[LocalTextModel, ...] = ()

    @classmethod
    def create(cls, setup: wire.Setup, more_text: Sequence[TextModelName] = ()) -> "LocalModels":
        """Starts nothing yet: processes start with `warm` or with the first call."""
        return cls(
            LocalDecoder(ModelHost(setup)),
            LocalVisualModel.on(ModelHost(setup)),
            LocalAgent(ModelHost(setup)),
            LocalTextModel.on(ModelHost(setup)),
            tuple(LocalTextModel.on(ModelHost(evolve(setup, text_model=name))) for name in more_text),
        )

    async def warm(self) -> None:
        """Starts the processes and loads their models, one after the other to spare small machines.

        Raises:
            ModelCallFailed: a part cannot run here; the message says which package it lacks.
        """
        await self.decoder.host.warm("decoder")
        for model in (self.text, *self.more_text):
            await model.host.warm("text")
        await self.visual.host.warm("visual")
        await self.agent.host.warm("reader", "visual")

    async def close(self) -> None:
        """Ends the processes at once. Idempotent."""
        further = [model.host for model in self.more_text]
        for host in (self.decoder.host, self.visual.host, self.agent.host, self.text.host, *further):
            await host.close()


def _rejection(error: ModelCallFailed) -> Exception:
    match error:
        case ModelProblem(problem=Problem("rejected", code, message)) if code in _REJECTIONS:
            return _REJECTIONS[code](message)
        case ModelTimedOut() | ModelCrashed() | ModelProblem(problem=Problem(code="MemoryError")):
            return ImageCorrupt("the picture cannot be decoded within the limits of time and memory")
        case _:
            return error


def _vector(data: bytes, space: VectorSpace, invalid: ErrorCode) -> Vector | Declined:
    try:
        components = np.frombuffer(data, np.float32).tolist()
        vector = Vector.unit(components)
    except (ValueError, InvalidVector) as error:
        return Declined(Diagnosis(invalid, str(error)), transient=False)
    if vector.dimension != space.dimension:
        message = f"{vector.dimension} components instead of {space.dimension}"
        return Declined(Diagnosis(ErrorCode.EMBEDDING_DIMENSION_MISMATCH, message), transient=False)
    return vector


def _blank() -> Declined:
    return Declined(Diagnosis(ErrorCode.EMBEDDING_INVALID, "a blank text has no vector"), transient=False)
