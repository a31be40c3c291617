"""Pictures that look alike: asked for by id, by a picture that is sent, and told at the upload."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from PIL import Image, ImageStat
from tests.integration.http.site import ALICE, BOB, FILE_LIMIT, Raw, Site, eventually, form, running

from imgproc_adapters.http import near
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import VISUAL, Embedded, ScriptedVisualModel
from imgproc_adapters.testing.script import Held
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ids import MemeId
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.asking import AT_ONCE, Questions
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.vector import Vector

RED, REDDISH, BLUE = (250, 5, 5), (240, 30, 20), (5, 5, 250)
NOTHING = Vector.unit([1.0] * 8)


def plain(colour: tuple[int, int, int], kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 24), colour).save(buffer, kind)
    return buffer.getvalue()


def colours_of(*shades: float) -> Vector:
    return Vector.unit([*shades, *[0.0] * 5])


def colours(picture: Path) -> Vector:
    """See nothing but the average colour."""
    with Image.open(picture) as image:
        return colours_of(*ImageStat.Stat(image.convert("RGB")).mean)


def model_of(site: Site) -> ScriptedVisualModel:
    model = site.deployment.visual
    assert isinstance(model, ScriptedVisualModel)
    return model


def looking(
    within: float = 30.0, answers_within: float = 30.0, at_once: int = AT_ONCE
) -> Callable[[Deployment], Deployment]:
    """Let the model see colours, and an upload's answer and a question wait so many seconds for it."""

    def changed(deployment: Deployment) -> Deployment:
        assert isinstance(deployment.visual, ScriptedVisualModel)
        deployment.visual.script.always(colours)
        limits = evolve(
            deployment.limits, near_within=timedelta(seconds=within), answer_within=timedelta(seconds=answers_within)
        )
        return evolve(deployment, limits=limits, questions=Questions(at_once))

    return changed


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path / "blobs", changed=looking()) as found:
        yield found


async def library(site: Site) -> dict[str, str]:
    """Three pictures whose visual stage is done: their ids by name."""
    made = {"red": RED, "reddish": REDDISH, "blue": BLUE}
    ids = {name: (await site.upload(f"{name}.png", plain(colour)))["meme_id"] for name, colour in made.items()}
    await site.work(TaskType.VISUAL)
    return ids


async def asked(site: Site, data: bytes, **fields: str) -> Any:
    return await site.alice.post("/search/similar", data=fields, files={"file": ("any.png", data, "image/png")})


async def test_a_picture_of_the_library_is_asked_about_by_its_id(site: Site) -> None:
    ids = await library(site)
    await site.describe(ids["reddish"], "nearly red")
    answer = await site.alice.post("/search/similar", json={"meme_id": ids["red"]})
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert (first["meme_id"], first["kind"], first["title"]) == (ids["reddish"], "near", "nearly red")
    assert (second["meme_id"], second["kind"], second["title"]) == (ids["blue"], "similar", None)
    assert 1.0 > first["score"] > 0.9 > second["score"]
    assert first["filename"] == "reddish.png"
    assert (await site.alice.get(first["media_url"])).content == plain(REDDISH)
    assert (await site.alice.get(first["thumbnail_url"])).status_code == 200


async def test_results_are_limited_in_number_and_by_score(site: Site) -> None:
    ids = await library(site)
    for limited in ({"n_results": 1}, {"min_score": 0.9}):
        answer = await site.alice.post("/search/similar", json={"meme_id": ids["red"], **limited})
        assert [result["meme_id"] for result in answer.json()["results"]] == [ids["reddish"]]
        sent = await asked(site, plain(RED), **{name: str(value) for name, value in limited.items()})
        kinds = [result["kind"] for result in sent.json()["results"]]
        assert kinds == (["exact"] if "n_results" in limited else ["exact", "near"])


async def test_a_picture_that_is_sent_is_compared_and_not_kept(site: Site) -> None:
    ids = await library(site)
    answer = await asked(site, plain(RED, "WEBP"))
    assert answer.status_code == 200
    results = [(result["meme_id"], result["kind"]) for result in answer.json()["results"]]
    assert results == [(ids["red"], "near"), (ids["reddish"], "near"), (ids["blue"], "similar")]
    assert site.staged() == []
    assert len((await site.alice.get("/images")).json()["items"]) == 3
    assert len([path for path in (site.root / "objects").rglob("*") if path.is_file()]) == 3


async def test_a_foreign_picture_answers_exactly_as_one_nobody_has(site: Site) -> None:
    await library(site)
    foreign = (await site.upload("blue.png", plain(BLUE), "bob"))["meme_id"]
    answers = [await site.alice.post("/search/similar", json={"meme_id": it}) for it in (foreign, str(uuid4()))]
    assert [answer.status_code for answer in answers] == [404, 404]
    told = [re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"ID", answer.content) for answer in answers]
    assert told[0] == told[1]
    headers = [{k: v for k, v in a.headers.items() if k not in ("date", "content-length")} for a in answers]
    assert headers[0] == headers[1]


async def test_pictures_of_another_scope_are_never_alike(site: Site) -> None:
    await site.upload("red.png", plain(RED), "bob")
    await site.work(TaskType.VISUAL, BOB)
    item = await site.upload("red.webp", plain(RED, "WEBP"))
    assert (item["status"], item["near_duplicates"]) == ("created", [])
    await site.work(TaskType.VISUAL)
    same = await site.upload("red.png", plain(RED))
    assert [found["meme_id"] for found in same["near_duplicates"]] == [item["meme_id"]]
    assert (await asked(site, plain(RED))).json()["results"][0]["meme_id"] == same["meme_id"]


async def test_deleted_pictures_are_no_results(site: Site) -> None:
    ids = await library(site)
    async with site.deployment.uow.begin(ALICE) as tx:
        meme = (await tx.memes.lock([MemeId(UUID(ids["reddish"]))]))[MemeId(UUID(ids["reddish"]))]
        await tx.memes.save(evolve(meme, deleted_at=await tx.now()))
    answer = await site.alice.post("/search/similar", json={"meme_id": ids["red"]})
    assert [result["meme_id"] for result in answer.json()["results"]] == [ids["blue"]]
    gone = await site.alice.post("/search/similar", json={"meme_id": ids["reddish"]})
    assert (gone.status_code, gone.json()["error"]) == (404, "meme_not_found")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"meme_id": "no id"}, 404, "meme_not_found"),
        ({"meme_id": str(uuid4()), "n_results": 0}, 400, "invalid_query"),
        ({"meme_id": str(uuid4()), "min_score": 1.5}, 400, "invalid_query"),
        ({"meme_id": str(uuid4()), "n_results": "3"}, 422, "validation_error"),
        ({"meme_id": str(uuid4()), "scope_id": "bob"}, 400, "unknown_field"),
        ({}, 422, "validation_error"),
        ({"meme_id": "x" * 70_000}, 413, "payload_too_large"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(site: Site, body: dict[str, object], status: int, code: str) -> None:
    answer = await site.alice.post("/search/similar", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_other_bodies_than_json_and_forms_are_refused(site: Site) -> None:
    answer = await site.alice.post("/search/similar", content=plain(RED), headers={"Content-Type": "image/png"})
    assert (answer.status_code, answer.json()["error"]) == (415, "unsupported_media")


FILE = ("file", "a.png", plain(RED))


@pytest.mark.parametrize(
    ("parts", "status", "code"),
    [
        ([FILE, FILE], 413, "too_many_files"),
        ([("n_results", None, b"3")], 422, "validation_error"),
        ([("file", None, plain(RED))], 422, "validation_error"),
        ([("meme_id", None, b"x"), FILE], 400, "unknown_field"),
        ([("files", "a.png", plain(RED))], 400, "unknown_field"),
        ([("n_results", None, b"three"), FILE], 422, "validation_error"),
        ([("n_results", None, b"101"), FILE], 400, "invalid_query"),
        ([("n_results", None, b"9" * 900), FILE], 400, "invalid_query"),
        ([("min_score", None, b"high"), FILE], 422, "validation_error"),
        ([("min_score", None, b"nan"), FILE], 400, "invalid_query"),
        ([("n_results", None, b"3"), ("n_results", None, b"3"), FILE], 422, "validation_error"),
        ([FILE, ("n_results", None, b"3")], 422, "validation_error"),
    ],
)
async def test_a_form_that_does_not_fit_is_refused(
    site: Site, parts: list[tuple[str, str | None, bytes]], status: int, code: str
) -> None:
    await library(site)
    headers, body = form(*parts)
    answer = await site.alice.post("/search/similar", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert site.staged() == []


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"no picture at all", 415, "unsupported_media"),
        (b"", 415, "unsupported_media"),
        (plain(RED)[:60], 422, "image_corrupt"),
        (b"\x89PNG" + b"x" * FILE_LIMIT, 413, "image_too_large"),
    ],
)
async def test_what_is_no_picture_is_refused_as_at_an_upload(site: Site, data: bytes, status: int, code: str) -> None:
    await library(site)
    answer = await asked(site, data)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    (item,) = (await site.alice.post("/images", files={"files": ("a.png", data, "image/png")})).json()["items"]
    assert item["error"]["message"] == answer.json()["message"]
    assert site.staged() == []


async def test_a_form_that_breaks_off_is_no_question(site: Site) -> None:
    await library(site)
    headers, body = form(FILE)
    answer = await site.alice.post("/search/similar", headers=headers, content=body[:-20])
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    wire = await Raw.to(site)
    head = f"POST /search/similar HTTP/1.1\r\nHost: test\r\nX-Test-Tenant: alice\r\nContent-Length: {len(body)}\r\n"
    await wire.say(f"{head}Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body[:-60])
    await eventually(lambda: len(site.staged()) == 1)
    await wire.hang_up()
    await eventually(lambda: site.staged() == [])


async def test_nothing_can_be_alike_before_anything_was_looked_at(site: Site) -> None:
    await site.upload("red.png", plain(RED))
    answer = await asked(site, plain(BLUE))
    assert (answer.status_code, answer.json()["error"]) == (503, "cache_not_ready")
    assert answer.json()["details"] == {"total": 1}


MISSING = Declined(Diagnosis(ErrorCode.VISUAL_MODEL_NOT_CONFIGURED, "no weights"), transient=False)
TOO_DARK = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "too dark"), transient=False)
TOO_MANY = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "too many"), transient=True, retry_after=timedelta(seconds=6.5))
LOST = Lost(Diagnosis(ErrorCode.VISUAL_FAILED, "the connection broke"))


@pytest.mark.parametrize(
    ("given", "status", "code", "retry_after"),
    [
        (MISSING, 503, "model_not_configured", None),
        (TOO_DARK, 422, "model_declined", None),
        (TOO_MANY, 503, "model_unavailable", "7"),
        (LOST, 503, "model_unavailable", None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_why_the_model_gave_no_answer_is_told(
    site: Site, given: Declined | Lost, status: int, code: str, retry_after: str | None
) -> None:
    await library(site)
    unseen = (await site.upload("green.png", plain((5, 250, 5))))["meme_id"]
    model_of(site).script.then(given, given)
    sent = await asked(site, plain(BLUE, "WEBP"))
    by_id = await site.alice.post("/search/similar", json={"meme_id": unseen})
    for answer in (sent, by_id):
        assert (answer.status_code, answer.json()["error"]) == (status, code)
        assert answer.json()["message"] == given.diagnosis.message
        assert answer.json()["details"] == {"code": given.diagnosis.code.value}
        assert answer.headers.get("Retry-After") == retry_after


async def test_a_model_that_hangs_holds_no_request_and_no_calls_pile_up_before_it(tmp_path: Path) -> None:
    async with running(tmp_path, changed=looking(answers_within=0.05, at_once=2)) as site:
        await library(site)
        unseen = (await site.upload("green.png", plain((5, 250, 5))))["meme_id"]
        model = model_of(site)
        before = len(started(model.ledger, VISUAL))
        hangs: list[Held[Embedded]] = [Held(NOTHING), Held(NOTHING)]
        model.script.then(*hangs)
        for _ in range(3):
            sent = await asked(site, plain(BLUE, "WEBP"))
            by_id = await site.alice.post("/search/similar", json={"meme_id": unseen})
            assert [answer.status_code for answer in (sent, by_id)] == [504, 504]
            assert {answer.json()["error"] for answer in (sent, by_id)} == {"model_timeout"}
            assert site.staged() == []
        assert len(started(model.ledger, VISUAL)) == before + 2
        hangs[0].release()
        assert (await asked(site, plain(BLUE, "WEBP"))).status_code == 200


async def test_no_call_of_the_model_outlives_the_application(tmp_path: Path) -> None:
    async with running(tmp_path, changed=looking(within=0.05)) as site:
        held: Held[Embedded] = Held(NOTHING)
        model = model_of(site)
        model.script.then(held)
        assert (await site.upload("red.png", plain(RED)))["near_duplicates"] is None
        assert [call.phase for call in model.ledger.calls()] == ["started"]
    assert [call.phase for call in model.ledger.calls()] == ["started", "ended"]


async def test_an_upload_tells_what_was_there_before(site: Site) -> None:
    ids = await library(site)
    near_red, green = (250, 10, 5), (5, 250, 5)
    pictures = [plain(near_red), plain(green), plain(RED), plain(green, "WEBP")]
    sent = [("files", ("any", data, "image/png")) for data in pictures]
    items = (await site.alice.post("/images", files=sent)).json()["items"]
    assert [item["status"] for item in items] == ["created", "created", "duplicate", "created"]
    told = [[(found["meme_id"], found["kind"]) for found in item["near_duplicates"]] for item in items]
    assert told == [
        [(ids["red"], "near"), (ids["reddish"], "near")],
        [],
        [(ids["red"], "exact")],
        [(items[1]["meme_id"], "near")],
    ]
    for item in items:
        for found in item["near_duplicates"]:
            assert (await site.alice.get(found["media_url"])).status_code == 200
            assert 0.92 <= found["score"] <= 1.0


async def test_a_file_that_is_rejected_has_no_near_duplicates(site: Site) -> None:
    answer = await site.alice.post("/images", files={"files": ("notes.txt", b"no picture", "text/plain")})
    assert answer.json()["items"][0]["near_duplicates"] is None


async def test_a_picture_is_stored_and_its_job_live_before_anybody_looks_at_it(site: Site) -> None:
    held: Held[Embedded] = Held(NOTHING)
    model_of(site).script.then(held)
    uploading = asyncio.create_task(site.upload("red.png", plain(RED)))
    await held.started.wait()
    (listed,) = (await site.alice.get("/images")).json()["items"]
    assert listed["job"]["status"] in ("queued", "running")
    assert (await site.alice.get(listed["media_url"])).content == plain(RED)
    held.release()
    assert (await uploading)["meme_id"] == listed["meme_id"]


async def test_an_upload_waits_for_near_duplicates_no_longer_than_it_may(tmp_path: Path) -> None:
    async with running(tmp_path, changed=looking(within=0.05)) as site:
        held: Held[Embedded] = Held(NOTHING)
        model_of(site).script.then(held)
        item = await site.upload("red.png", plain(RED))
        assert (item["status"], item["near_duplicates"]) == ("created", None)
        assert started(model_of(site).ledger, VISUAL), "the call had begun"
        assert [call.phase for call in model_of(site).ledger.calls()] == ["started"], "and was not cancelled"
        held.release()
        await eventually(lambda: len(model_of(site).ledger.calls()) == 2)


async def test_pictures_that_were_looked_at_in_time_are_told_also_if_others_were_not(site: Site) -> None:
    ids = await library(site)
    model_of(site).script.then(colours_of(*RED), RuntimeError("a bug of the adapter"))
    sent = [("files", (f"{n}.webp", plain((250, 5, n), "WEBP"), "image/webp")) for n in range(2)]
    answer = await site.alice.post("/images", files=sent)
    assert answer.status_code == 201
    first, second = answer.json()["items"]
    assert ids["red"] in [found["meme_id"] for found in first["near_duplicates"]]
    assert second["near_duplicates"] is None


async def test_a_database_that_does_not_answer_afterwards_fails_no_upload(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise DatabaseUnavailable("the database does not answer")

    def look(picture: Path) -> Vector:
        monkeypatch.setattr(type(site.deployment.uow), "begin", fails)
        return colours(picture)

    model_of(site).script.always(look)
    item = await site.upload("red.png", plain(RED))
    assert (item["status"], item["near_duplicates"]) == ("created", None)
    assert [record.getMessage() for record in caplog.records if record.name == near.__name__] == [
        "near duplicates of an upload remain unknown: DatabaseUnavailable"
    ]


async def test_nobody_looks_where_no_time_is_given(tmp_path: Path) -> None:
    async with running(tmp_path, changed=looking(within=0.0)) as site:
        item = await site.upload("red.png", plain(RED))
        assert (item["status"], item["near_duplicates"]) == ("created", None)
        assert model_of(site).ledger.calls() == []
        again = await site.upload("red.png", plain(RED))
        assert [found["kind"] for found in again["near_duplicates"]] == ["exact"]


async def test_uploads_do_not_pile_up_before_a_model_that_hangs(tmp_path: Path) -> None:
    async with running(tmp_path, changed=looking(within=0.05, at_once=1)) as site:
        held: Held[Embedded] = Held(NOTHING)
        model_of(site).script.then(held)
        for n in range(3):
            assert (await site.upload(f"{n}.png", plain((n, 0, 0))))["near_duplicates"] is None
        assert len(started(model_of(site).ledger, VISUAL)) == 1
        held.release()

        async def looked_at_again() -> bool:
            item = await site.upload(f"{uuid4()}.png", plain((uuid4().int % 250, uuid4().int % 250, 9)))
            return item["near_duplicates"] is not None

        await eventually(looked_at_again)
