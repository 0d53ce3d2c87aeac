"""The guards of the local page: a host name that is this machine's, the session's cookie, the page's own origin.

Loopback is no border by itself. A foreign site can let its name resolve to 127.0.0.1 (DNS rebinding), a page of any
other local server counts as the same site because cookies know no ports, and every user of the machine can connect.
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
    """Refuse a `Host` that is neither loopback nor the configured host: another name may be one that was rebound."""
    services: Services = connection.app.state.services
    host = connection.headers.get("host", "")
    if not is_own_host(host, services.config.host):
        raise PermissionDeniedException(
            "The local page answers only under the address that `imgproc-local serve` printed;"
            f" {host[:80]!r} came as Host."
        )


def is_own_host(host: str, configured: str) -> bool:
    """Whether a `Host` header names this service, its port aside."""
    name = _name(host)
    if name in LOOPBACK_NAMES or name == configured.strip("[]").lower():
        return True
    # listening everywhere, it is reached by addresses that no setting knows; only names can be rebound
    return configured.strip("[]") in ("0.0.0.0", "::") and _is_address(name)  # noqa: S104


def _name(host: str) -> str:
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
    services: Services = connection.app.state.services
    return services.page.is_token(connection.cookies.get(services.page.cookie_name, ""))


def require_session(connection: Connection, _: BaseRouteHandler) -> None:
    if not has_session(connection):
        raise NotAuthorizedException("There is no session; open the link that `imgproc-local serve` printed.")


def require_same_origin(connection: Connection, _: BaseRouteHandler) -> None:
    """For whatever changes something. Every browser sends `Origin` with it, so a missing one is refused too."""
    origin = connection.headers.get("origin", "")
    expected = f"{connection.scope['scheme']}://{connection.headers.get('host', '')}"
    if origin.lower() != expected.lower():
        came = f"{origin[:80]!r} came" if origin else "no Origin came"
        raise PermissionDeniedException(f"Only the local page itself may do this: Origin must be {expected}; {came}.")
