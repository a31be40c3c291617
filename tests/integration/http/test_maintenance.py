"""What an operator does over HTTP: copies of the index, and what a scope's searches read."""

from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.exceptions import PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from tests.integration.http.site import ALICE, BOB, OTHER, TENANT, Site, TenantHeader

from imgproc_adapters.http import Connection, Operators, create_app, create_router
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.migration import SearchMode, change
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.backfill import Embedding, embed
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.maintenance import build_generation
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

GENERATIONS = "/maintenance/cache-generations"
MIGRATION = "/maintenance/search-migration"
OWN = {"model": "scripted-text-1", "dimension": 64}
NEXT = {"model": OTHER.id, "dimension": OTHER.dimension}
ROUTES = [
    ("POST", GENERATIONS),
    ("GET", GENERATIONS),
    ("GET", MIGRATION),
    *(("POST", f"{MIGRATION}/{step}") for step in ("start", "switch", "rollback")),
]


async def described(site: Site, *titles: str) -> None:
    for title in titles:
        item = await site.upload(f"{title}.png")
        await site.describe(item["meme_id"], title)


async def filled(site: Site) -> None:
    async for page in embed(site.deployment, ALICE, Embedding(OTHER)):
        assert page.failed == ()


async def built(site: Site, scope: Scope = ALICE) -> None:
    """Build the queued generations as the task worker does."""
    claimed = await claim_tasks(site.deployment, scope, TaskType.CACHE, 10, OWNER)
    for execution in (await start(site.deployment, scope, claimed)).running:
        outcome = await build_generation(site.deployment, execution)
        await settle(site.deployment, scope, [Settling(execution.claim, None, outcome)])


async def in_mode(site: Site, *modes: SearchMode) -> None:
    """Bring the scope of before this version to where a person begins."""
    for mode in modes:
        async with site.deployment.uow.begin(ALICE) as tx:
            await tx.migration.save(change(await tx.migration.lock(), mode))


async def state(site: Site) -> dict[str, Any]:
    answer = await site.alice.get(MIGRATION)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def step(site: Site, name: str, **body: object) -> tuple[int, dict[str, Any]]:
    answer = await site.alice.post(f"{MIGRATION}/{name}", json=body or None)
    return answer.status_code, dict(answer.json())


async def test_a_copy_of_the_index_is_queued_built_and_listed(site: Site) -> None:
    await described(site, "a cat", "a dog")
    answer = await site.alice.post(GENERATIONS)
    queued = answer.json()
    assert (answer.status_code, queued["status"], queued["generation_id"], queued["entries"]) == (
        202,
        "queued",
        None,
        0,
    )
    task = (await site.alice.get(f"/tasks/{queued['task_id']}")).json()
    assert (task["task_type"], task["status"]) == ("cache_generation", "queued")
    await built(site)
    (found,) = (await site.alice.get(GENERATIONS)).json()["items"]
    assert (found["task_id"], found["status"], found["entries"]) == (queued["task_id"], "succeeded", 2)
    assert ({"model": found["model"], "dimension": found["dimension"]}, found["error"]) == (OWN, None)
    assert (await state(site))["generation_id"] == found["generation_id"]
    assert found["completed_at"]


async def test_copies_are_listed_newest_first_page_by_page_and_each_scope_sees_its_own(site: Site) -> None:
    first, second = [(await site.alice.post(GENERATIONS)).json()["task_id"] for _ in range(2)]
    page = (await site.alice.get(GENERATIONS, params={"limit": 1})).json()
    rest = (await site.alice.get(GENERATIONS, params={"limit": 1, "cursor": page["next_cursor"]})).json()
    assert [item["task_id"] for item in (*page["items"], *rest["items"])] == [second, first]
    assert rest["next_cursor"] is None
    assert (await site.bob.get(GENERATIONS)).json() == {"items": [], "next_cursor": None}


async def copied_behind_a_switch(site: Site) -> None:
    """One picture, another model that is switched to, and a copy of what is found then."""
    await described(site, "a cat")
    await filled(site)
    await step(site, "switch")
    await site.alice.post(GENERATIONS)
    await built(site)


async def test_a_copy_of_a_library_that_went_over_to_another_model_is_of_that_one(site: Site) -> None:
    await copied_behind_a_switch(site)
    (found,) = (await site.alice.get(GENERATIONS)).json()["items"]
    assert (found["model"], found["entries"]) == (OTHER.id, 1)


async def test_the_state_names_the_model_of_the_legacy_index_that_is_read(site: Site) -> None:
    await copied_behind_a_switch(site)
    await step(site, "rollback", to=OWN["model"])
    code, back = await step(site, "rollback", to="legacy")
    assert (code, back["read"], back["serving"]) == (200, NEXT, OWN)
    assert (await site.alice.get("/search/status")).json()["model"] == OTHER.id


async def test_another_model_is_switched_to_once_nothing_is_missing_and_back(site: Site) -> None:
    await described(site, "a cat", "a dog")
    before = await state(site)
    assert (before["serving"], before["filling"], before["target"], before["missing"]) == (OWN, None, OWN, 0)
    await filled(site)
    await described(site, "a parrot")
    code, refused = await step(site, "switch")
    assert (code, refused["error"], refused["details"]["missing"]) == (409, "search_incomplete", 1)
    assert len(refused["details"]["meme_ids"]) == 1
    assert await state(site) == {**before, "epoch": 2, "filling": NEXT, "target": NEXT, "missing": 1, "coverage": ALL}
    await filled(site)
    code, switched = await step(site, "switch")
    assert (code, switched["epoch"], switched["serving"], switched["filling"]) == (200, 3, NEXT, None)
    code, back = await step(site, "rollback", to=OWN["model"])
    assert (code, back["serving"], back["filling"], back["missing"]) == (200, OWN, None, 0)


ALL = {"searchable": 3, "total": 3}


async def test_pictures_may_be_given_up_on_purpose(site: Site) -> None:
    await described(site, "a cat")
    await filled(site)
    await described(site, "a dog", "a parrot")
    assert (await step(site, "switch", allow_missing=1))[0] == 409
    code, switched = await step(site, "switch", allow_missing=2)
    assert (code, switched["missing"], switched["coverage"]) == (200, 2, {"searchable": 1, "total": 3})


async def test_what_is_being_filled_can_be_given_up(site: Site) -> None:
    await described(site, "a cat")
    await filled(site)
    code, back = await step(site, "rollback")
    assert (code, back["serving"], back["filling"]) == (200, OWN, None)
    for name in ("switch", "rollback"):
        code, refused = await step(site, name)
        assert (code, refused["error"]) == (409, "search_migration_conflict")
        assert refused["details"] == {"mode": "incremental_only", "epoch": back["epoch"]}


async def test_a_legacy_index_is_left_and_returned_to(site: Site) -> None:
    await described(site, "a cat")
    code, refused = await step(site, "rollback", to="legacy")
    assert (code, refused["error"]) == (409, "legacy_not_ready")
    await site.alice.post(GENERATIONS)
    await built(site)
    modes = []
    for name, body in (("rollback", {"to": "legacy"}), ("start", {}), ("start", {}), ("switch", {})):
        code, now = await step(site, name, **body)
        assert code == 200, now
        modes.append((now["mode"], now["epoch"]))
    assert modes == [("legacy_only", 2), ("backfill", 3), ("backfill", 3), ("incremental_only", 4)]


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("start", {"scope_id": "bob"}, 400, "unknown_field"),
        ("switch", {"scope_id": "bob"}, 400, "unknown_field"),
        ("switch", {"allow_missing": -1}, 422, "validation_error"),
        ("switch", {"allow_missing": "all"}, 422, "validation_error"),
        ("switch", {"allow_missing": True}, 422, "validation_error"),
        ("rollback", {"to": "no-such-model"}, 422, "validation_error"),
        ("rollback", {"to": 7}, 422, "validation_error"),
        ("rollback", {"from": "legacy"}, 400, "unknown_field"),
    ],
    ids=str,
)
async def test_a_step_that_is_told_nonsense_is_refused(
    site: Site, name: str, body: dict[str, Any], status: int, code: str
) -> None:
    await described(site, "a cat")
    await filled(site)
    before = await state(site)
    found, refused = await step(site, name, **body)
    assert (found, refused["error"]) == (status, code)
    assert await state(site) == before


@pytest.mark.parametrize("path", [GENERATIONS, f"{MIGRATION}/start"])
@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b'{"scope_id": "bob"}', "application/json", 400, "unknown_field"),
        (b'{"space": "scripted-text-2"}', "application/json", 400, "unknown_field"),
        (b"[]", "application/json", 422, "validation_error"),
        (b"{", "application/json", 422, "validation_error"),
        (b"scope_id=bob", "application/x-www-form-urlencoded", 415, "unsupported_media"),
        (b'{"x": "%s"}' % (b"x" * 70_000), "application/json", 413, "payload_too_large"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else None,
)
async def test_where_there_is_nothing_to_say_a_body_that_says_something_is_refused(
    site: Site, path: str, body: bytes, content_type: str, status: int, code: str
) -> None:
    await in_mode(site, SearchMode.LEGACY_ONLY)
    answer = await site.alice.post(path, content=body, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert (await site.alice.get(GENERATIONS)).json()["items"] == []
    assert (await state_of_search(site)) is SearchMode.LEGACY_ONLY


@pytest.mark.parametrize("body", [{}, None], ids=str)
async def test_where_there_is_nothing_to_say_an_empty_body_says_it(site: Site, body: dict[str, Any] | None) -> None:
    await in_mode(site, SearchMode.LEGACY_ONLY)
    for path, status in ((GENERATIONS, 202), (f"{MIGRATION}/start", 200)):
        assert (await site.alice.post(path, json=body)).status_code == status
    assert (await state_of_search(site)) is SearchMode.BACKFILL


async def state_of_search(site: Site) -> SearchMode:
    async with site.deployment.uow.begin(ALICE) as tx:
        return (await tx.search.state()).mode


async def test_a_step_changes_its_own_scope_alone(site: Site) -> None:
    await described(site, "a cat")
    await filled(site)
    before = (await site.bob.get(MIGRATION)).json()
    assert (await step(site, "switch"))[0] == 200
    assert (await site.bob.get(MIGRATION)).json() == before


async def only_bob(connection: Connection, _: BaseRouteHandler) -> None:
    if connection.auth != BOB:
        raise PermissionDeniedException


async def asked(site: Site, operators: Operators, tenant: str | None, *, mounted: bool = False) -> list[int]:
    """Return the statuses of every route for operators."""

    async def ready() -> dict[str, str | None]:
        return {}

    if mounted:
        router = create_router(site.deployment, TenantHeader(), ready, path="/pictures", operators=operators)
        app = Litestar([router], openapi_config=None)
    else:
        app = create_app(site.deployment, TenantHeader(), ready, operators=operators)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # the two spell the same protocol differently
    headers = {TENANT: tenant} if tenant else {}
    async with httpx.AsyncClient(transport=transport, base_url="http://app", headers=headers) as client:
        prefix = "/pictures" if mounted else ""
        return [(await client.request(method, prefix + path)).status_code for method, path in ROUTES]


@pytest.mark.parametrize("mounted", [False, True], ids=["alone", "mounted"])
async def test_the_routes_exist_for_operators_alone(site: Site, *, mounted: bool) -> None:
    assert await asked(site, operators=False, tenant="alice", mounted=mounted) == [404] * len(ROUTES)
    assert await asked(site, operators=True, tenant=None, mounted=mounted) == [401] * len(ROUTES)
    assert await asked(site, operators=only_bob, tenant="alice", mounted=mounted) == [403] * len(ROUTES)
    # nothing is being completed in bob's scope, so that there is nothing to switch to and nothing to stop
    assert await asked(site, operators=only_bob, tenant="bob", mounted=mounted) == [202, 200, 200, 200, 409, 409]
