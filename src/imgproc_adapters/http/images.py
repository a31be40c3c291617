"""Pictures: what there is, and asking for one to be processed again."""

from typing import Annotated, Final

from litestar import Response, post, route
from litestar.params import JSONBody, QueryParameter

from imgproc_adapters.http import convert, wire
from imgproc_adapters.http.bodies import StrictBody
from imgproc_adapters.http.documents import (
    READ,
    ApiOperation,
    Cursor,
    Limit,
    MemeIdPath,
    OptionalBodyOperation,
    answers,
    by_method,
)
from imgproc_adapters.http.examples import IMAGE, IMAGES, PROCESSING
from imgproc_adapters.http.identifiers import PageOf, parse_meme_id, read_cursor
from imgproc_adapters.http.provided import Served
from imgproc_adapters.http.scopes import Call
from imgproc_domain.ids import MemeId
from imgproc_domain.job import JobStatus
from imgproc_domain.stage import parse_policy
from imgproc_domain.submission import Mode, Submission
from imgproc_domain.usecases.submit import Submitted, submit
from imgproc_domain.usecases.views import get_image, list_images

Status = Annotated[JobStatus | None, QueryParameter(description="Only pictures whose newest job has this status.")]
Search = Annotated[str, QueryParameter(max_length=255, description="Part of a file name, in any case.")]

_DEFAULTS: Final = wire.ProcessingRequest()
"""What an empty body asks for."""


@route(
    "/images",
    http_method=READ,
    operation_id=by_method("list_images"),
    operation_class=ApiOperation,
    summary="List pictures",
    description="Newest first. Follow `next_cursor` until it is null.",
    tags=["images"],
    responses=answers(
        {200: (wire.ImagePage, IMAGES, "A page of pictures, newest first")}, errors=("validation_error",)
    ),
)
async def list_pictures(
    deployment: Served,
    request: Call,
    search: Search = "",
    status: Status = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> wire.ImagePage:
    found = read_cursor(PageOf.IMAGES, cursor)
    page = await list_images(deployment, request.auth, MemeId(found) if found else None, limit, search, status)
    return convert.image_page(page, convert.Links.of(request))


@route(
    "/images/{meme_id:str}",
    http_method=READ,
    operation_id=by_method("get_image"),
    operation_class=ApiOperation,
    summary="One picture with its context",
    tags=["images"],
    responses=answers(
        {200: (wire.ImageDetail, IMAGE, "The picture, its products, its newest job and its context")},
        errors=("meme_not_found",),
    ),
)
async def get_picture(deployment: Served, request: Call, meme_id: MemeIdPath) -> wire.ImageDetail:
    view = await get_image(deployment, request.auth, parse_meme_id(meme_id))
    return convert.image_detail(view, convert.Links.of(request))


@post(
    "/images/{meme_id:str}/processing",
    operation_id="process_image",
    operation_class=OptionalBodyOperation,
    summary="Process one picture again",
    description=(
        "An explicit request: a job that failed, was blocked or ended as `unknown_execution` gets a new revision; an "
        "active one under the same policy, or one whose products are all valid, is reused."
    ),
    tags=["processing"],
    dto=StrictBody[wire.ProcessingRequest],
    return_dto=None,
    status_code=202,
    responses=answers(
        {202: (wire.ProcessingResult, PROCESSING, "The job that now stands for the picture, new or reused")},
        errors=(
            "invalid_reverse_image_policy",
            "unknown_field",
            "meme_not_found",
            "generation_policy_conflict",
            "payload_too_large",
            "unsupported_media",
            "validation_error",
        ),
    ),
)
async def process_picture(
    deployment: Served, request: Call, meme_id: MemeIdPath, data: JSONBody[wire.ProcessingRequest] = _DEFAULTS
) -> Response[wire.ProcessingResult]:
    policy = parse_policy(data.reverse_image_policy)
    submission = Submission(parse_meme_id(meme_id), policy, Mode.EXPLICIT)
    (answer,) = await submit(deployment, request.auth, [submission])
    if not isinstance(answer, Submitted):
        raise answer
    return Response(convert.processing(answer))
