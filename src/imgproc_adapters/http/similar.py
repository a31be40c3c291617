"""`POST /search/similar`: by a picture of the library, or by one that is sent and not kept."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec
from attrs import define, field
from litestar import post
from litestar.openapi.spec import Example, OpenAPIFormat, OpenAPIMediaType, OpenAPIType, RequestBody, Schema

from imgproc_adapters.http.bodies import decode
from imgproc_adapters.http.convert import Links
from imgproc_adapters.http.convert_similar import similar_answer
from imgproc_adapters.http.documents import ApiOperation, answers
from imgproc_adapters.http.errors import TooManyFiles, UnknownField, UnsupportedBody
from imgproc_adapters.http.examples_similar import SIMILAR, SIMILAR_REQUEST
from imgproc_adapters.http.identifiers import parse_meme_id
from imgproc_adapters.http.limits import HttpLimits
from imgproc_adapters.http.parts import Form, Part, body_of, boundary_of, rejection
from imgproc_adapters.http.provided import Served, Within
from imgproc_adapters.http.refusals import Refusal, refused
from imgproc_adapters.http.scopes import Call
from imgproc_adapters.http.wire_similar import SimilarAnswer, SimilarRequest
from imgproc_domain.errors import PictureRejected
from imgproc_domain.scope import Scope
from imgproc_domain.search import MAX_RESULTS
from imgproc_domain.similar import Match
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.similar import similar_to, similar_to_picture
from imgproc_domain.usecases.views import get_images

FILE: Final = "file"
N_RESULTS: Final = "n_results"
MIN_SCORE: Final = "min_score"

_JSON: Final = "application/json"
_FORM: Final = "multipart/form-data"

_DESCRIPTION: Final = """\
Ask by the `meme_id` of a picture of the library, which is not among its own results, or send one as the part `file` of
a form, with `n_results` and `min_score` as fields **in front of** it. What is sent is looked at and forgotten.

`kind` is `exact` for the same bytes, `near` for what is by all appearances an edited copy, and else `similar`. What is
compared is what pictures look like: two that differ in their words alone are near duplicates.

A picture can be found once its visual stage is done. One whose stage is still to come, and one that is sent, is looked
at for the question. If the model has no vector for it, `model_declined` (and never will), `model_unavailable` (not this
time), `model_timeout` (not in time) or `model_not_configured` says why.
"""


@dataclass
class SimilarOperation(ApiOperation):
    """Takes JSON or a form, which no handler's signature can say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        results = Schema(type=OpenAPIType.INTEGER, minimum=1, maximum=MAX_RESULTS, default=10)
        score = Schema(type=OpenAPIType.NUMBER, minimum=-1, maximum=1)
        meme = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.UUID)
        file = Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")
        by_id = _object({"meme_id": meme, N_RESULTS: results, MIN_SCORE: score}, "meme_id")
        by_file = _object({N_RESULTS: results, MIN_SCORE: score, FILE: file}, FILE)
        example = Example(value=msgspec.to_builtins(SIMILAR_REQUEST))
        self.request_body = RequestBody(
            content={
                _JSON: OpenAPIMediaType(schema=by_id, examples={"by_id": example}),
                _FORM: OpenAPIMediaType(schema=by_file),
            },
            required=True,
        )


def _object(properties: dict[str, Schema], required: str) -> Schema:
    return Schema(type=OpenAPIType.OBJECT, properties={**properties}, required=[required], additional_properties=False)


@define
class _Asked:
    """One form in progress."""

    deployment: Deployment
    scope: Scope
    found: Sequence[Match] | None = None
    _fields: dict[str, str] = field(factory=dict)

    async def take(self, part: Part) -> None:
        """Take one part in; the file is the question.

        Raises:
            TooManyFiles, UnknownField, InvalidValue: the form as a whole is refused.
            PictureRejected, InsufficientStorage, CacheNotReady, ModelError: as `similar_to_picture`.
        """
        if part.name == FILE:
            await self._ask(part)
        elif part.name in (N_RESULTS, MIN_SCORE):
            if self.found is not None or part.name in self._fields:
                raise refused(Refusal("body", part.name, "one field in front of the file"))
            self._fields[part.name] = await part.text()
        else:
            raise UnknownField.named("body", [part.name], (FILE, N_RESULTS, MIN_SCORE))

    async def _ask(self, part: Part) -> None:
        if part.filename is None:
            raise refused(Refusal("body", FILE, "a file, that is a part with a file name"))
        if self.found is not None:
            raise TooManyFiles("one question has one file", limit=1)
        number, least = self._number(), self._least()
        try:
            self.found = await similar_to_picture(self.deployment, self.scope, part, number, least)
        except PictureRejected as error:
            # whoever is still sending reads the answer only when everything is sent
            await part.skip()
            raise rejection(part, error, self.deployment.limits.upload_bytes) from error

    def _number(self) -> int:
        text = self._fields.get(N_RESULTS, "10")
        if not (text.isascii() and text.isdecimal()):
            raise refused(Refusal("body", N_RESULTS, f"a whole number from 1 to {MAX_RESULTS}"))
        # as many digits as no limit of numbers has, so that any more are too many as well
        return int(text[:9])

    def _least(self) -> float | None:
        text = self._fields.get(MIN_SCORE)
        try:
            return None if text is None else float(text)
        except ValueError as error:
            raise refused(Refusal("body", MIN_SCORE, "a number from -1 to 1")) from error


@post(
    "/search/similar",
    operation_id="search_similar",
    operation_class=SimilarOperation,
    summary="Find pictures that look alike",
    description=_DESCRIPTION,
    tags=["search"],
    status_code=200,
    responses=answers(
        {200: (SimilarAnswer, SIMILAR, "The pictures that look most like it")},
        errors=(
            "invalid_query",
            "unknown_field",
            "meme_not_found",
            "payload_too_large",
            "too_many_files",
            "unsupported_media",
            "image_corrupt",
            "validation_error",
            "cache_not_ready",
            "model_not_configured",
            "model_declined",
            "model_unavailable",
            "model_timeout",
            "insufficient_storage",
        ),
    ),
)
async def search_similar(deployment: Served, limits: Within, request: Call) -> SimilarAnswer:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() == _FORM:
        found = await _by_picture(deployment, limits, request, boundary_of(content_type))
    else:
        found = await _by_id(deployment, request, content_type)
    pictures = await get_images(deployment, request.auth, [match.meme_id for match in found])
    return similar_answer(found, pictures, Links.of(request))


async def _by_id(deployment: Deployment, request: Call, content_type: str) -> Sequence[Match]:
    body = await request.body()
    if body and content_type.partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedBody(f"the body must be sent as {_JSON} or {_FORM}")
    asked = decode(body, SimilarRequest)
    return await similar_to(deployment, request.auth, parse_meme_id(asked.meme_id), asked.n_results, asked.min_score)


async def _by_picture(deployment: Deployment, limits: HttpLimits, request: Call, boundary: str) -> Sequence[Match]:
    asked = _Asked(deployment, request.auth)
    async with aclosing(body_of(request, deployment.limits.upload_bytes + limits.overhead_bytes)) as body:
        async for part in Form(body, boundary, limits.fields + 1):
            await asked.take(part)
    if asked.found is None:
        raise refused(Refusal("body", FILE, "a file"))
    return asked.found
