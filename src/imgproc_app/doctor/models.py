"""The models: each makes something real of a tiny picture and a short text."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from PIL import Image

from imgproc_adapters.models.host import ModelCallFailed
from imgproc_adapters.models.local import LocalModels
from imgproc_app.cli.problems import in_words
from imgproc_app.doctor.check import Check, failed, ok
from imgproc_app.lifecycle import model_setup
from imgproc_app.settings import Settings
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import ImgprocError
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.vector import Vector

_FIX: Final = "pip install 'imgproc[local]', or see the message"
_NAMES: Final = ("decoder", "visual model", "agent", "text model")


async def examine_models(settings: Settings) -> AsyncIterator[Check]:
    try:
        models = LocalModels.create(model_setup(settings))
    except (ImportError, OSError, ImgprocError) as error:
        for name in _NAMES:
            yield failed(name, in_words(error), _FIX)
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "check.png"
            Image.new("RGB", (64, 48), (200, 120, 40)).save(picture)
            for name, trial in zip(_NAMES, _trials(models, picture), strict=True):
                yield await _tried(name, trial)
    finally:
        await models.close()


def _trials(models: LocalModels, picture: Path) -> tuple[Callable[[], Awaitable[Check]], ...]:
    async def decoder() -> Check:
        info = await models.decoder.probe(picture)
        return ok("decoder", f"reads {info.media_type}")

    async def visual() -> Check:
        (answer,) = await models.visual.embed([picture])
        return _of_vector("visual model", answer, models.visual.space)

    async def agent() -> Check:
        call = AgentCall(AttemptId("check"), "check", "check", picture, ReverseImagePolicy.FORBID)
        answer = await models.agent.describe(call)
        if isinstance(answer, AgentAnswer):
            return ok("agent", models.agent.fingerprint)
        return failed("agent", answer.diagnosis.message, _FIX)

    async def text() -> Check:
        return _of_vector("text model", await models.text.embed_query("a cat · 一只猫"), models.text.space)

    return decoder, visual, agent, text


async def _tried(name: str, trial: Callable[[], Awaitable[Check]]) -> Check:
    try:
        return await trial()
    except (ModelCallFailed, ImgprocError, OSError) as error:
        # a process that cannot even be started is the system's word
        return failed(name, in_words(error), _FIX)


def _of_vector(name: str, answer: object, space: VectorSpace) -> Check:
    match answer:
        case Vector(dimension=space.dimension):
            return ok(name, f"{space.dimension} dimensions, {space.id}")
        case Vector():
            return failed(name, f"{answer.dimension} dimensions instead of {space.dimension}", _FIX)
        case _:
            return failed(name, str(getattr(answer, "diagnosis", answer)), _FIX)
