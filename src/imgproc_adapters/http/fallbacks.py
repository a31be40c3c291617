"""Answers in our shape where a router, and not the application, has to give them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from litestar import Request, Response, route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler

from imgproc_adapters.http.errors import MethodNotAllowed, NothingHere
from imgproc_adapters.http.queries import ANY_QUERY
from imgproc_adapters.http.scopes import PUBLIC

_OPEN: Final = {PUBLIC: True, ANY_QUERY: True}


def other_methods(handlers: Sequence[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """Return a handler for every path of ``handlers``: it answers OPTIONS, and 405 to the methods that have none.

    They are registered in front of ``handlers``: Litestar adds a handler of OPTIONS of its own to the first handler of
    a path, which knows only the methods of that one.
    """
    methods: dict[str, set[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            methods.setdefault(path, set()).update(handler.http_methods)
    return [_other_methods(path, found | {HttpMethod.OPTIONS.value}) for path, found in methods.items()]


def _other_methods(path: str, methods: set[str]) -> HTTPRouteHandler:
    allowed = ", ".join(sorted(methods))
    others = [method for method in HttpMethod if method is HttpMethod.OPTIONS or method.value not in methods]

    @route(path, http_method=others, include_in_schema=False, opt=_OPEN)
    async def other_method(request: Request[Any, Any, Any]) -> Response[None]:
        if request.method != HttpMethod.OPTIONS:
            raise MethodNotAllowed(allowed)
        return Response(None, status_code=204, headers={"Allow": allowed})

    return other_method


def unknown_paths(handlers: Sequence[HTTPRouteHandler]) -> HTTPRouteHandler:
    """Return a handler that answers 404 for everything below the router's path that none of ``handlers`` has."""
    known = {path for handler in handlers for path in handler.paths}
    inner = known | {prefix for path in known for prefix in _prefixes(path)}
    # one node of Litestar's tree has one parameter: below /images/{meme_id} ends what /images/{rest:path} would catch
    taken = {path.rpartition("/")[0] for path in inner if path.endswith("}")}
    deeper = {f"{path}/{{rest:path}}" for path in (inner | {""}) - taken}

    @route(sorted(deeper | (inner - known)), http_method=list(HttpMethod), include_in_schema=False, opt=_OPEN)
    async def unknown_path() -> None:
        raise NothingHere("there is nothing at this path")

    return unknown_path


def _prefixes(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(2, len(parts)))
