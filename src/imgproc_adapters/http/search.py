"""Searches, and what they read."""

from typing import Annotated

from litestar import post, route
from litestar.params import Body, QueryParameter

from imgproc_adapters.http import convert, wire
from imgproc_adapters.http.bodies import StrictBody
from imgproc_adapters.http.documents import READ, ApiOperation, answers, by_method, shown
from imgproc_adapters.http.examples import AVAILABILITY, SEARCH, SEARCH_REQUEST, SEARCH_STATUS
from imgproc_adapters.http.provided import Served
from imgproc_adapters.http.scopes import Call
from imgproc_domain.policy import Operation
from imgproc_domain.search import Ranking, parse_query
from imgproc_domain.usecases import migrate_search
from imgproc_domain.usecases import search as usecase
from imgproc_domain.usecases.views import get_images

ProbedOperation = Annotated[Operation, QueryParameter(description="The operation to ask about.")]
SearchBody = Annotated[wire.SearchRequest, Body(examples=shown(SEARCH_REQUEST))]


@post(
    "/search",
    operation_id="search",
    operation_class=ApiOperation,
    summary="Find pictures by what they mean, and by their words",
    description=(
        "Ask in Chinese or English. Results stand best first; every result is of the same `source`. The order is the"
        " same for every page: ask again with `next_offset` as `offset` for what comes behind."
    ),
    tags=["search"],
    dto=StrictBody[wire.SearchRequest],
    return_dto=None,
    status_code=200,
    responses=answers(
        {200: (wire.SearchAnswer, SEARCH, "The pictures found, best first, and how many could have been")},
        errors=(
            "invalid_query",
            "unknown_field",
            "payload_too_large",
            "unsupported_media",
            "validation_error",
            "cache_not_ready",
            "model_not_configured",
            "model_declined",
            "model_unavailable",
            "model_timeout",
        ),
    ),
)
async def search(deployment: Served, request: Call, data: SearchBody) -> wire.SearchAnswer:
    query = parse_query(data.query, data.n_results, data.min_score, Ranking(data.mode), data.offset)
    answer = await usecase.search(deployment, request.auth, query)
    pictures = await get_images(deployment, request.auth, [hit.meme_id for hit in answer.hits])
    links = convert.Links.of(request)
    # a picture that was deleted since the search is no result any more
    found = [hit for hit in answer.hits if hit.meme_id in pictures]
    return convert.search_answer(answer, [convert.search_result(hit, pictures[hit.meme_id], links) for hit in found])


@route(
    "/search/status",
    http_method=READ,
    operation_id=by_method("get_search_status"),
    operation_class=ApiOperation,
    summary="What searches read",
    tags=["search"],
    responses=answers(
        {200: (wire.SearchStatusBody, SEARCH_STATUS, "The mode, the model, and how many pictures can be found")}
    ),
)
async def get_search_status(deployment: Served, request: Call) -> wire.SearchStatusBody:
    return convert.search_status(await migrate_search.reading(deployment, request.auth))


@route(
    "/operations/availability",
    http_method=READ,
    operation_id=by_method("get_availability"),
    operation_class=ApiOperation,
    summary="Would an operation be allowed?",
    description="Asks the operation policy and reserves nothing. `retry_at` is a hint: nothing retries by itself.",
    tags=["operations"],
    responses=answers(
        {200: (wire.Availability, AVAILABILITY, "Whether the operation would be allowed now, and if not, why")},
        errors=("validation_error",),
    ),
)
async def get_availability(deployment: Served, request: Call, operation: ProbedOperation) -> wire.Availability:
    return convert.availability(operation, await deployment.policy.probe(request.auth, operation))
