"""The guards of the local page check the host name, the session cookie and the origin of a request.

Listening on loopback is not enough. A foreign site can let its name resolve to 127.0.0.1 (DNS rebinding), pages of
other local servers count as the same site because cookies ignore the port, and every user of the machine can connect.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from litestar import route
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.enums import HttpMethod
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from imgproc_local.compose import Services
from imgproc_local.domain.addresses import ALL_INTERFACES, host_name, is_loopback_name, parse_address
from imgproc_local.storage.sessions import PageSession, cookie_name
from imgproc_local.system.request_context import TRUSTED_PROXY

Connection = ASGIConnection[Any, Any, Any, Any]

get = partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])
"""Registers a handler for GET and for HEAD, whose response has no body. Source: RFC 9110, section 9.3.2."""


def require_own_host(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a `Host` that is neither loopback nor the configured host, because of DNS rebinding.

    Neither TLS nor a trusted proxy needs this check: the browser has compared the name with the certificate, and the
    proxy knows its names.
    """
    if connection.scope["scheme"] == "https" or connection.scope["state"].get(TRUSTED_PROXY):
        return
    services: Services = connection.app.state.services
    host = connection.headers.get("host", "")
    if not is_own_host(host, services.config.host):
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
    """The session that the request's cookie belongs to."""
    services: Services = connection.app.state.services
    secret = connection.cookies.get(cookie_name(services.config.data_dir), "")
    return await services.store.sessions.by_secret(secret)


def session_cookie(connection: Connection, secret: str, max_age_s: int) -> Cookie:
    """The cookie that signs a browser in. `max_age_s` 0 deletes it."""
    services: Services = connection.app.state.services
    return Cookie(
        key=cookie_name(services.config.data_dir),
        value=secret,
        max_age=max_age_s,
        httponly=True,
        samesite="strict",
        secure=connection.scope["scheme"] == "https",
        path="/",
    )


async def require_session(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without a session; store the PageSession as `scope["user"]`."""
    session = await session_of(connection)
    if session is None:
        raise NotAuthorizedException("There is no session. Open the link that `imgproc-local sign-in` prints.")
    connection.scope["user"] = session


def refuse_other_sites(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request that a page of another origin caused, such as by an `<img>`: pages on other ports of this host
    send the session's cookie too. Browsers that do not send `Sec-Fetch-Site` apply `Cross-Origin-Resource-Policy`.

    Source: W3C, Fetch Metadata Request Headers.
    """
    site = connection.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none"):
        raise PermissionDeniedException(
            f"Only the local page may do this: expected Sec-Fetch-Site same-origin, received {site[:20]!r}."
        )


def require_same_origin(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request of another origin. Browsers always send `Origin` with a change, so it must not be missing."""
    origin = connection.headers.get("origin", "")
    expected = f"{connection.scope['scheme']}://{connection.headers.get('host', '')}"
    if origin.lower() != expected.lower():
        received = repr(origin[:80]) if origin else "none"
        raise PermissionDeniedException(
            f"Only the local page may do this: expected the Origin {expected}, received {received}."
        )
