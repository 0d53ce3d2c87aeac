"""The guards of the local page check the host name, the session cookie and the origin of a request.

Listening on loopback is not enough. A foreign site can let its name resolve to 127.0.0.1 (DNS rebinding), pages of
other local servers count as the same site because cookies ignore the port, and every user of the machine can connect.
"""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import Any

from litestar import route
from litestar.connection import ASGIConnection
from litestar.enums import HttpMethod
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from imgproc_local.compose import Services

Connection = ASGIConnection[Any, Any, Any, Any]

get = partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])
"""Registers a handler for GET and for HEAD, whose response has no body. Source: RFC 9110, section 9.3.2."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def require_own_host(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a `Host` that is neither loopback nor the configured host, because of DNS rebinding."""
    services: Services = connection.app.state.services
    host = connection.headers.get("host", "")
    if not is_own_host(host, services.config.host):
        raise PermissionDeniedException(
            f"Expected the address that `imgproc-local serve` printed as Host, received {host[:80]!r}."
        )


def is_own_host(host: str, configured: str) -> bool:
    """Whether a `Host` header names this service. The port is not compared."""
    name = _host_name(host)
    if name in LOOPBACK_NAMES or name == configured.strip("[]").lower():
        return True
    # a service on all interfaces has addresses that no setting lists; they are safe, because DNS rebinding needs a name
    return configured.strip("[]") in ("0.0.0.0", "::") and _is_address(name)  # noqa: S104


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def has_session(connection: Connection) -> bool:
    """Whether the request has the session cookie with the right token."""
    services: Services = connection.app.state.services
    return services.page.is_token(connection.cookies.get(services.page.cookie_name, ""))


def require_session(connection: Connection, _: BaseRouteHandler) -> None:
    if not has_session(connection):
        raise NotAuthorizedException("There is no session. Open the link that `imgproc-local serve` printed.")


def require_same_origin(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request of another origin. Browsers always send `Origin` with a change, so it must not be missing."""
    origin = connection.headers.get("origin", "")
    expected = f"{connection.scope['scheme']}://{connection.headers.get('host', '')}"
    if origin.lower() != expected.lower():
        received = repr(origin[:80]) if origin else "none"
        raise PermissionDeniedException(
            f"Only the local page may do this: expected the Origin {expected}, received {received}."
        )
