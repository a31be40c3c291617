"""The models: each makes something real of a tiny picture and a short text."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from PIL import Image

from imgproc_adapters.models.host import ModelCallFailed
from imgproc_adapters.models.local import LocalModels, LocalTextModel
from imgproc_app.cli.problems import in_words
from imgproc_app.doctor.check import Check, failed, ok
from imgproc_app.lifecycle import local_models
from imgproc_app.settings import Settings, names_in
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import ImgprocError
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.vector import Vector

_FIX: Final = "pip install 'imgproc[local]', or see the message"
_NAMES: Final = ("decoder", "visual model", "agent", "text model")

_Trial = Callable[[str], Awaitable[Check]]
"""Makes something, and says what came of it under the name that it is given."""


async def examine_models(settings: Settings) -> AsyncIterator[Check]:
    names = [*_NAMES, *(f"text model {name}" for name in names_in(settings.more_text_models))]
    try:
        models = local_models(settings)
    except (ImportError, OSError, ImgprocError) as error:
        for name in names:
            yield failed(name, in_words(error), _FIX)
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "check.png"
            Image.new("RGB", (64, 48), (200, 120, 40)).save(picture)
            for name, trial in zip(names, _trials(models, picture), strict=True):
                yield await _tried(name, trial)
    finally:
        await models.close()


def _trials(models: LocalModels, picture: Path) -> tuple[_Trial, ...]:
    async def decoder(name: str) -> Check:
        info = await models.decoder.probe(picture)
        return ok(name, f"reads {info.media_type}")

    async def visual(name: str) -> Check:
        (answer,) = await models.visual.embed([picture])
        return _of_vector(name, answer, models.visual.space)

    async def agent(name: str) -> Check:
        call = AgentCall(AttemptId("check"), "check", "check", picture, ReverseImagePolicy.FORBID)
        answer = await models.agent.describe(call)
        if isinstance(answer, AgentAnswer):
            return ok(name, models.agent.fingerprint)
        return failed(name, answer.diagnosis.message, _FIX)

    texts = (_text_trial(model) for model in (models.text, *models.more_text))
    return decoder, visual, agent, *texts


def _text_trial(model: LocalTextModel) -> _Trial:
    async def trial(name: str) -> Check:
        return _of_vector(name, await model.embed_query("a cat · 一只猫"), model.space)

    return trial


async def _tried(name: str, trial: _Trial) -> Check:
    try:
        return await trial(name)
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
