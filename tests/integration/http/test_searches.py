"""Searches, their status, and what may be done."""

from pathlib import Path

from tests.integration.http.site import Site, running

from imgproc_adapters.policy import UnavailablePolicy
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ports.models import Declined


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
    assert (best["filename"], best["title"], best["matched"]) == ("2.png", "键盘 上 的 狗", ["meaning"])
    assert (await site.alice.get(best["media_url"])).status_code == 200
    assert (await site.alice.get(best["thumbnail_url"])).status_code == 200


async def test_results_are_cut_off_by_number_and_by_score(site: Site) -> None:
    for number in range(3):
        item = await site.upload(f"{number}.png")
        await site.describe(item["meme_id"], f"cat number {number}")
    assert len((await site.alice.post("/search", json={"query": "cat", "n_results": 2})).json()["results"]) == 2
    assert (await site.alice.post("/search", json={"query": "cat", "min_score": 1})).json()["results"] == []


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


async def test_the_search_status_names_mode_model_and_coverage(site: Site) -> None:
    await site.upload()
    assert (await site.alice.get("/search/status")).json() == {
        "mode": "incremental_only",
        "epoch": 1,
        "model": "scripted-text-1",
        "coverage": {"searchable": 0, "total": 1},
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
