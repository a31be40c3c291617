"""How handlers describe themselves in the OpenAPI document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import (
    Example,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Reference,
    RequestBody,
    Schema,
)
from litestar.params import PathParameter, QueryParameter
from litestar.types import OperationIDCreator

from imgproc_adapters.http.errors import problem_of
from imgproc_adapters.http.examples import ERRORS
from imgproc_adapters.http.wire import ErrorBody

_UUID: Final = {"format": "uuid"}

MemeIdPath = Annotated[str, PathParameter(description="The picture's id.", schema_extra=_UUID)]
JobIdPath = Annotated[str, PathParameter(description="The job's id.", schema_extra=_UUID)]
TaskIdPath = Annotated[str, PathParameter(description="The task's id.", schema_extra=_UUID)]
Cursor = Annotated[str | None, QueryParameter(description="The `next_cursor` of the page before.")]
Limit = Annotated[int, QueryParameter(ge=1, le=100, description="How many items a page has.")]

READ: Final = (HttpMethod.GET, HttpMethod.HEAD)
"""The methods of a handler that only reads: whoever may ask for a body may ask for its headers."""

_PROBLEMS: Final = {problem.code: problem for problem in map(problem_of, ERRORS) if problem}
_ALWAYS: Final = ("unauthenticated", "database_unavailable")


def answers(
    answered: Mapping[int, tuple[type[Any], Any, str]], errors: Sequence[str] = (), *, public: bool = False
) -> dict[int, ResponseSpec]:
    """Return the responses of an operation: a class, an example and a description by status; errors by their ids."""
    found = {status: _answer(*answer) for status, answer in answered.items()}
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*errors, "unknown_field", *(() if public else _ALWAYS))):
        by_status.setdefault(_PROBLEMS[code].status, []).append(code)
    return found | {status: _error(codes) for status, codes in by_status.items()}


def _answer(kind: type[Any], example: Any, description: str) -> ResponseSpec:
    return ResponseSpec(kind, description=description, generate_examples=False, examples=shown(example))


def shown(example: Any) -> list[Example]:
    """Return an instance of a wire class as an example."""
    return [Example(value=msgspec.to_builtins(example))]


def _error(codes: Sequence[str]) -> ResponseSpec:
    bodies = [Example(summary=code, value=_PROBLEMS[code].body) for code in codes]
    named = ", ".join(f"`{code}`" for code in codes)
    return ResponseSpec(ErrorBody, description=named, generate_examples=False, examples=bodies)


_HEAD: Final = "_head"


def by_method(name: str) -> OperationIDCreator:
    """Return a creator of operation ids for a handler of GET and HEAD."""

    def create(_handler: HTTPRouteHandler, method: Any, _path: Any) -> str:
        return f"{name}{_HEAD}" if method == HttpMethod.HEAD else name

    return create


@dataclass
class ApiOperation(Operation):
    """Leaves out the 400 that Litestar adds by itself, which has not our shape, and every body of a HEAD."""

    def __post_init__(self) -> None:
        added = (self.responses or {}).get("400")
        if isinstance(added, OpenAPIResponse) and _is_inline(added):
            self.responses = {status: found for status, found in (self.responses or {}).items() if status != "400"}
        if (self.operation_id or "").endswith(_HEAD):
            self.responses = {status: _bodiless(found) for status, found in (self.responses or {}).items()}


def _bodiless(response: OpenAPIResponse | Reference) -> OpenAPIResponse | Reference:
    return replace(response, content=None) if isinstance(response, OpenAPIResponse) else response


def _is_inline(response: OpenAPIResponse) -> bool:
    return any(isinstance(media.schema, Schema) for media in (response.content or {}).values())


@dataclass
class OptionalBodyOperation(ApiOperation):
    """An operation whose body may be left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


@dataclass
class UploadOperation(ApiOperation):
    """Takes a form that Litestar does not parse, and so cannot describe."""

    def __post_init__(self) -> None:
        super().__post_init__()
        file = Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")
        policy = Schema(type=OpenAPIType.STRING, enum=["forbid", "auto"], default="forbid")
        form = Schema(
            type=OpenAPIType.OBJECT,
            properties={
                "reverse_image_policy": policy,
                "files": Schema(type=OpenAPIType.ARRAY, items=file, min_items=1, max_items=20),
            },
            required=["files"],
            additional_properties=False,
        )
        self.request_body = RequestBody(content={"multipart/form-data": OpenAPIMediaType(schema=form)}, required=True)


def binary(media_type: str, description: str) -> ResponseSpec:
    """Return the description of a body of bytes."""
    return ResponseSpec(bytes, description=description, media_type=media_type, generate_examples=False)


def bare(description: str) -> ResponseSpec:
    """Return the description of an answer without a body."""
    return ResponseSpec(None, description=description, generate_examples=False)
