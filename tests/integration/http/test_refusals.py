"""What is refused, and how: nothing here ever reaches a use case, so one site serves all of these tests."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.http.site import BODIES, BY_ID, FILE_LIMIT, Site, form, png, running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with running(tmp_path_factory.mktemp("blobs")) as found:
        yield found


@pytest.mark.parametrize(("method", "path", "code"), BY_ID)
@pytest.mark.parametrize("nonsense", ["x", "..%2F..", "{01981f4e-7c00-7abc-8def-0123456789ab}", "%00"])
async def test_what_is_no_id_is_an_id_nobody_has(site: Site, method: str, path: str, code: str, nonsense: str) -> None:
    answer = await site.alice.request(method, re.sub(r"\{.*?\}", nonsense, path), json=BODIES.get(path))
    assert answer.status_code == 404
    assert answer.json()["error"] in (code, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing/here", 404, "not_found"),
        ("PROPFIND", "/images", 501, "method_not_implemented"),
        ("DELETE", "/search", 405, "method_not_allowed"),
        ("GET", "/images?limit=0", 422, "validation_error"),
        ("GET", "/images?limit=101", 422, "validation_error"),
        ("GET", "/images?limit=ten", 422, "validation_error"),
        ("GET", "/images?cursor=nonsense", 422, "validation_error"),
        ("GET", "/images?cursor=", 422, "validation_error"),
        ("GET", "/images/processing?cursor=AAAAAAAAAAAAAAAAAAAAAA!", 422, "validation_error"),
        ("GET", "/images/processing?status=done", 422, "validation_error"),
        ("GET", "/tasks?cursor=dAGYH058AHq8nQ8BI0VniaB", 422, "validation_error"),
        ("GET", "/tasks?type=other", 422, "validation_error"),
        ("GET", "/executions/unknown?resolved=perhaps", 422, "validation_error"),
        ("GET", "/executions/unknown?cursor=dAGYH058AHq8nQ8BI0VniaB", 422, "validation_error"),
    ],
)
async def test_errors_of_the_framework_have_our_shape(
    site: Site, method: str, path: str, status: int, code: str
) -> None:
    answer = await site.alice.request(method, path)
    assert answer.status_code == status
    body = answer.json()
    assert body["error"] == code
    assert body["message"]
    assert set(body) <= {"error", "message", "details"}
    assert answer.headers["content-type"] == "application/json"
    if status == 405:
        assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": " \n"}, 400, "invalid_query"),
        ({"query": "x" * 1001}, 400, "invalid_query"),
        ({"query": "cat", "n_results": 0}, 400, "invalid_query"),
        ({"query": "cat", "n_results": 101}, 400, "invalid_query"),
        ({"query": "cat", "min_score": 1.5}, 400, "invalid_query"),
        ({"query": "cat", "scope_id": "bob"}, 400, "unknown_field"),
        ({"query": "cat", "user_id": "bob"}, 400, "unknown_field"),
        ({"query": "cat", "epoch": 7}, 400, "unknown_field"),
        ({}, 422, "validation_error"),
        ({"query": 3}, 422, "validation_error"),
        ({"query": None}, 422, "validation_error"),
        ({"query": "cat", "n_results": "10"}, 422, "validation_error"),
        ({"query": "cat", "n_results": True}, 422, "validation_error"),
        ({"query": "cat", "mode": "words"}, 422, "validation_error"),
        ([], 422, "validation_error"),
    ],
)
async def test_what_is_no_search_is_refused(site: Site, body: object, status: int, code: str) -> None:
    answer = await site.alice.post("/search", json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


@pytest.mark.parametrize(
    ("content", "media_type", "status", "code"),
    [
        (b"{", "application/json", 422, "validation_error"),
        (b"[" * 50_000, "application/json", 422, "validation_error"),
        (b'{"query": "\xff"}', "application/json", 422, "validation_error"),
        (b'{"query": "' + b"x" * 70_000 + b'"}', "application/json", 413, "payload_too_large"),
        (b"query=cat", "application/x-www-form-urlencoded", 415, "unsupported_media"),
        (b'{"query": "cat"}', "text/plain", 415, "unsupported_media"),
    ],
)
async def test_what_is_no_json_is_refused(site: Site, content: bytes, media_type: str, status: int, code: str) -> None:
    answer = await site.alice.post("/search", content=content, headers={"Content-Type": media_type})
    assert (answer.status_code, answer.json()["error"]) == (status, code)


OPERATIONS = "analysis.agent, analysis.reverse_image_search, image.upload, image.delete"


@pytest.mark.parametrize(
    ("method", "path", "content", "message"),
    [
        ("GET", "/images?limit=0", None, "limit in the query: expected a whole number from 1 to 100"),
        ("GET", "/images?limit=ten", None, "limit in the query: expected a whole number from 1 to 100"),
        ("GET", "/images?limit=1&limit=2", None, "limit in the query: expected one value, not several"),
        ("GET", "/images?search=%00", None, "search in the query: expected text without NUL characters"),
        ("GET", f"/images?search={'x' * 256}", None, "search in the query: expected text of at most 255 characters"),
        ("GET", "/images?cursor=x", None, "cursor in the query: expected the next_cursor of a page of this list"),
        ("GET", "/tasks?status=done", None, "status in the query: expected one of queued, running, succeeded, failed"),
        ("GET", "/operations/availability", None, f"operation in the query: expected one of {OPERATIONS}"),
        ("GET", "/operations/availability?operation=x", None, f"operation in the query: expected one of {OPERATIONS}"),
        ("POST", "/search", b"", "the body: expected a JSON object"),
        ("POST", "/search", b"{", "the body: expected valid JSON"),
        ("POST", "/search", b"{}", "query in the body: expected text of at most 1000 characters"),
    ],
)
async def test_a_refused_value_is_named_with_its_place_and_what_was_expected(
    site: Site, method: str, path: str, content: bytes | None, message: str
) -> None:
    answer = await site.alice.request(method, path, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    assert answer.json()["message"] == message
    (told,) = answer.json()["details"]["refused"]
    subject = f"{told['field']} in the {told['in']}" if "field" in told else f"the {told['in']}"
    assert message == f"{subject}: expected {told['expected']}"


@pytest.mark.parametrize("query", ["", "?operation=world.domination"])
async def test_only_known_operations_can_be_asked_about(site: Site, query: str) -> None:
    answer = await site.alice.get(f"/operations/availability{query}")
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    assert set(answer.json()) <= {"error", "message", "details"}


@pytest.mark.parametrize(
    ("content_type", "body", "status", "code"),
    [
        ("application/json", b"{}", 415, "unsupported_media"),
        ("multipart/form-data", b"x", 415, "unsupported_media"),
        ("multipart/form-data; boundary=frontier", b"--frontier--\r\n", 422, "validation_error"),
        ("multipart/form-data; boundary=frontier", b"", 422, "validation_error"),
        ("multipart/form-data; boundary=frontier", b"--frontier\r\nnonsense\r\n\r\n", 422, "validation_error"),
        ("multipart/form-data; boundary=frontier", b"--frontier\r\n" + b"x" * 10_000, 413, "payload_too_large"),
    ],
)
async def test_what_is_no_form_is_refused(site: Site, content_type: str, body: bytes, status: int, code: str) -> None:
    answer = await site.alice.post("/images", headers={"Content-Type": content_type}, content=body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


@pytest.mark.parametrize("policy", ["", "AUTO", "always"])
async def test_an_unknown_policy_is_refused(site: Site, policy: str) -> None:
    headers, body = form(("reverse_image_policy", None, policy.encode()), ("files", "a.png", png("a")))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_reverse_image_policy")


@pytest.mark.parametrize("name", ["scope_id", "user_id", "path", "storage_key", "status", "grant", "session", "mode"])
async def test_forged_form_fields_are_unknown(site: Site, name: str) -> None:
    headers, body = form((name, None, b"bob"), ("files", "a.png", png("a")))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "unknown_field")
    assert answer.json()["details"] == {"in": "body", "fields": [name]}
    assert (await site.alice.get("/images")).json()["items"] == []


async def test_a_value_is_no_file(site: Site) -> None:
    headers, body = form(("files", None, b"hello"))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")
    assert answer.json()["message"] == "files in the body: expected a file, that is a part with a file name"


async def test_an_empty_file_is_said_to_be_empty(site: Site) -> None:
    headers, body = form(("files", "a.png", b""), ("files", "huge.png", b"x" * (FILE_LIMIT + 1)))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert answer.status_code == 207
    told = [(item["error"]["error"], item["error"]["message"]) for item in answer.json()["items"]]
    assert told == [("unsupported_media", "the file is empty"), ("image_too_large", "the file is larger than 64 KB")]


async def test_the_limit_of_a_whole_upload_is_told_as_people_say_it(site: Site) -> None:
    headers, body = form(("files", "a.png", b"x" * (3 << 20)))
    answer = await site.alice.post("/images", headers=headers, content=body)
    assert (answer.status_code, answer.json()["error"]) == (413, "payload_too_large")
    assert answer.json()["message"] == "the body is larger than 2.25 MB"
