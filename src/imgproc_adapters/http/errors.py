"""Every error as one shape and one table: `{"error": identifier, "message": for a person, "details": {...}?}`."""

import logging
import math
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from litestar import Request, Response
from litestar.enums import HttpMethod
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from imgproc_adapters.http.refusals import Place, parameter_refused, refused
from imgproc_domain import errors as domain
from imgproc_domain.policy import DenialReason

_log = logging.getLogger(__name__)

_NAME_LENGTH: Final = 100


class HttpError(domain.ImgprocError):
    """An error that only the HTTP interface knows; ``headers`` go with its answer."""

    @property
    def headers(self) -> Mapping[str, str]:
        return {}


class UnknownField(HttpError):
    """A body or a query carries a field that this operation does not have; scopes, states and grants never are one."""

    code = "unknown_field"

    @classmethod
    def named(cls, place: Place, names: Iterable[str], known: Iterable[str]) -> "UnknownField":
        """Return the error of fields at one place, beside the ones that the operation knows there."""
        unknown = sorted(name[:_NAME_LENGTH] for name in names)
        has = ", ".join(known) or "none"
        message = f"unknown field in the {place}: {', '.join(unknown)} (this operation has: {has})"
        return cls(message, **{"in": place, "fields": unknown})


class UnsupportedBody(HttpError):
    """The body is of another media type than the operation takes."""

    code = "unsupported_media"


class PayloadTooLarge(HttpError):
    """The whole body, or one of its headers, is larger than the server reads."""

    code = "payload_too_large"


class TooManyFiles(HttpError):
    """One upload carries more files than the server takes at once."""

    code = "too_many_files"


class Unauthenticated(HttpError):
    """The request does not say, or cannot prove, on whose behalf it comes."""

    code = "unauthenticated"


class CrossSiteRequest(HttpError):
    """A page of another site made a browser send a request that may change something."""

    code = "cross_site_request"


class UnknownHost(HttpError):
    """The Host header names none of the hosts that the service answers for."""

    code = "unknown_host"


class NothingHere(HttpError):
    """There is no such path."""

    code = "not_found"


class MethodNotAllowed(HttpError):
    """The path does not answer this method."""

    code = "method_not_allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__("this path does not answer this method")
        self.allowed = allowed

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Allow": self.allowed}


class RangeNotSatisfiable(HttpError):
    """The requested range begins behind the last of ``size`` bytes."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__("the range begins behind the last byte", size=size)
        self.size = size

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Content-Range": f"bytes */{self.size}"}


class NotReady(HttpError):
    """A readiness check fails."""

    code = "not_ready"


class ClientGone(HttpError):
    """The client went away before its body was complete; nobody reads the answer."""

    code = "client_gone"


STATUS: Final[Mapping[type[domain.ImgprocError], int]] = {
    domain.InvalidQuery: 400,
    domain.InvalidReverseImagePolicy: 400,
    UnknownField: 400,
    ClientGone: 400,
    Unauthenticated: 401,
    CrossSiteRequest: 403,
    UnknownHost: 403,
    NothingHere: 404,
    MethodNotAllowed: 405,
    domain.MemeNotFound: 404,
    domain.TaskNotFound: 404,
    domain.GenerationPolicyConflict: 409,
    domain.ContextConflict: 409,
    domain.JobNotRetryable: 409,
    domain.ExecutionNotUnknown: 409,
    domain.ExecutionAlreadyResolved: 409,
    domain.CallMayBeRunning: 409,
    domain.SearchIncomplete: 409,
    domain.LegacyNotReady: 409,
    domain.MigrationConflict: 409,
    domain.Conflict: 409,
    domain.ImageTooLarge: 413,
    PayloadTooLarge: 413,
    TooManyFiles: 413,
    domain.UnsupportedMedia: 415,
    UnsupportedBody: 415,
    RangeNotSatisfiable: 416,
    domain.InvalidValue: 422,
    domain.PictureRejected: 422,
    domain.CacheNotReady: 503,
    domain.ModelDeclined: 422,
    domain.ModelError: 503,
    domain.ModelTimeout: 504,
    domain.DatabaseUnavailable: 503,
    NotReady: 503,
    domain.InsufficientStorage: 507,
}
"""A class that is not here has the status of its nearest base; one without any is a bug of ours: 500."""

_DENIED: Final = {
    DenialReason.FORBIDDEN.value: 403,
    DenialReason.LIMIT_EXCEEDED.value: 429,
    DenialReason.UNAVAILABLE.value: 503,
}

_FRAMEWORK: Final = {
    400: "bad_request",
    401: "unauthenticated",
    403: "operation_forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media",
    422: "validation_error",
    429: "rate_limited",
    503: "unavailable",
}


@frozen
class Problem:
    """An error as it is answered."""

    status: int
    code: str
    message: str
    details: Mapping[str, object]

    @property
    def body(self) -> dict[str, object]:
        body: dict[str, object] = {"error": self.code, "message": self.message}
        return body | {"details": dict(self.details)} if self.details else body


def problem_of(error: domain.ImgprocError) -> Problem | None:
    """Return how a domain error is answered, or None if it is none that a client should meet."""
    if isinstance(error, domain.OperationDenied):
        status = _DENIED.get(error.code)
        return Problem(status, error.code, error.message, _plain(error.details)) if status else None
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), None)
    return Problem(status, error.code, error.message, _plain(error.details)) if status else None


def _plain(details: Mapping[str, object]) -> dict[str, object]:
    return {name: _value(value) for name, value in details.items() if value is not None}


def _value(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case UUID():
            return str(value)
        case Mapping():
            return {str(name): _value(item) for name, item in value.items()}
        case None:
            return None
        case list() | tuple():
            return [_value(item) for item in value]
        case bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response[dict[str, object]]:
    sent = {"Cache-Control": "no-store", **(headers or {})}
    return Response(problem.body, status_code=problem.status, headers=sent, media_type="application/json")


def _internal(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, object]]:
    request_id = secrets.token_hex(8)
    _log.error(
        "request %s failed: %s %s",
        request_id,
        request.method,
        request.scope.get("path_template", "without a route"),
        exc_info=error,
    )
    message = f"something went wrong here; it is logged as request {request_id}"
    return _respond(Problem(500, "internal_error", message, {"request_id": request_id}))


def _domain(request: Request[Any, Any, Any], error: domain.ImgprocError) -> Response[dict[str, object]]:
    problem = problem_of(error)
    if problem is None:
        return _internal(request, error)
    headers = dict(error.headers) if isinstance(error, HttpError) else {}
    if isinstance(error, domain.OperationDenied) and error.retry_at is not None:
        seconds = math.ceil((error.retry_at - datetime.now(UTC)).total_seconds())
        headers["Retry-After"] = str(max(seconds, 0))
    if isinstance(error, domain.ModelUnavailable) and error.retry_after is not None:
        headers["Retry-After"] = str(max(math.ceil(error.retry_after.total_seconds()), 0))
    return _respond(problem, headers)


def _invalid(request: Request[Any, Any, Any], error: ValidationException) -> Response[dict[str, object]]:
    parameters = request.route_handler.parsed_fn_signature.parameters
    extra = error.extra if isinstance(error.extra, list) else []
    names = dict.fromkeys(str(item.get("key", "")).partition(".")[0] for item in extra)
    found = [parameter_refused(parameters[name]) for name in names if name in parameters]
    return _domain(request, refused(*found) if found else domain.InvalidValue("the request is not valid"))


def _framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, object]]:
    if error.status_code == _METHOD_NOT_ALLOWED and request.method not in _METHODS:
        # the framework's Allow would name every method that a path answers with 405
        return _respond(Problem(501, "method_not_implemented", "this server does not know this method", {}))
    code = _FRAMEWORK.get(error.status_code)
    if code is None:
        return _internal(request, error)
    return _respond(Problem(error.status_code, code, _FRAMEWORK_MESSAGE.get(code, error.detail), {}), error.headers)


_METHOD_NOT_ALLOWED: Final = 405
_METHODS: Final = frozenset(method.value for method in HttpMethod)

_FRAMEWORK_MESSAGE: Final = {
    "not_found": "there is nothing at this path",
    "method_not_allowed": "this path does not answer this method",
    "payload_too_large": "the body is larger than this server reads",
}

HANDLERS: Final[ExceptionHandlersMap] = {
    domain.ImgprocError: _domain,
    ValidationException: _invalid,
    HTTPException: _framework,
    Exception: _internal,
}
"""For the application, so that unknown paths answer in the same shape, and for a router mounted elsewhere."""
