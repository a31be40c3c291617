"""On whose behalf a request comes: decided before anything of its body is read."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from attrs import frozen
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from imgproc_domain.scope import Scope

Connection = ASGIConnection[Any, Any, Any, Any]

Call = Request[None, Scope, State]
"""A request whose scope has been resolved: it is ``request.auth``."""

Operators = bool | Callable[[Connection, BaseRouteHandler], Awaitable[None]]
"""Who may use the routes for operators: nobody, everybody who has a scope, or whom a guard lets pass."""

PUBLIC = "imgproc_public"
"""The handler option of routes that belong to no scope."""


class ScopeResolver(Protocol):
    """The host's way to tell tenants apart. Nothing that a client writes into a body or a query ever names a scope."""

    async def resolve(self, connection: Connection) -> Scope:
        """Return the scope of a request, from its headers, cookies or what the host's middleware found out.

        Raises:
            Unauthenticated: the request does not prove on whose behalf it comes.
        """
        ...


@frozen
class FixedScope:
    """Every request belongs to one scope: a service for one person on one machine."""

    scope: Scope

    async def resolve(self, connection: Connection) -> Scope:  # noqa: ARG002 - the same for every connection
        return self.scope


def guard_of(resolver: ScopeResolver) -> Guard:
    """Return the guard that resolves a request's scope; routes with the option `PUBLIC` have none."""

    async def resolve(connection: Connection, handler: BaseRouteHandler) -> None:
        if not handler.opt.get(PUBLIC):
            connection.scope["auth"] = await resolver.resolve(connection)

    return resolve


def guards_of(operators: Operators) -> list[Guard]:
    """Return the guards of the routes for operators."""
    if isinstance(operators, bool):
        return []

    # a function of ours: Litestar deep-copies routers it mounts, and would copy what a host's bound method belongs to
    async def refuse_others(connection: Connection, handler: BaseRouteHandler) -> None:
        await operators(connection, handler)

    return [refuse_others]
