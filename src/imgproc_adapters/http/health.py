"""Whether the process lives, and whether it can be of use."""

from litestar import Response, route

from imgproc_adapters.http import wire
from imgproc_adapters.http.documents import READ, ApiOperation, answers, by_method
from imgproc_adapters.http.errors import NotReady
from imgproc_adapters.http.examples import LIVE, READY
from imgproc_adapters.http.provided import Ready
from imgproc_adapters.http.scopes import PUBLIC

_UNCACHED = {"Cache-Control": "no-store"}


@route(
    "/health/live",
    http_method=READ,
    operation_id=by_method("get_liveness"),
    operation_class=ApiOperation,
    summary="Does the process answer?",
    tags=["health"],
    opt={PUBLIC: True},
    responses=answers({200: (wire.Health, LIVE, "The process answers")}, public=True),
)
async def get_liveness() -> Response[wire.Health]:
    return Response(wire.Health("live"), headers=_UNCACHED)


@route(
    "/health/ready",
    http_method=READ,
    operation_id=by_method("get_readiness"),
    operation_class=ApiOperation,
    summary="Can the service be of use?",
    description="503 `not_ready` names the checks that fail, with their reasons, in `details.failing`.",
    tags=["health"],
    opt={PUBLIC: True},
    responses=answers({200: (wire.Health, READY, "Every check is fine")}, errors=("not_ready",), public=True),
)
async def get_readiness(readiness: Ready) -> Response[wire.Health]:
    checks = await readiness()
    failing = {name: reason for name, reason in checks.items() if reason is not None}
    if failing:
        raise NotReady(f"not ready: {', '.join(sorted(failing))}", failing=failing)
    return Response(wire.Health("ready"), headers=_UNCACHED)
