"""What an operator does to a whole scope: index copies, and what its searches read. Not for its users."""

from typing import Final

from litestar import post, route
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from imgproc_adapters.http import convert_maintenance as convert
from imgproc_adapters.http import wire_maintenance as wire
from imgproc_adapters.http.bodies import StrictBody
from imgproc_adapters.http.documents import (
    READ,
    ApiOperation,
    Cursor,
    Limit,
    OptionalBodyOperation,
    answers,
    by_method,
)
from imgproc_adapters.http.examples import (
    CACHE_GENERATION,
    CACHE_GENERATIONS,
    SEARCH_MIGRATION,
    SEARCH_ROLLED_BACK,
    SEARCH_SWITCHED,
)
from imgproc_adapters.http.identifiers import PageOf, read_cursor
from imgproc_adapters.http.provided import Served
from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_adapters.http.scopes import Call
from imgproc_domain.ids import TaskId
from imgproc_domain.search import Source
from imgproc_domain.usecases import maintenance, migrate_search
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.migrate_search import RollbackTo

_BODY_ERRORS: Final = ("unknown_field", "payload_too_large", "unsupported_media", "validation_error")
_NOTHING: Final = wire.NothingMore()
_NO_SWITCH: Final = wire.SwitchRequest()
_NO_ROLLBACK: Final = wire.RollbackRequest()


@post(
    "/maintenance/cache-generations",
    operation_id="build_cache_generation",
    operation_class=OptionalBodyOperation,
    summary="Copy the search index",
    description=(
        "Queues a task that copies everything that can be found now: what a rollback to the legacy index would read. "
        "It changes nothing of what searches find."
    ),
    tags=["maintenance"],
    dto=StrictBody[wire.NothingMore],
    return_dto=None,
    status_code=202,
    responses=answers(
        {202: (wire.CacheGenerationBody, CACHE_GENERATION, "The generation that is now queued")}, errors=_BODY_ERRORS
    ),
)
async def build_cache_generation(
    deployment: Served,
    request: Call,
    data: JSONBody[wire.NothingMore] = _NOTHING,  # noqa: ARG001 - what it says too much is refused where it is decoded
) -> wire.CacheGenerationBody:
    task = await maintenance.request_generation(deployment, request.auth)
    return convert.cache_generation(await maintenance.show_generation(deployment, request.auth, task.task_id))


@route(
    "/maintenance/cache-generations",
    http_method=READ,
    operation_id=by_method("list_cache_generations"),
    operation_class=ApiOperation,
    summary="List copies of the search index",
    tags=["maintenance"],
    responses=answers(
        {200: (wire.CacheGenerationPage, CACHE_GENERATIONS, "A page of generations, newest first")},
        errors=("validation_error",),
    ),
)
async def list_cache_generations(
    deployment: Served, request: Call, cursor: Cursor = None, limit: Limit = 10
) -> wire.CacheGenerationPage:
    found = read_cursor(PageOf.GENERATIONS, cursor)
    after = TaskId(found) if found else None
    return convert.cache_generation_page(await maintenance.list_generations(deployment, request.auth, after, limit))


@route(
    "/maintenance/search-migration",
    http_method=READ,
    operation_id=by_method("get_search_migration"),
    operation_class=ApiOperation,
    summary="What searches read, and what is missing for a switch",
    tags=["maintenance"],
    responses=answers({200: (wire.SearchMigrationBody, SEARCH_MIGRATION, "The state of the scope's searches")}),
)
async def get_search_migration(deployment: Served, request: Call) -> wire.SearchMigrationBody:
    return await _state(deployment, request)


@post(
    "/maintenance/search-migration/start",
    operation_id="start_search_migration",
    operation_class=OptionalBodyOperation,
    summary="Begin to leave the legacy index",
    description=(
        "From `legacy_only` to `backfill`: searches go on reading the legacy index until a switch. Any other mode "
        "stays as it is. Another model is begun by `imgproc backfill embed`, which is where the work is done."
    ),
    tags=["maintenance"],
    dto=StrictBody[wire.NothingMore],
    return_dto=None,
    status_code=200,
    responses=answers(
        {200: (wire.SearchMigrationBody, SEARCH_MIGRATION, "The state of the scope's searches")}, errors=_BODY_ERRORS
    ),
)
async def start_search_migration(
    deployment: Served,
    request: Call,
    data: JSONBody[wire.NothingMore] = _NOTHING,  # noqa: ARG001 - as above
) -> wire.SearchMigrationBody:
    await migrate_search.start(deployment, request.auth)
    return await _state(deployment, request)


@post(
    "/maintenance/search-migration/switch",
    operation_id="switch_search_migration",
    operation_class=OptionalBodyOperation,
    summary="Let searches read what was filled",
    description=(
        "In one step, and only if nothing is missing there (or no more than `allow_missing` pictures): otherwise "
        "`search_incomplete` says how many are, and names some."
    ),
    tags=["maintenance"],
    dto=StrictBody[wire.SwitchRequest],
    return_dto=None,
    status_code=200,
    responses=answers(
        {200: (wire.SearchMigrationBody, SEARCH_SWITCHED, "The state of the scope's searches")},
        errors=(*_BODY_ERRORS, "search_incomplete", "search_migration_conflict"),
    ),
)
async def switch_search_migration(
    deployment: Served, request: Call, data: JSONBody[wire.SwitchRequest] = _NO_SWITCH
) -> wire.SearchMigrationBody:
    await migrate_search.switch(deployment, request.auth, _missing(data.allow_missing))
    return await _state(deployment, request)


@post(
    "/maintenance/search-migration/rollback",
    operation_id="roll_back_search_migration",
    operation_class=OptionalBodyOperation,
    summary="Go back to what searches read before",
    description=(
        "Stops filling, or goes back `to` a model whose vectors are still there, or to `legacy`. A model that lacks "
        "pictures by now answers `search_incomplete` and is being filled again."
    ),
    tags=["maintenance"],
    dto=StrictBody[wire.RollbackRequest],
    return_dto=None,
    status_code=200,
    responses=answers(
        {200: (wire.SearchMigrationBody, SEARCH_ROLLED_BACK, "The state of the scope's searches")},
        errors=(
            *_BODY_ERRORS,
            "search_incomplete",
            "search_migration_conflict",
            "legacy_not_ready",
            "model_not_configured",
        ),
    ),
)
async def roll_back_search_migration(
    deployment: Served, request: Call, data: JSONBody[wire.RollbackRequest] = _NO_ROLLBACK
) -> wire.SearchMigrationBody:
    to = _to(deployment, data.to)
    await migrate_search.rollback(deployment, request.auth, to, _missing(data.allow_missing))
    return await _state(deployment, request)


OPERATORS_ALONE: Final[tuple[HTTPRouteHandler, ...]] = (
    build_cache_generation,
    list_cache_generations,
    get_search_migration,
    start_search_migration,
    switch_search_migration,
    roll_back_search_migration,
)


async def _state(deployment: Deployment, request: Call) -> wire.SearchMigrationBody:
    return convert.migration(await migrate_search.status(deployment, request.auth))


def _missing(allowed: int) -> int:
    if not 0 <= allowed <= wire.MOST_MISSING:
        raise refused(Refusal("body", "allow_missing", f"a whole number from 0 to {wire.MOST_MISSING}"))
    return allowed


def _to(deployment: Deployment, name: str | None) -> RollbackTo:
    if name is None:
        return None
    if name == Source.LEGACY:
        return Source.LEGACY
    spaces = {model.space.id: model.space for model in (deployment.text, *deployment.more_text)}
    if name not in spaces:
        raise refused(Refusal("body", "to", f"one of {', '.join((Source.LEGACY, *spaces))}"))
    return spaces[name]
