"""The guards of the local page check the host name of a request and the secret of its session.

Listening on loopback is not enough. Every user of the machine can connect, a foreign site can let its name resolve to
127.0.0.1 (DNS rebinding), and any page can send requests here.

The page sends the secret of its session in the `Authorization` header and keeps it in `localStorage`, which browsers
separate by scheme, host and port. It must not be a cookie: browsers ignore the port of cookies, so they would give it
to the servers of other users on this host, and add it to requests that the pages of these servers cause. A request that
has the secret can therefore only come from the page, and its origin need not be checked.

Not prevented: a program that listens at this address while the service is stopped has the same origin.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from litestar import route
from litestar.connection import ASGIConnection
from litestar.enums import HttpMethod
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from imgproc_local.api.auth import TRUSTED_PROXY, services_of
from imgproc_local.domain.addresses import ALL_INTERFACES, host_name, is_loopback_name, parse_address
from imgproc_local.storage.sessions import PageSession

Connection = ASGIConnection[Any, Any, Any, Any]

get = partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])
"""Registers a handler for GET and for HEAD, whose response has no body. Source: RFC 9110, section 9.3.2."""


NO_SESSION = "There is no session. Open the link that `imgproc-local sign-in` prints."


def require_own_host(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a `Host` that is neither loopback nor the configured host, because of DNS rebinding.

    Neither TLS nor a trusted proxy needs this check: the browser has compared the name with the certificate, and the
    proxy knows its names.
    """
    if connection.scope["scheme"] == "https" or connection.scope["state"].get(TRUSTED_PROXY):
        return
    host = connection.headers.get("host", "")
    if not is_own_host(host, services_of(connection).config.host):
        raise PermissionDeniedException(
            f"Expected the address that `imgproc-local serve` printed as Host, received {host[:80]!r}."
        )


def is_own_host(host: str, configured: str) -> bool:
    """Whether a `Host` header names this service. The port is not compared."""
    name = host_name(host)
    if is_loopback_name(name) or name == configured.strip("[]").lower():
        return True
    # a service on all interfaces has addresses that no setting names; DNS rebinding needs a name
    return configured.strip("[]") in ALL_INTERFACES and parse_address(name) is not None


async def session_of(connection: Connection) -> PageSession | None:
    """The session whose secret the request has."""
    _, _, secret = connection.headers.get("authorization", "").partition(" ")
    return await services_of(connection).store.sessions.by_secret(secret)


async def require_session(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without a session; store the PageSession as `scope["user"]`."""
    session = await session_of(connection)
    if session is None:
        raise NotAuthorizedException(NO_SESSION)
    connection.scope["user"] = session
