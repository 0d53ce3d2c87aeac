"""A page of another origin can neither read nor change anything. The endpoints are those that the app has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler

from tests.support.service import Running

FOREIGN = "http://127.0.0.1:1"
PUBLIC = {
    "/", "/static/{name:str}", "/local/sign-in", "/local/exports/{ticket_id:str}/{name:str}", "/healthz", "/metrics",
    "/api/v1/languages", "/api/v1/openapi.json", "/docs",
}  # fmt: skip
"""They say nothing of the pictures, or need a secret of their own: the token of a link, the ticket of a download.
`/metrics` is only readable by programs, because no answer of the service allows another origin to read it.
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def endpoints(service: Running) -> list[tuple[str, str, str]]:
    """Method, path template, and a URL, of every endpoint but those in `PUBLIC`."""
    found = []
    for route in service.app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler) and route.path not in PUBLIC:
                url = service.root + re.sub(r"\{\w+:str\}", "01arz3ndektsv4rrffq69g5fav", route.path)
                found += [(method, route.path, url) for method in handler.http_methods if method != "OPTIONS"]
    return found


def test_every_endpoint_of_the_page_needs_the_secret_of_a_session_in_a_header(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    """What a browser sends on its own, such as a cookie, also goes to other ports of the host, and is not enough."""
    session = service.page_session()
    secret = session["Authorization"].removeprefix("Bearer ")
    sent_without_the_page = [
        {},
        {"Origin": service.root, "Sec-Fetch-Site": "same-origin"},
        {"Cookie": f"imgproc_page_0123456789ab={secret}; imgproc-local.session={secret}"},
        {"X-API-Key": service.key},
        {"Authorization": f"Bearer {service.key}"},
    ]
    of_page = [endpoint for endpoint in endpoints if endpoint[1].startswith("/local/")]
    assert len(of_page) > 10
    for method, path, url in of_page:
        for headers in sent_without_the_page:
            answer = browser.request(method, url, headers=headers)
            assert answer.status_code == 401, f"{method} {path}, {headers}"
        assert browser.request(method, url, headers={**session, "Host": "example.com"}).status_code == 403, path


def test_the_interface_accepts_the_secret_of_a_session_in_a_header_only(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    secret = service.page_session()["Authorization"].removeprefix("Bearer ")
    of_interface = [endpoint for endpoint in endpoints if endpoint[1].startswith("/api/v1/")]
    assert len(of_interface) + len([path for _, path, _ in endpoints if path.startswith("/local/")]) == len(endpoints)
    for method, path, url in of_interface:
        cookie = f"imgproc_page_0123456789ab={secret}; imgproc-local.session={secret}"
        answer = browser.request(method, url, headers={"Cookie": cookie, "Origin": service.root})
        assert answer.status_code == 401, f"{method} {path}"


def test_no_answer_lets_another_origin_read_it_or_sets_a_cookie(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    foreign = {"Origin": FOREIGN, "X-API-Key": service.key, **service.page_session()}
    for method, path, url in endpoints:
        preflight = {
            **foreign, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "x-api-key"
        }  # fmt: skip
        headers = browser.options(url, headers=preflight).headers.keys()
        if method == "GET":
            with browser.stream("GET", url, headers=foreign) as answer:
                headers |= answer.headers.keys()
        assert not [name for name in headers if name.startswith("access-control") or name == "set-cookie"], path
