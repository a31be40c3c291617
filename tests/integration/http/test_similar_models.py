"""The same with the real decoder and the real visual model, each in its process: what an edit of a sample is."""

import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from benchmarks.edits import EDITS
from PIL import Image
from tests.integration.http.site import FILE_LIMIT, Site, running

from imgproc_adapters.models.local import LocalModels
from imgproc_adapters.models.wire import Setup
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.deployment import Deployment

SAMPLES = Path(__file__).parents[3] / "samples"
LIBRARY = ("macaw.jpg", "astronaut.jpg", "cat-meeting.jpg", "koala-five-minutes.jpg")
OTHER = "mountain-trail.jpg"
PATIENCE = timedelta(minutes=2)
"""A cold model on a busy machine may take longer than people would like to wait."""
USUAL = ("resized to half", "JPEG, quality 30", "WebP, quality 40", "cropped by 5 %", "cropped by 10 %", "watermark")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
async def site(tmp_path: Path, cache: Path) -> AsyncIterator[Site]:
    async with with_models(tmp_path, cache) as (found, _):
        yield found


@asynccontextmanager
async def with_models(root: Path, cache: Path, within: timedelta = PATIENCE) -> AsyncIterator[tuple[Site, LocalModels]]:
    models = LocalModels.create(Setup(str(cache)))

    def changed(deployment: Deployment) -> Deployment:
        limits = evolve(deployment.limits, upload_bytes=16 * FILE_LIMIT, near_within=within, answer_within=PATIENCE)
        return evolve(deployment, decoder=models.decoder, visual=models.visual, limits=limits)

    try:
        async with running(root, changed=changed) as found:
            yield found, models
    finally:
        await models.close()


async def library(site: Site) -> dict[str, str]:
    """Some of the samples, uploaded, with their visual stage done: ids by name."""
    ids = {name: (await site.upload(name, (SAMPLES / name).read_bytes()))["meme_id"] for name in LIBRARY}
    await site.work(TaskType.VISUAL)
    return ids


def edited(name: str, edit: str) -> bytes:
    buffer = io.BytesIO()
    with Image.open(SAMPLES / name) as image:
        EDITS[edit](image.convert("RGB")).save(buffer, "WEBP", quality=80)
    return buffer.getvalue()


async def asked(site: Site, data: bytes) -> Any:
    return await site.alice.post("/search/similar", files={"file": ("any", data, "image/webp")})


async def test_an_edit_of_a_picture_is_its_near_duplicate_and_another_picture_is_not(site: Site) -> None:
    ids = await library(site)
    for name, edit in zip((*LIBRARY, *LIBRARY), USUAL, strict=False):
        (first, *others) = (await asked(site, edited(name, edit))).json()["results"]
        assert (first["meme_id"], first["kind"]) == (ids[name], "near"), (name, edit, first["score"])
        assert {result["kind"] for result in others} == {"similar"}, (name, edit)
        assert max(result["score"] for result in others) < 0.7
    other = await asked(site, (SAMPLES / OTHER).read_bytes())
    assert {result["kind"] for result in other.json()["results"]} == {"similar"}
    exact = await asked(site, (SAMPLES / LIBRARY[0]).read_bytes())
    assert [result["kind"] for result in exact.json()["results"]][:2] == ["exact", "similar"]
    assert site.staged() == []


async def test_an_upload_of_an_edit_names_the_original_and_of_another_picture_names_none(site: Site) -> None:
    ids = await library(site)
    item = await site.upload("again.webp", edited("macaw.jpg", "cropped by 5 %"))
    assert [(found["meme_id"], found["kind"]) for found in item["near_duplicates"]] == [(ids["macaw.jpg"], "near")]
    other = await site.upload(OTHER, (SAMPLES / OTHER).read_bytes())
    assert other["near_duplicates"] == []


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        ((SAMPLES / "macaw.jpg").read_bytes()[:3_000], 422, "image_corrupt"),
        (b"\x89PNG\r\n\x1a\n" + os.urandom(500), 422, "image_corrupt"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "unsupported_media"),
    ],
)
async def test_what_is_no_picture_never_reaches_the_model(site: Site, data: bytes, status: int, code: str) -> None:
    answer = await asked(site, data)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert site.staged() == []


async def test_an_answer_that_is_not_waited_for_does_not_cost_the_model_its_process(
    tmp_path: Path, cache: Path
) -> None:
    async with with_models(tmp_path, cache, timedelta(milliseconds=1)) as (site, models):
        before = await models.visual.host.warm("visual")
        item = await site.upload("macaw.jpg", (SAMPLES / "macaw.jpg").read_bytes())
        assert item["near_duplicates"] is None
        assert await models.visual.host.warm("visual") == before
