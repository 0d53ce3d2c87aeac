"""The local page: the HTML, CSS and ES modules in `static/`, served as they are, without a build step.

Invariant: the page loads scripts, styles and pictures from its own origin only, and connects to no other. Its Content
Security Policy enforces that, and a test checks the files.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from litestar import Request, Response, Router
from litestar.datastructures import ResponseHeader
from litestar.exceptions import NotFoundException
from litestar.types import ControllerRouterHandler

from imgproc_local.api.images import is_current
from imgproc_local.web import local, models, settings
from imgproc_local.web.local import get, require_own_host, require_session

_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_NO_STORE = [ResponseHeader(name="Cache-Control", value="no-store")]

_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""The media type of each kind of file in `static/` that is served. Litestar adds the charset to text."""
FOLDER = resources.files(__package__).joinpath("static")
STATIC = {file.name for file in FOLDER.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES} - {"index.html"}
"""The files that are served by name."""


@cache
def _file(name: str) -> tuple[bytes, str]:
    """The content of a file in `static/` and its entity tag."""
    content = FOLDER.joinpath(name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@get("/", response_headers=_NO_STORE, sync_to_thread=False)
def _index() -> Response[bytes]:
    """The page, which anyone may read: what it shows, it requests with the secret of a session."""
    return Response(_file("index.html")[0], media_type="text/html")


@get("/static/{name:str}", response_headers=[ResponseHeader(name="Cache-Control", value="no-cache")])
async def _static(request: Request[Any, Any, Any]) -> Response[bytes | None]:
    """A file of the page. Browsers revalidate it each time, so that a new version of the program is used at once.

    The connection is closed after it: a browser opens six for the files of a page, and would keep them open idle.
    """
    name = request.path_params["name"]
    if name not in STATIC:
        raise NotFoundException
    content, etag = _file(name)
    headers = {"ETag": etag, "Connection": "close"}
    if is_current(request, etag):
        return Response(None, status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


_HEADERS = [ResponseHeader(name=name, value=value) for name, value in _SECURITY_HEADERS.items()]
_SIGNED_IN = [handler for module in (local, models, settings) for handler in module.HANDLERS]
_OF_SESSIONS = Router("/", route_handlers=_SIGNED_IN, response_headers=_NO_STORE, guards=[require_session])
_OPEN = Router("/", route_handlers=local.OPEN_HANDLERS, response_headers=_NO_STORE)
_ALL: list[ControllerRouterHandler] = [_index, _static, _OF_SESSIONS, _OPEN]
HANDLERS = [Router("/", route_handlers=_ALL, response_headers=_HEADERS, guards=[require_own_host])]
