"""What a model process can do: each model is loaded when it is first needed."""

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from attrs import define

from imgproc_adapters.agent.describe import Evidence
from imgproc_adapters.agent.ocr import TextReader
from imgproc_adapters.imaging import normalize, probe, thumbnail
from imgproc_adapters.models import wire
from imgproc_adapters.models.wire import Answer, Call, Embedded, Problem, Setup, Task, ThumbnailOrder
from imgproc_adapters.text.encoders import TEXT_MODELS, Encoder, load_encoder
from imgproc_adapters.visual.weights import PACKAGE, weights_file
from imgproc_domain.errors import ImgprocError, PictureRejected
from imgproc_domain.ports.models import PictureInfo

if TYPE_CHECKING:
    from imgproc_adapters.visual.embedder import VisualModel

_TAG_CONFIDENCE: Final = 0.3
_MESSAGE_LENGTH: Final = 300


class PartMissing(ImgprocError):
    """A package, or a feature of the processor, that a model needs is not there."""


@define(slots=False)
class Toolbox:
    """The functions of `wire`, on the models that `setup` chooses."""

    setup: Setup

    @cached_property
    def visual(self) -> "VisualModel":
        # ONNX Runtime is an extra: without it the other parts still work
        from imgproc_adapters.visual.embedder import VisualModel  # noqa: PLC0415 - as said

        weights = weights_file()
        if weights is None:
            raise PartMissing(f"the package {PACKAGE} is not installed; install imgproc[local]")
        return VisualModel(weights, Path(self.setup.cache))

    @cached_property
    def reader(self) -> TextReader:
        return TextReader()

    @cached_property
    def encoder(self) -> Encoder:
        card = TEXT_MODELS[self.setup.text_model]
        if (reason := card.missing()) is not None:
            raise PartMissing(reason)
        return load_encoder(card.name)

    def warm(self, parts: list[wire.Part]) -> int:
        for part in parts:
            match part:
                case "visual":
                    _ = self.visual
                case "reader":
                    _ = self.reader
                case "text":
                    _ = self.encoder
                case "decoder":
                    continue
        return os.getpid()

    def probe(self, path: str) -> PictureInfo:
        return probe(Path(path), self.setup.limits)

    def thumbnail(self, order: ThumbnailOrder) -> bytes:
        return thumbnail(Path(order.path), order.longest_side, self.setup.limits)

    def embed_documents(self, texts: list[str]) -> list[bytes]:
        return [row.tobytes() for row in self.encoder.embed_documents(texts)]

    def embed_query(self, text: str) -> bytes:
        return self.encoder.embed_query(text).tobytes()

    def embed_pictures(self, paths: list[str]) -> list[Embedded]:
        return [self._embed_picture(Path(path)) for path in paths]

    def look(self, path: str) -> Evidence:
        image = normalize(Path(path), limits=self.setup.limits)
        (sight,) = self.visual.see([image])
        return Evidence(self.reader.read(image), sight.tags(_TAG_CONFIDENCE))

    def _embed_picture(self, path: Path) -> Embedded:
        try:
            vector = self.visual.embed([normalize(path, limits=self.setup.limits)])[0]
        except (PictureRejected, OSError) as error:
            return Embedded(problem=problem_of(error))
        return Embedded(vector.tobytes())


def answer(toolbox: Toolbox, call: Call) -> Answer:
    """Runs one call; every failure of it becomes a `Problem`, so that the process lives on."""
    try:
        return Answer(msgspec.msgpack.encode(_run(toolbox, call)))
    except Exception as error:  # noqa: BLE001 - the owner decides what any failure means; this process must go on
        return Answer(problem=problem_of(error))


def problem_of(error: Exception) -> Problem:
    """The failure in bounded words."""
    message = str(error)[:_MESSAGE_LENGTH]
    match error:
        case PictureRejected():
            return Problem("rejected", error.code, error.message)
        case PartMissing() | ImportError():
            return Problem("missing", type(error).__name__, message)
        case _:
            return Problem("failed", type(error).__name__, message)


def _run(toolbox: Toolbox, call: Call) -> object:
    function = dict(_functions(toolbox)).get(call.task)
    if function is None:
        raise ValueError(f"no task named {call.task}")
    return function(call.body)


def _functions(toolbox: Toolbox) -> Iterator[tuple[str, Callable[[bytes], object]]]:
    yield _bound(wire.WARM, toolbox.warm)
    yield _bound(wire.PROBE, toolbox.probe)
    yield _bound(wire.THUMBNAIL, toolbox.thumbnail)
    yield _bound(wire.EMBED_PICTURES, toolbox.embed_pictures)
    yield _bound(wire.LOOK, toolbox.look)
    yield _bound(wire.EMBED_DOCUMENTS, toolbox.embed_documents)
    yield _bound(wire.EMBED_QUERY, toolbox.embed_query)


def _bound(task: Task[wire.A, wire.R], function: Callable[[wire.A], wire.R]) -> tuple[str, Callable[[bytes], object]]:
    return task.name, lambda body: function(msgspec.msgpack.decode(body, type=task.argument))
