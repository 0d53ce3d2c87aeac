"""Puts the handlers together. `services` are opened before and closed after by whoever serves the app."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.enums import HttpMethod
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send

from imgproc_local.api import credits, errors, health, images, jobs, languages, openapi
from imgproc_local.api.auth import tell_allowance
from imgproc_local.compose import Services

PREFIX = "/api/v1"


def make_app(services: Services, page: Sequence[ControllerRouterHandler] = ()) -> Litestar:
    """The app on opened services, with the handlers of the local page beside the API; serve it behind `answer_head`."""
    api = Router(
        path=PREFIX,
        route_handlers=[
            languages.languages,
            images.analyze,
            images.optimize,
            images.convert,
            images.process,
            images.optimized,
            images.converted,
            jobs.list_jobs,
            jobs.get_job,
            jobs.job_events,
            jobs.delete_job,
            credits.balance,
            credits.afford,
            openapi.document,
        ],
    )
    return Litestar(
        route_handlers=[api, health.healthz, *page],
        state=State({"services": services, "heartbeat": health.Heartbeat()}),
        exception_handlers=errors.HANDLERS,
        before_send=[tell_allowance],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,  # read_form bounds uploads by itself, and other handlers read no body
        debug=False,
    )


def answer_head(app: ASGIApp) -> ASGIApp:
    """HEAD wherever there is a GET: the same answer without its body. Source: RFC 9110, section 9.3.2."""

    async def head(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "HEAD":
            await app(scope, receive, send)
            return
        answered = asyncio.Event()

        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                answered.set()

        as_get = scope.copy()
        as_get["method"] = HttpMethod.GET  # type: ignore[typeddict-unknown-key]
        # what comes after the headers, a file or a stream of events, is for nobody
        work = asyncio.ensure_future(app(as_get, receive, send_headers))
        told = asyncio.ensure_future(answered.wait())
        try:
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            told.cancel()
            work.cancel()
            await asyncio.gather(work, told, return_exceptions=True)

    return head
