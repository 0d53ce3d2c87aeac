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
from litestar.datastructures import ResponseHeader
from litestar.enums import HttpMethod
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect

from imgproc_local.compose import Services
from imgproc_local.storage.sessions import SESSION_VALID_S
from imgproc_local.system.audit import audit
from imgproc_local.web import credits, exports, health, images, local, models, remarks, settings, storage
from imgproc_local.web.guard import get, refuse_other_sites, require_own_host, session_cookie, session_of

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

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

SCRIPTS = [
    "add-pictures", "app", "compare", "copy", "detail", "export", "files", "format", "help", "list", "messages",
    "model-progress", "observable", "order", "pictures", "preact", "progress", "service", "store", "text-editor",
    "texts", "thumbnail", "toolbar", "unpack", "upload", "view-access", "view-models", "view-parts",
    "view-settings", "view-storage", "view-welcome",
]  # fmt: skip
STATIC = {
    "style.css": "text/css",
    "panels.css": "text/css",
    "icon.svg": "image/svg+xml",
    **{f"{name}.js": "text/javascript" for name in SCRIPTS},
}
"""The files in `static/` that are served by name, with their media types. Litestar adds the charset to text."""


@cache
def _file(name: str) -> tuple[bytes, str]:
    """The content of a file in `static/` and its entity tag."""
    content = resources.files(__package__).joinpath("static", name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@get("/", response_headers=[ResponseHeader(name="Cache-Control", value="no-store")])
async def index(request: Request[Any, Any, Any]) -> Response[Any]:
    """The page. The token of a link is exchanged for a cookie by a redirect, which removes it from the address bar."""
    services: Services = request.app.state.services
    token = request.query_params.get("token")
    if await session_of(request) is not None:
        return (
            Response(_file("index.html")[0], media_type="text/html")
            if token is None
            else Redirect("/", status_code=303)
        )
    if token is not None and request.method == HttpMethod.GET:  # HEAD must change nothing
        opened = await services.store.sessions.sign_in(token, request.headers.get("user-agent", ""))
        if opened is not None:
            audit("session.begin", session=opened[0].id)
            cookie = session_cookie(request, opened[1], max_age_s=SESSION_VALID_S)
            return Redirect("/", status_code=303, cookies=[cookie])
    return Response(_file("locked.html")[0], media_type="text/html", status_code=403)


@get("/static/{name:str}", response_headers=[ResponseHeader(name="Cache-Control", value="no-cache")])
async def static(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes | None]:
    """A file of the page. Browsers revalidate it each time, so that a new version of the program is used at once.

    The connection is closed after it: a browser opens six for the files of a page, and would keep them open idle.
    """
    if name not in STATIC:
        raise NotFoundException
    content, etag = _file(name)
    if etag in re.findall(r'"[^"]*"', request.headers.get("if-none-match", "")):
        return Response(None, status_code=304, headers={"ETag": etag, "Connection": "close"})
    return Response(content, media_type=STATIC[name], headers={"ETag": etag, "Connection": "close"})


HANDLERS = [
    Router(
        path="/",
        route_handlers=[
            index,
            static,
            Router(
                path="/",
                route_handlers=[
                    handler
                    for module in (local, models, credits, storage, settings, health, exports, remarks)
                    for handler in module.HANDLERS
                ],
                response_headers=[ResponseHeader(name="Cache-Control", value="no-store")],
                guards=[refuse_other_sites],
            ),
            Router(path="/", route_handlers=images.HANDLERS, guards=[refuse_other_sites]),
        ],
        guards=[require_own_host],
        response_headers=[ResponseHeader(name=name, value=value) for name, value in SECURITY_HEADERS.items()],
    )
]
