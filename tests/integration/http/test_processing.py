"""Jobs, tasks, retries and explicit processing."""

from typing import Any

import pytest
from tests.integration.http.site import BOB, Site

from imgproc_domain.job import JobStatus

JOB_FIELDS = {
    "job_id",
    "meme_id",
    "revision",
    "image_sha256",
    "reverse_image_policy",
    "status",
    "current_stage",
    "progress",
    "message",
    "stages",
    "error",
    "retry_at",
    "created_at",
    "updated_at",
    "completed_at",
}


async def job_of(site: Site, item: dict[str, Any]) -> dict[str, Any]:
    return dict((await site.alice.get(f"/images/processing/{item['job']['job_id']}")).json())


async def test_a_job_shows_its_stages_in_order_and_the_task_it_waits_for(site: Site) -> None:
    item = await site.upload()
    job = await job_of(site, item)
    assert set(job) == JOB_FIELDS
    assert (job["status"], job["current_stage"], job["revision"], job["progress"]) == ("running", "visual", 1, 0)
    assert job["message"] == "at the visual stage"
    assert [stage["stage"] for stage in job["stages"]] == ["visual", "agent", "text_embedding"]
    visual = job["stages"][0]
    assert (visual["status"], visual["reused"], visual["attempt"]) == ("running", False, 0)
    task = (await site.alice.get(f"/tasks/{visual['task_id']}")).json()
    assert (task["task_type"], task["status"], task["stage"]) == ("visual_embedding_generation", "queued", "visual")
    assert (task["job_id"], task["progress"], task["error"]) == (job["job_id"], None, None)


async def test_a_blocked_job_gives_its_reason_and_a_hint_when_to_retry(site: Site) -> None:
    item = await site.upload()
    await site.end(item["job"]["job_id"], JobStatus.BLOCKED)
    job = await job_of(site, item)
    assert job["status"] == "blocked"
    assert job["error"]["error"] == "operation_limit_exceeded"
    blocked = job["stages"][0]
    assert blocked["reason"] == "operation_limit_exceeded"
    assert blocked["retry_at"] == job["retry_at"] is not None


async def test_jobs_are_listed_by_status_and_stage(site: Site) -> None:
    ended, active = await site.upload("a.png"), await site.upload("b.png")
    await site.end(ended["job"]["job_id"], JobStatus.FAILED)
    for query, expected in (
        ("", [active, ended]),
        ("?status=failed", [ended]),
        ("?status=running&stage=visual", [active]),
        ("?stage=agent", []),
    ):
        page = (await site.alice.get(f"/images/processing{query}")).json()
        assert [job["job_id"] for job in page["items"]] == [item["job"]["job_id"] for item in expected]
    first = (await site.alice.get("/images/processing?limit=1")).json()
    second = (await site.alice.get(f"/images/processing?limit=1&cursor={first['next_cursor']}")).json()
    assert [page["items"][0]["job_id"] for page in (first, second)] == [i["job"]["job_id"] for i in (active, ended)]


async def test_tasks_are_listed_by_type_and_status(site: Site) -> None:
    await site.upload()
    for query, count in (
        ("", 1),
        ("?type=visual_embedding_generation&status=queued", 1),
        ("?type=cache_generation", 0),
        ("?status=failed", 0),
    ):
        assert len((await site.alice.get(f"/tasks{query}")).json()["items"]) == count


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.BLOCKED, JobStatus.UNKNOWN])
async def test_a_retry_opens_the_next_revision_and_leaves_the_old_one(site: Site, status: JobStatus) -> None:
    item = await site.upload()
    old_id = item["job"]["job_id"]
    await site.end(old_id, status)
    before = await site.job(old_id)
    answer = await site.alice.post(f"/images/processing/{old_id}/retry")
    assert answer.status_code == 202
    revision = answer.json()
    assert set(revision) == JOB_FIELDS
    assert revision["revision"] == 2
    assert revision["status"] in ("queued", "running")
    assert revision["job_id"] != old_id
    assert await site.job(old_id) == before


async def test_a_retry_may_change_the_policy(site: Site) -> None:
    item = await site.upload()
    await site.end(item["job"]["job_id"], JobStatus.FAILED)
    path = f"/images/processing/{item['job']['job_id']}/retry"
    answer = await site.alice.post(path, json={"reverse_image_policy": "auto"})
    assert answer.json()["reverse_image_policy"] == "auto"
    again = await site.alice.post(path, json={"reverse_image_policy": None})
    assert (again.status_code, again.json()["error"]) == (409, "generation_policy_conflict")


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.SUCCEEDED])
async def test_other_jobs_cannot_be_retried(site: Site, status: JobStatus) -> None:
    item = await site.upload()
    if status is JobStatus.SUCCEEDED:
        await site.end(item["job"]["job_id"], status)
    answer = await site.alice.post(f"/images/processing/{item['job']['job_id']}/retry", json={})
    assert (answer.status_code, answer.json()["error"]) == (409, "job_not_retryable")
    assert answer.json()["details"] == {"status": status.value}


async def test_explicit_processing_reuses_what_is_active_and_renews_what_ended(site: Site) -> None:
    item = await site.upload()
    path = f"/images/{item['meme_id']}/processing"
    reused = await site.alice.post(path)
    assert (reused.status_code, reused.json()["outcome"]) == (202, "reused")
    assert reused.json()["job"]["job_id"] == item["job"]["job_id"]
    conflict = await site.alice.post(path, json={"reverse_image_policy": "auto"})
    assert (conflict.status_code, conflict.json()["error"]) == (409, "generation_policy_conflict")
    assert conflict.json()["details"] == {"job_id": item["job"]["job_id"]}
    await site.end(item["job"]["job_id"], JobStatus.UNKNOWN)
    created = await site.alice.post(path, json={"reverse_image_policy": "auto"})
    assert created.json()["outcome"] == "created"
    assert created.json()["job"]["job_id"] != item["job"]["job_id"]


FORGED = [
    {"scope_id": "bob"},
    {"user_id": "bob"},
    {"path": "/etc/passwd"},
    {"storage_key": "x"},
    {"status": "succeeded"},
    {"stages": [{"stage": "visual", "status": "succeeded"}]},
    {"grant": "g"},
    {"session_id": "s"},
    {"mode": "automatic"},
]


@pytest.mark.parametrize("forged", FORGED, ids=lambda body: next(iter(body)))
async def test_forged_fields_are_unknown_and_nothing_happens(site: Site, forged: dict[str, Any]) -> None:
    item = await site.upload()
    await site.end(item["job"]["job_id"], JobStatus.FAILED)
    for path in (f"/images/{item['meme_id']}/processing", f"/images/processing/{item['job']['job_id']}/retry"):
        answer = await site.alice.post(path, json={"reverse_image_policy": "forbid", **forged})
        assert (answer.status_code, answer.json()["error"]) == (400, "unknown_field")
        assert answer.json()["details"] == {"in": "body", "fields": sorted(forged)}
    assert len((await site.alice.get("/images/processing")).json()["items"]) == 1


@pytest.mark.parametrize("policy", ["AUTO", "", 1, ["auto"], {"policy": "auto"}, True])
async def test_an_unknown_policy_is_refused(site: Site, policy: object) -> None:
    item = await site.upload()
    answer = await site.alice.post(f"/images/{item['meme_id']}/processing", json={"reverse_image_policy": policy})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_reverse_image_policy")


async def test_nothing_of_another_scope_is_listed(site: Site) -> None:
    item = await site.upload(client="bob")
    assert (await site.job(item["job"]["job_id"], BOB)).scope == BOB
    for path in ("/images", "/images/processing", "/tasks"):
        assert (await site.alice.get(path)).json()["items"] == []
        assert len((await site.bob.get(path)).json()["items"]) == 1
