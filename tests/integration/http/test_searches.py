"""Searches, their status, and what may be done."""

from pathlib import Path

import pytest
from tests.integration.http.site import ALICE, OTHER, Site, running

from imgproc_adapters.policy import UnavailablePolicy
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ports.models import Declined
from imgproc_domain.usecases.migrate_search import begin_filling


async def test_a_picture_is_found_by_what_it_means(site: Site) -> None:
    cat, dog = await site.upload("1.png"), await site.upload("2.png")
    await site.upload("3.png")
    await site.describe(cat["meme_id"], "a surprised cat")
    await site.describe(dog["meme_id"], "键盘 上 的 狗")
    answer = await site.alice.post("/search", json={"query": "键盘 狗", "n_results": 2})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["source"], body["epoch"], body["coverage"]) == ("incremental", 1, {"searchable": 2, "total": 3})
    assert [hit["meme_id"] for hit in body["results"]] == [dog["meme_id"], cat["meme_id"]]
    best = body["results"][0]
    assert best["score"] > body["results"][1]["score"]
    assert (best["filename"], best["title"], best["matched"]) == (
        "2.png",
        "键盘 上 的 狗",
        ["meaning", "title", "keywords"],
    )
    assert (body["mode"], body["next_offset"]) == ("hybrid", None)
    assert (await site.alice.get(best["media_url"])).status_code == 200
    assert (await site.alice.get(best["thumbnail_url"])).status_code == 200


async def test_results_are_cut_off_by_number_and_by_score(site: Site) -> None:
    for number in range(3):
        item = await site.upload(f"{number}.png")
        await site.describe(item["meme_id"], f"cat number {number}")
    assert len((await site.alice.post("/search", json={"query": "cat", "n_results": 2})).json()["results"]) == 2
    assert (await site.alice.post("/search", json={"query": "cat", "min_score": 1})).json()["results"] == []


async def test_by_meaning_alone_words_count_for_nothing(site: Site) -> None:
    item = await site.upload("holiday.png")
    await site.describe(item["meme_id"], "a surprised cat")
    question = {"query": "holiday", "mode": "semantic"}
    body = (await site.alice.post("/search", json=question)).json()
    assert (body["mode"], body["results"][0]["matched"]) == ("semantic", ["meaning"])
    body = (await site.alice.post("/search", json={"query": "holiday"})).json()
    assert (body["mode"], body["results"][0]["matched"]) == ("hybrid", ["meaning", "file_name"])


async def test_pages_follow_each_other(site: Site) -> None:
    for number in range(5):
        item = await site.upload(f"{number}.png")
        await site.describe(item["meme_id"], f"cat number {number}")
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        question = {"query": "cat number 3", "n_results": 2, "offset": offset}
        body = (await site.alice.post("/search", json=question)).json()
        seen.extend(hit["meme_id"] for hit in body["results"])
        offset = body["next_offset"]
    everything = (await site.alice.post("/search", json={"query": "cat number 3"})).json()["results"]
    assert seen == [hit["meme_id"] for hit in everything]
    assert len(set(seen)) == 5
    assert everything[0]["title"] == "cat number 3"


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"offset": -1}, (400, "invalid_query")),
        ({"offset": 10_001}, (400, "invalid_query")),
        ({"offset": "x"}, (422, "validation_error")),
        ({"mode": "words"}, (422, "validation_error")),
    ],
)
async def test_what_is_no_page_and_no_ranking_is_refused(
    site: Site, wrong: dict[str, object], refusal: tuple[int, str]
) -> None:
    answer = await site.alice.post("/search", json={"query": "cat", **wrong})
    assert (answer.status_code, answer.json()["error"]) == refusal


async def test_a_library_without_a_findable_picture_is_not_ready(site: Site) -> None:
    item = await site.upload(client="bob")
    await site.upload()
    answer = await site.alice.post("/search", json={"query": "cat"})
    assert (answer.status_code, answer.json()["error"]) == (503, "cache_not_ready")
    assert answer.json()["details"] == {"total": 1}
    assert item["meme_id"] not in answer.text


async def test_a_missing_model_is_named(site: Site) -> None:
    missing = Declined(Diagnosis(ErrorCode.EMBEDDING_NOT_CONFIGURED, "install imgproc[local]"), transient=False)
    site.words.script.then(missing)
    answer = await site.alice.post("/search", json={"query": "cat"})
    assert (answer.status_code, answer.json()["error"]) == (503, "model_not_configured")
    assert answer.json()["details"] == {"code": "embedding_not_configured"}


async def test_the_search_status_names_mode_models_coverage_and_what_is_missing(site: Site) -> None:
    item = await site.upload()
    before = {
        "mode": "incremental_only",
        "epoch": 1,
        "model": "scripted-text-1",
        "filling": None,
        "coverage": {"searchable": 0, "total": 1},
    }
    assert (await site.alice.get("/search/status")).json() == before
    await site.describe(item["meme_id"], "a surprised cat")
    await begin_filling(site.deployment, ALICE, OTHER)
    assert (await site.alice.get("/search/status")).json() == {
        **before,
        "epoch": 2,
        "filling": "scripted-text-2",
        "coverage": {"searchable": 1, "total": 1},
    }


async def test_an_allowed_operation_is_available(site: Site) -> None:
    answer = await site.alice.get("/operations/availability", params={"operation": "analysis.agent"})
    assert answer.json() == {
        "operation": "analysis.agent",
        "available": True,
        "reason": None,
        "message": None,
        "retry_at": None,
    }


async def test_a_refused_operation_gives_its_reason(tmp_path: Path) -> None:
    async with running(tmp_path, policy=UnavailablePolicy()) as site:
        answer = await site.alice.get("/operations/availability", params={"operation": "analysis.agent"})
        assert (answer.status_code, answer.json()["available"]) == (200, False)
        assert answer.json()["reason"] == "operation_policy_unavailable"
