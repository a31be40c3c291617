"""The whole interface put together."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.types import ControllerRouterHandler

from imgproc_adapters.http.errors import HANDLERS
from imgproc_adapters.http.health import get_liveness, get_readiness
from imgproc_adapters.http.images import get_picture, list_pictures, process_picture
from imgproc_adapters.http.jobs import get_job, get_task, list_jobs, list_tasks, retry
from imgproc_adapters.http.limits import HttpLimits
from imgproc_adapters.http.media import get_media, get_thumbnail
from imgproc_adapters.http.ready import Readiness
from imgproc_adapters.http.scopes import ScopeResolver, guard_of
from imgproc_adapters.http.search import get_availability, get_search_status, search
from imgproc_adapters.http.thumbnails import Thumbnails
from imgproc_adapters.http.uploads import upload_images
from imgproc_domain.usecases.deployment import Deployment

API_VERSION: Final = "0.1"
"""Of the contract, not of the package: it rises when a client has to change."""

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]

_HANDLERS: Final[tuple[ControllerRouterHandler, ...]] = (
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
    search,
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
) -> Router:
    """Return the routes below ``path``, for a host to mount in its own Litestar application.

    Errors of these routes have our shape; unknown paths are the host's to answer.
    """
    within = limits or HttpLimits()
    thumbnails = Thumbnails(deployment.decoder, within.thumbnail_side, within.thumbnail_cache_bytes)
    return Router(
        path,
        route_handlers=_HANDLERS,
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
) -> Litestar:
    """Return an application of these routes, with its OpenAPI document at ``/schema/openapi.json``.

    ``route_handlers`` are mounted beside them. Logging is left as the caller has set it up.
    """
    router = create_router(deployment, scope_resolver, readiness, limits=limits)
    return Litestar(
        route_handlers=[router, *route_handlers],
        exception_handlers=HANDLERS,
        openapi_config=openapi_config(),
        lifespan=list(lifespan),
        logging_config=None,
        debug=False,
    )


def openapi_config() -> OpenAPIConfig:
    """Return the head of the document. It is served as it is, not in a page that loads scripts from elsewhere."""
    return OpenAPIConfig(
        title="imgproc",
        version=API_VERSION,
        summary="Upload a picture, find it by describing what it means.",
        description=(
            'Every error has one shape: `{"error": identifier, "message": for a person, "details": {...}}`. '
            "Identifiers never change for the same cause. "
            "An id of somebody else's is answered exactly as one that does not exist."
        ),
        render_plugins=[JsonRenderPlugin(), YamlRenderPlugin()],
    )


def _always(value: Any) -> Provide:
    # a plain function: Litestar deep-copies routers it mounts, and would copy what a bound method belongs to
    def provide() -> Any:
        return value

    return Provide(provide, sync_to_thread=False)
