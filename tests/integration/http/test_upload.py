"""Upload: streaming, in order, each file for itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.http.site import ALICE, FILE_LIMIT, TENANT, Raw, Site, eventually, form, png, running

from imgproc_adapters.http import HttpLimits
from imgproc_domain.errors import DatabaseUnavailable, InsufficientStorage
from imgproc_domain.job import JobStatus

Files = list[tuple[str, tuple[str, bytes, str]]]


def files(*contents: tuple[str, bytes]) -> Files:
    return [("files", (name, data, "application/octet-stream")) for name, data in contents]


async def test_new_pictures_are_created_in_the_order_of_the_form(site: Site) -> None:
    answer = await site.alice.post("/images", files=files(*((f"{n}.png", png(str(n))) for n in range(5))))
    assert answer.status_code == 201
    items = answer.json()["items"]
    assert [item["filename"] for item in items] == [f"{n}.png" for n in range(5)]
    assert {item["status"] for item in items} == {"created"}
    assert all(item["job"]["status"] in ("queued", "running") for item in items)
    assert len({item["meme_id"] for item in items}) == 5
    assert site.staged() == []


async def test_the_same_bytes_again_are_the_same_picture_and_job(site: Site) -> None:
    first = await site.upload("a.png", png("a"))
    answer = await site.alice.post("/images", files=files(("b.png", png("a"))))
    assert answer.status_code == 200
    (item,) = answer.json()["items"]
    assert item["status"] == "duplicate"
    assert (item["meme_id"], item["job"]) == (first["meme_id"], first["job"])


async def test_a_failed_job_is_returned_with_its_diagnosis_and_not_restarted(site: Site) -> None:
    item = await site.upload("a.png", png("a"))
    await site.end(item["job"]["job_id"], JobStatus.FAILED)
    again = await site.upload("a.png", png("a"))
    assert again["job"]["job_id"] == item["job"]["job_id"]
    assert again["job"]["status"] == "failed"
    assert again["job"]["error"] == {"error": "visual_failed", "message": "the model refused", "details": None}


async def test_a_rejected_file_never_harms_its_neighbours(site: Site) -> None:
    broken = png("broken")[:60]
    sent = files(
        ("one.png", png("1")),
        ("notes.txt", b"no picture at all"),
        ("broken.png", broken),
        ("huge.png", b"\x89PNG" + b"x" * FILE_LIMIT),
        ("two.png", png("2")),
    )
    answer = await site.alice.post("/images", files=sent)
    assert answer.status_code == 207
    items = answer.json()["items"]
    assert [item["status"] for item in items] == ["created", "rejected", "rejected", "rejected", "created"]
    codes = [item["error"] and item["error"]["error"] for item in items]
    assert codes == [None, "unsupported_media", "image_corrupt", "image_too_large", None]
    assert items[3]["meme_id"] is None
    assert items[3]["job"] is None
    assert site.staged() == []


async def test_a_single_rejected_file_is_also_answered_as_an_item(site: Site) -> None:
    answer = await site.alice.post("/images", files=files(("notes.txt", b"no picture")))
    assert answer.status_code == 207
    assert answer.json()["items"][0]["error"]["error"] == "unsupported_media"


async def test_a_picture_in_process_under_another_policy_is_kept_and_says_so(site: Site) -> None:
    await site.upload("a.png", png("a"))
    answer = await site.alice.post(
        "/images", params={"reverse_image_policy": "auto"}, files=files(("a.png", png("a")), ("b.png", png("b")))
    )
    assert answer.status_code == 207
    first, second = answer.json()["items"]
    assert (first["status"], first["job"]) == ("duplicate", None)
    assert first["error"]["error"] == "generation_policy_conflict"
    assert (second["status"], second["error"]) == ("created", None)
    assert (await site.job(second["job"]["job_id"])).reverse_image_policy == "auto"


async def test_the_policy_may_stand_before_the_files(site: Site) -> None:
    answer = await site.alice.post("/images", data={"reverse_image_policy": "auto"}, files=files(("a.png", png("a"))))
    assert answer.status_code == 201
    job_id = answer.json()["items"][0]["job"]["job_id"]
    assert (await site.job(job_id)).reverse_image_policy == "auto"


async def test_without_a_policy_the_reverse_image_search_is_forbidden(site: Site) -> None:
    item = await site.upload()
    assert (await site.job(item["job"]["job_id"])).reverse_image_policy == "forbid"


@pytest.mark.parametrize(("late", "status"), [(b"forbid", 201), (b"auto", 400)])
async def test_behind_a_file_the_policy_may_only_repeat_what_applied(site: Site, late: bytes, status: int) -> None:
    headers, body = form(("files", "a.png", png("a")), ("reverse_image_policy", None, late))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"] == "invalid_reverse_image_policy"
        assert "put it first" in answer.json()["message"]


async def test_a_policy_given_twice_with_different_values_is_refused(site: Site) -> None:
    headers, body = form(("reverse_image_policy", None, b"auto"), ("files", "a.png", png("a")))
    answer = await site.alice.post("/images?reverse_image_policy=forbid", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_reverse_image_policy")
    assert (await site.alice.get("/images")).json()["items"] == []


async def test_a_path_in_a_file_name_is_only_a_name(site: Site) -> None:
    item = await site.upload("../../etc/passwd", png("a"))
    assert item["filename"] == "passwd"


async def test_too_many_files_are_refused_but_those_before_stay(tmp_path: Path) -> None:
    async with running(tmp_path, limits=HttpLimits(files=2)) as site:
        sent = files(*((f"{n}.png", png(str(n))) for n in range(3)))
        answer = await site.alice.post("/images", files=sent)
        assert (answer.status_code, answer.json()["error"]) == (413, "too_many_files")
        details = answer.json()["details"]
        assert details["limit"] == 2
        assert [item["status"] for item in details["items"]] == ["created", "created"]
        listed = (await site.alice.get("/images")).json()["items"]
        assert {item["meme_id"] for item in details["items"]} == {item["meme_id"] for item in listed}
        assert site.staged() == []


async def test_a_body_announced_as_too_large_is_refused_unread(site: Site) -> None:
    wire = await Raw.to(site)
    await wire.say(
        b"POST /images HTTP/1.1\r\nHost: test\r\nX-Test-Tenant: alice\r\nContent-Length: 99999999999\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    )
    assert await wire.status() == 413
    await wire.hang_up()


async def test_a_body_that_grows_too_large_on_the_way_is_cut_off(tmp_path: Path) -> None:
    limits = HttpLimits(files=1, overhead_bytes=10)

    async def endless() -> AsyncIterator[bytes]:
        yield b'--frontier\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        for _ in range(64):
            yield b"x" * 4096

    async with running(tmp_path, limits=limits) as site:
        answer = await site.alice.post("/images", headers=form()[0], content=endless())
        assert (answer.status_code, answer.json()["error"]) == (413, "payload_too_large")
        assert site.staged() == []


async def test_a_client_that_goes_away_in_mid_file_leaves_nothing_behind(site: Site) -> None:
    wire = await Raw.to(site)
    await wire.say(
        b"POST /images HTTP/1.1\r\nHost: test\r\nX-Test-Tenant: alice\r\nContent-Length: 40000\r\n"
        b"Content-Type: multipart/form-data; boundary=frontier\r\n\r\n"
        b'--frontier\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n' + b"x" * 20_000
    )
    await eventually(lambda: len(site.staged()) == 1)
    await wire.hang_up()
    await eventually(lambda: site.staged() == [])
    assert (await site.alice.get("/images")).json()["items"] == []


async def test_an_interrupted_form_keeps_what_came_before(site: Site) -> None:
    headers, body = form(("files", "a.png", png("a")), ("files", "b.png", png("b")))
    answer = await site.alice.post("/images", headers=headers, content=body[:-60])
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    assert [item["filename"] for item in answer.json()["details"]["items"]] == ["a.png"]
    assert [item["filename"] for item in (await site.alice.get("/images")).json()["items"]] == ["a.png"]
    assert site.staged() == []


@pytest.mark.parametrize(
    ("error", "status"),
    [(InsufficientStorage("no room"), 507), (DatabaseUnavailable("the database does not answer"), 503)],
)
async def test_a_trouble_of_ours_with_every_file_is_the_answer_to_the_request(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(site.deployment.blobs), "keep", fails)
    answer = await site.alice.post("/images", files=files(("a.png", png("a"))))
    assert answer.status_code == status
    mixed = await site.alice.post("/images", files=files(("a.png", png("a")), ("b.txt", b"nothing")))
    assert mixed.status_code == 207
    assert mixed.json()["items"][0]["error"]["error"] == answer.json()["error"]


async def test_a_file_is_taken_in_before_the_next_one_has_come(site: Site) -> None:
    headers, body = form(("files", "a.png", png("a")), ("files", "b.png", png("b")))
    wire = await Raw.to(site)
    head = f"POST /images HTTP/1.1\r\nHost: test\r\n{TENANT}: {ALICE}\r\nContent-Length: {len(body)}\r\n"
    await wire.say(f"{head}Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body[:-50])

    async def one_is_there() -> bool:
        listed = (await site.alice.get("/images")).json()["items"]
        return [item["filename"] for item in listed] == ["a.png"]

    await eventually(one_is_there)
    await wire.say(body[-50:])
    assert await wire.status() == 201
    await wire.hang_up()
