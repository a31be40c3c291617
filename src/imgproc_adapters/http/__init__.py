"""The HTTP interface: a Litestar router that a host mounts, and an application around it."""

from imgproc_adapters.http.errors import Unauthenticated
from imgproc_adapters.http.limits import HttpLimits
from imgproc_adapters.http.ready import Readiness
from imgproc_adapters.http.router import create_app, create_router
from imgproc_adapters.http.scopes import Connection, FixedScope, Operators, ScopeResolver

__all__ = [
    "Connection",
    "FixedScope",
    "HttpLimits",
    "Operators",
    "Readiness",
    "ScopeResolver",
    "Unauthenticated",
    "create_app",
    "create_router",
]
