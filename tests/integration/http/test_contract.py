"""What holds for every route: one error shape, scopes that never meet, a document that tells the truth."""

import json
import logging
import re
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any
from uuid import UUID

import pytest
from tests.integration.http.site import BODIES, BY_ID, Site

from imgproc_domain.errors import DatabaseUnavailable, OperationDenied

UNKNOWN = UUID("01981f4e-7c00-7abc-8def-0123456789ab")


async def document_of(site: Site) -> dict[str, Any]:
    answer = await site.nobody.get("/schema/openapi.json")
    assert answer.status_code == 200
    return dict(json.loads(answer.content))


@pytest.mark.parametrize(("method", "path", "code"), BY_ID)
async def test_a_foreign_id_answers_exactly_as_one_nobody_has(site: Site, method: str, path: str, code: str) -> None:
    foreign, body = await site.lose_call("bob"), BODIES.get(path)
    unknown = dict.fromkeys(foreign, str(UNKNOWN))
    answers = [await site.alice.request(method, path.format(**ids), json=body) for ids in (foreign, unknown)]
    assert (await site.bob.request(method, path.format(**foreign), json=body)).status_code in (200, 202)
    assert [answer.status_code for answer in answers] == [404, 404]
    told = [re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"ID", answer.content) for answer in answers]
    assert told[0] == told[1]
    assert answers[0].json()["error"] == code
    headers = [{k: v for k, v in a.headers.items() if k not in ("date", "content-length")} for a in answers]
    assert headers[0] == headers[1]


async def test_every_route_of_a_scope_wants_to_know_whose_request_it_is(site: Site) -> None:
    document = await document_of(site)
    for path, item in document["paths"].items():
        for method in item:
            answer = await site.nobody.request(method, re.sub(r"\{.*?\}", str(UNKNOWN), path))
            if path.startswith("/health/"):
                assert answer.status_code == 200
            else:
                assert answer.status_code == 401, path
                assert method == "head" or answer.json()["error"] == "unauthenticated"


async def test_a_query_never_names_a_scope(site: Site) -> None:
    answer = await site.alice.get("/images?scope_id=bob&user_id=bob")
    assert (answer.status_code, answer.json()["error"]) == (400, "unknown_field")
    assert answer.json()["details"] == {"in": "query", "fields": ["scope_id", "user_id"]}


async def test_no_route_ignores_a_query_parameter_that_it_does_not_have(site: Site) -> None:
    document = await document_of(site)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            names = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
            mistyped = f"{names[0]}x" if names else "x"
            url = re.sub(r"\{.*?\}", str(UNKNOWN), path)
            answer = await site.alice.request(method, url, params={mistyped: "auto"})
            assert answer.status_code == 400, (method, path)
            if method != "head":
                assert answer.json()["error"] == "unknown_field"
                assert answer.json()["details"] == {"in": "query", "fields": [mistyped]}
                assert all(name in answer.json()["message"] for name in names)


async def test_every_path_says_which_methods_it_answers(site: Site) -> None:
    document = await document_of(site)
    for path, item in document["paths"].items():
        expected = {method.upper() for method in item} | {"OPTIONS"}
        url = re.sub(r"\{.*?\}", str(UNKNOWN), path)
        answer = await site.nobody.options(url, params={"any": "query"})
        assert answer.status_code == 204
        assert set(answer.headers["allow"].split(", ")) == expected
        for method in {"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT", "TRACE"} - expected:
            refused = await site.nobody.request(method, url)
            assert refused.status_code == 405
            assert set(refused.headers["allow"].split(", ")) == expected
            assert method == "HEAD" or refused.json()["error"] == "method_not_allowed"


async def test_what_can_be_read_can_be_asked_for_its_headers(site: Site) -> None:
    document = await document_of(site)
    ids = await site.lose_call()
    for path, item in document["paths"].items():
        if "get" not in item:
            continue
        query = {"operation": "image.upload"} if path.startswith("/operations") else {}
        read = await site.alice.get(path.format(**ids), params=query)
        asked = await site.alice.head(path.format(**ids), params=query)
        assert (asked.status_code, asked.content) == (200, b"")
        for name in ("content-type", "content-length"):
            assert asked.headers[name] == read.headers[name], path
        assert all("content" not in response for response in item["head"]["responses"].values())


async def test_a_cursor_belongs_to_its_list(site: Site) -> None:
    await site.lose_call()
    await site.lose_call()
    for _ in range(2):
        await site.alice.post("/maintenance/cache-generations")
    lists = ("/images", "/images/processing", "/tasks", "/executions/unknown", "/maintenance/cache-generations")
    cursors = {path: (await site.alice.get(path, params={"limit": 1})).json()["next_cursor"] for path in lists}
    for path in lists:
        for made_by, cursor in cursors.items():
            answer = await site.alice.get(path, params={"cursor": cursor})
            assert answer.status_code == (200 if made_by == path else 422), (path, made_by)


async def test_a_bug_tells_the_client_nothing_but_where_to_look(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("postgresql://admin:secret@db/imgproc")

    monkeypatch.setattr(type(site.deployment.policy), "probe", breaks)
    with caplog.at_level(logging.ERROR):
        answer = await site.alice.get("/operations/availability?operation=image.upload")
    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text
    request_id = answer.json()["details"]["request_id"]
    (record,) = [record for record in caplog.records if request_id in record.getMessage()]
    assert record.exc_info is not None


async def test_a_database_that_does_not_answer_is_no_bug(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise DatabaseUnavailable("the database does not answer")

    monkeypatch.setattr(type(site.deployment.uow), "begin", fails)
    for path in ("/images", "/tasks", "/search/status"):
        answer = await site.alice.get(path)
        assert (answer.status_code, answer.json()["error"]) == (503, "database_unavailable")


async def test_a_denied_operation_says_when_to_come_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    retry_at = datetime.now(UTC) + timedelta(hours=1)

    async def denies(*_: object) -> None:
        raise OperationDenied("operation_limit_exceeded", "today's budget is used up", retry_at)

    monkeypatch.setattr(type(site.deployment.policy), "probe", denies)
    answer = await site.alice.get("/operations/availability?operation=image.upload")
    assert (answer.status_code, answer.json()["error"]) == (429, "operation_limit_exceeded")
    assert answer.json()["details"]["retry_at"].endswith("Z")
    assert 3500 < int(answer.headers["retry-after"]) <= 3600


async def test_health_needs_no_scope_and_names_what_fails(site: Site) -> None:
    assert (await site.nobody.get("/health/live")).json() == {"status": "live"}
    assert (await site.nobody.get("/health/ready")).json() == {"status": "ready"}
    assert (await site.nobody.head("/health/ready")).status_code == 200
    site.checks.update(database="does not answer", models=None)
    answer = await site.nobody.get("/health/ready")
    assert (answer.status_code, answer.json()["error"]) == (503, "not_ready")
    assert answer.json()["details"] == {"failing": {"database": "does not answer"}}
    assert (await site.nobody.head("/health/ready")).status_code == 503
    assert (await site.nobody.get("/health/live")).status_code == 200


def references(node: Any) -> list[str]:
    match node:
        case dict():
            own = [node["$ref"]] if "$ref" in node else []
            return own + [found for value in node.values() for found in references(value)]
        case list():
            return [found for value in node for found in references(value)]
        case _:
            return []


async def test_the_document_is_whole(site: Site) -> None:
    document = await document_of(site)
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == version("imgproc")
    operations = [(path, method, item[method]) for path, item in document["paths"].items() for method in item]
    names = [operation["operationId"] for _, _, operation in operations]
    assert len(names) == len(set(names))
    assert {reference.rsplit("/", 1)[0] for reference in references(document)} == {"#/components/schemas"}
    assert {r.rsplit("/", 1)[1] for r in references(document)} <= set(document["components"]["schemas"])
    for path, _, operation in operations:
        declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))
        assert operation["summary"]
        assert all(response["description"] for response in operation["responses"].values())
        assert "400" in operation["responses"]


SCALARS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def conforms(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    """Check a value against the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        return conforms(value, schemas[schema["$ref"].rsplit("/", 1)[1]], schemas)
    if "oneOf" in schema:
        return sum(conforms(value, option, schemas) for option in schema["oneOf"]) == 1
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    match schema.get("type"):
        case "object":
            return isinstance(value, dict) and object_conforms(value, schema, schemas)
        case "array":
            return isinstance(value, list) and all(conforms(item, schema["items"], schemas) for item in value)
        case None:
            return schema == {}
        case kind:
            return isinstance(value, SCALARS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def object_conforms(value: dict[str, Any], schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    whole = set(schema.get("required", [])) <= set(value)
    known = "additionalProperties" in schema or set(value) <= set(properties)
    return whole and known and all(conforms(value[n], properties[n], schemas) for n in set(value) & set(properties))


async def test_every_example_fits_its_schema(site: Site) -> None:
    document = await document_of(site)
    schemas = document["components"]["schemas"]
    checked = 0
    for path, item in document["paths"].items():
        for operation in item.values():
            for status, response in operation["responses"].items():
                for media in response.get("content", {}).values():
                    for example in media.get("examples", {}).values():
                        assert conforms(example["value"], media["schema"], schemas), (path, status, example)
                        checked += 1
    assert checked > 50


async def test_answers_fit_the_document(site: Site) -> None:
    document = await document_of(site)
    schemas = document["components"]["schemas"]
    ids = await site.lose_call()
    await site.describe(ids["meme_id"], "a surprised cat")
    for path, item in document["paths"].items():
        if "get" not in item or path.startswith("/media/"):
            continue
        query = {"operation": "image.upload"} if path.startswith("/operations") else {}
        answer = await site.alice.get(path.format(**ids), params=query)
        assert answer.status_code == 200
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert conforms(answer.json(), schema, schemas), path
    found = await site.alice.post("/search", json={"query": "cat"})
    schema = document["paths"]["/search"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert conforms(found.json(), schema, schemas)
