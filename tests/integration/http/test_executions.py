"""Unknown executions: listed, looked at, and closed by an operator."""

from typing import Any

import pytest
from tests.integration.http.site import RESOLUTION, Site

SUMMARY = {
    "task_id",
    "task_type",
    "job_id",
    "meme_id",
    "filename",
    "attempt",
    "started_at",
    "hard_deadline_at",
    "may_be_running",
    "slots_held",
    "slots_free_at",
    "error",
    "resolution",
}
MORE = {"task_error", "task_created_at", "task_completed_at", "attempts", "grant", "late_results", "newest_job"}


async def listed(site: Site, query: str = "") -> list[dict[str, Any]]:
    return list((await site.alice.get(f"/executions/unknown{query}")).json()["items"])


async def test_an_unknown_execution_is_listed_with_what_still_waits_for_it(site: Site) -> None:
    ids = await site.lose_call()
    (found,) = await listed(site)
    assert set(found) == SUMMARY
    assert {name: found[name] for name in ids} == ids
    assert (found["may_be_running"], found["slots_held"], found["attempt"]) == (True, 1, 1)
    assert found["slots_free_at"] == found["hard_deadline_at"]
    assert (found["error"]["error"], found["resolution"]) == ("agent_failed", None)
    site.clock.advance(site.agent.hard_deadline)
    (found,) = await listed(site)
    assert (found["may_be_running"], found["slots_held"], found["slots_free_at"]) == (False, 0, None)


async def test_they_are_listed_newest_first_page_by_page_and_by_their_resolution(site: Site) -> None:
    first, second = (await site.lose_call())["task_id"], (await site.lose_call())["task_id"]
    page = (await site.alice.get("/executions/unknown?limit=1")).json()
    assert [item["task_id"] for item in page["items"]] == [second]
    rest = (await site.alice.get(f"/executions/unknown?limit=1&cursor={page['next_cursor']}")).json()
    assert ([item["task_id"] for item in rest["items"]], rest["next_cursor"]) == ([first], None)
    await site.alice.post(f"/executions/unknown/{first}/resolve", json=RESOLUTION)
    for query, expected in (("", [second, first]), ("?resolved=true", [first]), ("?resolved=false", [second])):
        assert [item["task_id"] for item in await listed(site, query)] == expected


async def test_one_is_shown_with_the_ids_by_which_its_provider_can_be_asked(site: Site) -> None:
    ids = await site.lose_call()
    shown = (await site.alice.get(f"/executions/unknown/{ids['task_id']}")).json()
    assert set(shown) == SUMMARY | MORE
    (attempt,) = shown["attempts"]
    assert attempt["status"] == "unknown_execution"
    assert min(len(attempt[name]) for name in ("attempt_id", "request_id", "session_id")) > 20
    assert (shown["grant"]["status"], shown["grant"]["operation"]) == ("unknown", "analysis.agent")
    assert shown["grant"]["reservation"]
    assert shown["task_error"]["error"] == "unknown_execution"
    assert shown["newest_job"] == {"job_id": ids["job_id"], "revision": 1, "status": "unknown_execution"}
    assert shown["late_results"] == []


async def test_a_resolution_is_recorded_and_nothing_else_changes(site: Site) -> None:
    ids = await site.lose_call()
    path = f"/executions/unknown/{ids['task_id']}"
    before, job = (await site.alice.get(path)).json(), await site.job(ids["job_id"])
    answer = await site.alice.post(f"{path}/resolve", json={**RESOLUTION, "resolved_by": "猫"})
    assert answer.status_code == 200
    after = answer.json()
    resolution = after.pop("resolution")
    assert {**resolution, "resolved_at": None} == {**RESOLUTION, "resolved_by": "猫", "resolved_at": None}
    freed = {"may_be_running": False, "slots_held": 0, "slots_free_at": None}
    assert after == {name: value for name, value in {**before, **freed}.items() if name != "resolution"}
    assert await site.job(ids["job_id"]) == job
    assert (await site.alice.get(path)).json() == {**after, "resolution": resolution}


async def test_a_resolution_stays_as_it_is(site: Site) -> None:
    path = f"/executions/unknown/{(await site.lose_call())['task_id']}"
    first = (await site.alice.post(f"{path}/resolve", json=RESOLUTION)).json()
    assert first["resolution"]["resolved_by"] == "api"
    again = await site.alice.post(f"{path}/resolve", json={**RESOLUTION, "reason": "on second thoughts"})
    assert (again.status_code, again.json()["error"]) == (409, "execution_already_resolved")
    assert (await site.alice.get(path)).json() == first


@pytest.mark.parametrize("missing", ["owner_dead", "call_over"])
async def test_a_call_that_may_be_running_is_not_closed_on_a_guess(site: Site, missing: str) -> None:
    path = f"/executions/unknown/{(await site.lose_call())['task_id']}"
    before = (await site.alice.get(path)).json()
    answer = await site.alice.post(f"{path}/resolve", json={**RESOLUTION, missing: False})
    assert (answer.status_code, answer.json()["error"]) == (409, "call_may_be_running")
    assert answer.json()["details"]["hard_deadline_at"] == before["hard_deadline_at"]
    assert (await site.alice.get(path)).json() == before
    site.clock.advance(site.agent.hard_deadline)
    answer = await site.alice.post(f"{path}/resolve", json={**RESOLUTION, missing: False})
    assert (answer.status_code, answer.json()["resolution"][missing]) == (200, False)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"scope_id": "bob"}, 400, "unknown_field"),
        ({"status": "succeeded"}, 400, "unknown_field"),
        ({"owner_dead": None}, 422, "validation_error"),
        ({"call_over": "yes"}, 422, "validation_error"),
        ({"call_over": 1}, 422, "validation_error"),
        ({"reason": ""}, 422, "validation_error"),
        ({"reason": "x" * 501}, 422, "validation_error"),
        ({"evidence": " \n"}, 422, "validation_error"),
        ({"evidence": "x" * 4_001}, 422, "validation_error"),
        ({"resolved_by": ""}, 422, "validation_error"),
        ({"resolved_by": 7}, 422, "validation_error"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_resolution_that_says_too_little_or_too_much_is_refused(
    site: Site, change: dict[str, Any], status: int, code: str
) -> None:
    path = f"/executions/unknown/{(await site.lose_call())['task_id']}"
    answer = await site.alice.post(f"{path}/resolve", json={**RESOLUTION, **change})
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert (await site.alice.get(path)).json()["resolution"] is None


async def test_every_part_of_a_resolution_but_its_author_must_be_said(site: Site) -> None:
    path = f"/executions/unknown/{(await site.lose_call())['task_id']}/resolve"
    for name in RESOLUTION:
        answer = await site.alice.post(path, json={key: value for key, value in RESOLUTION.items() if key != name})
        assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
        assert name in answer.json()["message"]


async def test_what_did_not_end_as_unknown_is_none(site: Site) -> None:
    item = await site.upload()
    job = (await site.alice.get(f"/images/processing/{item['job']['job_id']}")).json()
    path = f"/executions/unknown/{job['stages'][0]['task_id']}"
    answers = [await site.alice.get(path), await site.alice.post(f"{path}/resolve", json=RESOLUTION)]
    assert [(a.status_code, a.json()["error"]) for a in answers] == [(409, "execution_not_unknown")] * 2
    assert await listed(site) == []


async def test_nothing_of_another_scope_is_listed(site: Site) -> None:
    await site.lose_call("bob")
    assert await listed(site) == []
    assert len((await site.bob.get("/executions/unknown")).json()["items"]) == 1
