"""The whole interface put together."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.types import ControllerRouterHandler

from imgproc_adapters.http.errors import HANDLERS
from imgproc_adapters.http.executions import get_execution, list_executions, resolve_execution
from imgproc_adapters.http.fallbacks import other_methods, unknown_paths
from imgproc_adapters.http.health import get_liveness, get_readiness
from imgproc_adapters.http.images import get_picture, list_pictures, process_picture
from imgproc_adapters.http.jobs import get_job, get_task, list_jobs, list_tasks, retry
from imgproc_adapters.http.limits import HttpLimits
from imgproc_adapters.http.maintenance import OPERATORS_ALONE
from imgproc_adapters.http.media import get_media, get_thumbnail
from imgproc_adapters.http.queries import check_query
from imgproc_adapters.http.ready import Readiness
from imgproc_adapters.http.scopes import FixedScope, Operators, ScopeResolver, guard_of, guards_of
from imgproc_adapters.http.search import get_availability, get_search_status, search
from imgproc_adapters.http.similar import search_similar
from imgproc_adapters.http.sites import LOOPBACK, guard_of_site
from imgproc_adapters.http.thumbnails import Thumbnails
from imgproc_adapters.http.uploads import upload_images
from imgproc_domain.usecases.deployment import Deployment

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]

_HANDLERS: Final[tuple[HTTPRouteHandler, ...]] = (
    upload_images,
    list_pictures,
    get_picture,
    process_picture,
    get_media,
    get_thumbnail,
    list_jobs,
    get_job,
    retry,
    list_tasks,
    get_task,
    list_executions,
    get_execution,
    resolve_execution,
    search,
    search_similar,
    get_search_status,
    get_availability,
    get_liveness,
    get_readiness,
)


def create_router(
    deployment: Deployment,
    scope_resolver: ScopeResolver,
    readiness: Readiness,
    *,
    path: str = "/",
    limits: HttpLimits | None = None,
    operators: Operators = False,
) -> Router:
    """Return the routes below ``path``, for a host to mount in its own Litestar application.

    Every error of these routes has our shape. So have, below a ``path`` other than ``/``, an unknown path (404) and,
    below any, a known path with another method (405). What no router can answer is the host's, in the host's shape:
    ``path`` itself, unknown paths if the router is mounted at ``/``, methods that no route can
    have (PROPFIND), and whatever the host's middleware and guards refuse before a route is found.

    Whoever made the ``deployment`` closes its ``questions`` when nobody is served any more, as `create_app` does.

    Cross-site requests are not refused here, as they are by `create_app`: only the host knows which sites are its own.

    The routes below ``/maintenance`` change what a whole scope is searched with, and exist only with ``operators``:
    True lets everybody use them whom the resolver knows, a guard those whom it lets pass (it knows the scope already,
    as ``connection.auth``, and raises `litestar.exceptions.PermissionDeniedException` for the others).
    """
    within = limits or HttpLimits()
    thumbnails = Thumbnails(deployment.decoder, within.thumbnail_side, within.thumbnail_cache_bytes)
    handlers = (*_HANDLERS, *(OPERATORS_ALONE if operators else ()))
    maintenance = [Router("/", route_handlers=OPERATORS_ALONE, guards=guards_of(operators))] if operators else []
    elsewhere = [unknown_paths(handlers)] if path.strip("/") else []
    return Router(
        path,
        route_handlers=[*other_methods(handlers), *_HANDLERS, *maintenance, *elsewhere],
        before_request=check_query,
        guards=[guard_of(scope_resolver)],
        dependencies={
            "deployment": _always(deployment),
            "limits": _always(within),
            "readiness": _always(readiness),
            "thumbnails": _always(thumbnails),
        },
        exception_handlers=HANDLERS,
        request_max_body_size=within.json_bytes,
    )


def create_app(
    deployment: Deployment,
    scope_resolver: ScopeResolver,
    readiness: Readiness,
    *,
    lifespan: Sequence[Lifespan] = (),
    route_handlers: Sequence[ControllerRouterHandler] = (),
    limits: HttpLimits | None = None,
    hosts: Collection[str] | None = None,
    operators: Operators = False,
) -> Litestar:
    """Return an application of these routes, with its OpenAPI document at ``/schema/openapi.json``.

    ``route_handlers`` are mounted beside them. Logging is left as the caller has set it up.

    A page of another site cannot make a browser change anything here: such requests are answered with 403
    `cross_site_request`. ``hosts`` are the names, without ports, by which clients may call the service; a request for
    another name is answered with 403 `unknown_host`. Addresses and ``localhost`` are always among them. If it is left
    out, a `FixedScope`, which asks nobody for a key, answers only to those, and any other resolver to every name.
    ``operators`` are those of `create_router`.
    """
    open_to_all = isinstance(scope_resolver, FixedScope)
    names = {*LOOPBACK, *(hosts or ())} if hosts is not None or open_to_all else None
    router = create_router(deployment, scope_resolver, readiness, limits=limits, operators=operators)
    return Litestar(
        route_handlers=[router, *route_handlers],
        guards=[guard_of_site(names)],
        exception_handlers=HANDLERS,
        openapi_config=openapi_config(),
        lifespan=[_closing(deployment), *lifespan],
        logging_config=None,
        debug=False,
    )


def _closing(deployment: Deployment) -> Lifespan:
    """Return what ends, with the application, the calls of models that no request waits for any more."""

    @asynccontextmanager
    async def closing(_: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await deployment.questions.close()

    return closing


def openapi_config() -> OpenAPIConfig:
    """Return the head of the document. It is served as it is, not in a page that loads scripts from elsewhere."""
    return OpenAPIConfig(
        title="imgproc",
        version=version("imgproc"),
        summary="Upload a picture, find it by describing what it means.",
        description=(
            'Every error has one shape: `{"error": identifier, "message": for a person, "details": {...}}`. '
            "Identifiers never change for the same cause. "
            "An id of somebody else's is answered exactly as one that does not exist. "
            "A query parameter that an operation does not have is refused with 400 `unknown_field`. "
            "What a browser sends to change something for a page of another site is refused with 403 "
            "`cross_site_request`, a Host header that names another service with 403 `unknown_host`."
        ),
        render_plugins=[JsonRenderPlugin(), YamlRenderPlugin()],
    )


def _always(value: Any) -> Provide:
    # a plain function: Litestar deep-copies routers it mounts, and would copy what a bound method belongs to
    def provide() -> Any:
        return value

    return Provide(provide, sync_to_thread=False)
