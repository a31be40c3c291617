"""Who may call: pages of other sites, names of other services, and a host that mounts the routes in its own."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from litestar import Litestar, Request, get
from tests.integration.http.site import ALICE, Site, png, serving

from imgproc_adapters.http import FixedScope, create_app, create_router

UNKNOWN = UUID("01981f4e-7c00-7abc-8def-0123456789ab")
FOREIGN = [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}]
CHANGING = [
    "/images",
    "/search",
    "/search/similar",
    f"/images/{UNKNOWN}/processing",
    f"/images/processing/{UNKNOWN}/retry",
    f"/executions/unknown/{UNKNOWN}/resolve",
    "/maintenance/cache-generations",
    "/maintenance/search-migration/start",
    "/maintenance/search-migration/switch",
    "/maintenance/search-migration/rollback",
]


async def ready() -> dict[str, str | None]:
    return {}


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_page_of_another_site_changes_nothing(site: Site, headers: dict[str, str]) -> None:
    document = (await site.nobody.get("/schema/openapi.json")).json()
    assert sum("post" in item for item in document["paths"].values()) == len(CHANGING)
    for path in CHANGING:
        answer = await site.alice.post(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "cross_site_request")
    sent = await site.alice.post("/images", files={"files": ("a.png", png("a"))}, headers=headers)
    assert sent.status_code == 403
    assert (await site.alice.get("/images", headers=headers)).json()["items"] == []


async def test_a_page_of_this_site_may_upload(site: Site) -> None:
    for name, headers in (("a", {"Sec-Fetch-Site": "same-origin"}), ("b", {"Origin": site.url})):
        answer = await site.alice.post("/images", files={"files": (name, png(name))}, headers=headers)
        assert answer.status_code == 201


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        (None, "localhost", 200),
        (None, "pictures.example", 403),
        (("Pictures.example",), "pictures.example", 200),
        (("pictures.example",), "localhost:80", 200),
        (("pictures.example",), "evil.example", 403),
    ],
)
async def test_a_service_without_keys_answers_only_to_its_names(
    site: Site, hosts: tuple[str, ...] | None, host: str, status: int
) -> None:
    app = create_app(site.deployment, FixedScope(ALICE), ready, hosts=hosts)
    async with serving(app) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/images")).status_code == 200
        answer = await client.get("/images", headers={"Host": host})
        assert answer.status_code == status
        assert status == 200 or answer.json()["error"] == "unknown_host"


async def test_a_service_with_keys_answers_to_every_name(site: Site) -> None:
    assert (await site.alice.get("/images", headers={"Host": "pictures.example"})).status_code == 200


async def test_a_host_mounts_the_routes_where_it_likes(site: Site) -> None:
    @get("/")
    async def home(request: Request[Any, Any, Any]) -> str:
        return f"the host, at {request.url.path}"

    router = create_router(site.deployment, FixedScope(ALICE), ready, path="/api/pictures")
    host = Litestar([home, router], openapi_config=None, logging_config=None)
    item = await site.upload("cat.png", png("cat"))
    async with serving(host) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/")).text == "the host, at /"
        (listed,) = (await client.get("/api/pictures/images")).json()["items"]
        assert listed["media_url"] == f"/api/pictures/media/{item['meme_id']}"
        assert (await client.get(listed["media_url"])).content == png("cat")
        missing = await client.get(f"/api/pictures/images/{UNKNOWN}")
        assert (missing.status_code, missing.json()["error"]) == (404, "meme_not_found")


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "media",
        "health",
        "health/live/x",
        "operations/x",
        "images/x/y/z",
        "media/x/y",
        "search/status/x",
        "tasks/a/b",
    ],
)
async def test_below_a_hosts_mount_unknown_paths_have_our_shape(site: Site, path: str) -> None:
    router = create_router(site.deployment, FixedScope(ALICE), ready, path="/api/pictures")
    host = Litestar([router], openapi_config=None, logging_config=None)
    async with serving(host) as url, httpx.AsyncClient(base_url=url) as client:
        for method in ("GET", "POST", "OPTIONS"):
            answer = await client.request(method, f"/api/pictures/{path}")
            assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
        refused = await client.delete("/api/pictures/search")
        assert (refused.status_code, refused.json()["error"]) == (405, "method_not_allowed")
        assert refused.headers["allow"] == "OPTIONS, POST"
        assert "error" not in (await client.get("/elsewhere")).json()


async def test_a_router_at_the_root_leaves_unknown_paths_to_its_host(site: Site) -> None:
    @get("/media")
    async def own() -> str:
        return "the host's"

    router = create_router(site.deployment, FixedScope(ALICE), ready)
    host = Litestar([own, router], openapi_config=None, logging_config=None)
    async with serving(host) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/media")).text == "the host's"
        assert (await client.put("/images")).json()["error"] == "method_not_allowed"
        unknown = await client.get("/nothing")
        assert (unknown.status_code, "error" in unknown.json()) == (404, False)
