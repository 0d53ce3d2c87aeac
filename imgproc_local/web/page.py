"""The local page: the HTML, CSS and ES modules in `static/`, served as they are, without a build step.

Invariant: the page loads scripts, styles and pictures from its own origin only, and connects to no other. Its Content
Security Policy enforces that, and a test checks the files.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import Any

from litestar import Request, Response, Router
from litestar.datastructures import Cookie, ResponseHeader
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect

from imgproc_local.compose import Services
from imgproc_local.storage.sessions import COOKIE_MAX_AGE_S
from imgproc_local.web import local
from imgproc_local.web.guard import get, has_session, require_own_host

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)

SAFETY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

STATIC = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "service.js": "text/javascript",
    "pictures.js": "text/javascript",
    "card.js": "text/javascript",
    "keys.js": "text/javascript",
    "dom.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""The files in `static/` that are served by name, with their media types. Litestar adds the charset to text."""


@cache
def _file(name: str) -> tuple[bytes, str]:
    """The content of a file in `static/` and its entity tag."""
    content = resources.files(__package__).joinpath("static", name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@get("/", response_headers=[ResponseHeader(name="Cache-Control", value="no-store")])
async def index(request: Request[Any, Any, Any]) -> Response[Any]:
    """The page. A token in the link is exchanged for a cookie by a redirect, which removes it from the address bar."""
    services: Services = request.app.state.services
    presented = request.query_params.get("token")
    if presented is not None and services.page.opens(presented):
        cookie = Cookie(
            key=services.page.cookie_name,
            value=services.page.token,
            max_age=COOKIE_MAX_AGE_S,
            httponly=True,
            samesite="strict",
            path="/",
        )
        return Redirect("/", status_code=303, cookies=[cookie])
    if presented is None and has_session(request):
        return Response(_file("index.html")[0], media_type="text/html")
    return Response(_file("locked.html")[0], media_type="text/html", status_code=403)


@get("/static/{name:str}", response_headers=[ResponseHeader(name="Cache-Control", value="no-cache")])
async def static(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes | None]:
    """A file of the page. Browsers revalidate it each time, so that a new version of the program is used at once."""
    if name not in STATIC:
        raise NotFoundException
    content, etag = _file(name)
    if etag in re.findall(r'"[^"]*"', request.headers.get("if-none-match", "")):
        return Response(None, status_code=304, headers={"ETag": etag})
    return Response(content, media_type=STATIC[name], headers={"ETag": etag})


HANDLERS = [
    Router(
        path="/",
        route_handlers=[
            index,
            static,
            Router(
                path="/",
                route_handlers=[
                    local.overview,
                    local.list_keys,
                    local.create_key,
                    local.revoke_key,
                    local.create_ticket,
                ],
                response_headers=[ResponseHeader(name="Cache-Control", value="no-store")],
            ),
        ],
        guards=[require_own_host],
        response_headers=[ResponseHeader(name=name, value=value) for name, value in SAFETY_HEADERS.items()],
    )
]
