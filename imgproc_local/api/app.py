"""The ASGI application. Whoever serves it opens `services` before and closes them afterwards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler

from imgproc_local.api import errors, openapi, service
from imgproc_local.api.auth import RateLimiter, add_rate_limit_headers, refuse_trailing_slash
from imgproc_local.api.entry import Entry
from imgproc_local.api.uploads import Uploads
from imgproc_local.compose import Services

PREFIX = "/api/v1"


def make_app(
    services: Services, page: Sequence[ControllerRouterHandler] = (), monotonic: Callable[[], float] = time.monotonic
) -> Litestar:
    """The app on opened services: the API, and the handlers of the local page. `monotonic` counts seconds."""
    api = Router(path=PREFIX, route_handlers=openapi.HANDLERS)
    counts = service.RequestCounts()
    app = Litestar(
        route_handlers=[api, *openapi.OUTSIDE, *page],
        state=State(
            {
                "services": services,
                "rate_limiter": RateLimiter(monotonic),
                "heartbeat": service.Heartbeat(),
                "uploads": Uploads(),
                "open_streams": Counter(),
                "request_counts": counts,
            }
        ),
        guards=[refuse_trailing_slash],
        exception_handlers=errors.HANDLERS,
        before_send=[add_rate_limit_headers, errors.complete_allow],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,  # `read_form` and `read_json` limit the bodies that they read
        debug=False,
    )
    app.asgi_handler = Entry(app.asgi_handler, services.config, counts)
    return app


def end_requests(app: Litestar) -> None:
    """End the requests that would delay a stop: uploads, long polls, event streams and exports."""
    app.state.services.engine.end_waits()
    app.state.services.exporter.end()
    app.state.uploads.end()
