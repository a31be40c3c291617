"""What a browser can be made to send by a page of somebody else: refused before anything is read."""

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from imgproc_adapters.http.errors import CrossSiteRequest, UnknownHost
from imgproc_adapters.http.scopes import Connection

LOOPBACK: Final = frozenset({"localhost"})
"""Names that only this machine resolves; addresses are always fine."""

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_cross_site(method: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a request that may change something was sent by a page of another origin.

    Browsers say so in `Sec-Fetch-Site`, older ones in `Origin`; what sends neither is no browser. Header names are
    lower case.
    """
    if method in _SAFE_METHODS:
        return False
    fetched = headers.get("sec-fetch-site")
    if fetched is not None:
        return fetched not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and _authority(origin) != headers.get("host", "").lower()


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Tell whether a Host header is an address or one of ``names`` (lower case, without a port).

    A name that is neither may be somebody else's that was made to resolve to this machine (DNS rebinding): to the
    browser his page and this service would be the same site.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name.removesuffix(".") in names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def guard_of_site(names: Collection[str] | None) -> Guard:
    """Return the guard that refuses cross-site requests and, unless ``names`` is None, unknown hosts."""
    known = None if names is None else frozenset(name.lower() for name in names)

    async def refuse_foreign_pages(connection: Connection, _: BaseRouteHandler) -> None:
        host = connection.headers.get("host")
        if known is not None and host is not None and not is_known_host(host, known):
            raise UnknownHost("this service is not known under the name in the Host header")
        if is_cross_site(str(connection.scope.get("method", "GET")), connection.headers):
            raise CrossSiteRequest("a page of another site may not send this request")

    return refuse_foreign_pages
