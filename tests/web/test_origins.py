"""A page of another origin can neither read nor change anything. The endpoints are those that the app has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler

from tests.support.service import Running

FOREIGN = "http://127.0.0.1:1"
PUBLIC = {"/", "/static/{name:str}", "/healthz", "/metrics", "/api/v1/languages", "/api/v1/openapi.json"}
"""They say nothing of the pictures, or refuse on their own: `/` asks for the session, `/metrics` is only readable by
programs, because no answer of the service allows another origin to read it.
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as client:
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


def test_an_endpoint_of_the_page_is_for_its_own_session_and_origin(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    cookie = service.page_cookie()
    own = {**cookie, "Origin": service.root}
    of_page = [endpoint for endpoint in endpoints if endpoint[1].startswith("/local/")]
    assert len(of_page) > 10
    for method, path, url in of_page:
        assert browser.request(method, url, headers={"Origin": service.root}).status_code == 401, path
        assert browser.request(method, url, headers={**own, "Host": "example.com"}).status_code == 403, path
        for site in ("same-site", "cross-site"):
            answer = browser.request(method, url, headers={**own, "Sec-Fetch-Site": site})
            assert answer.status_code == 403, f"{method} {path}, {site}"
        if method not in ("GET", "HEAD"):
            for origin in ({}, {"Origin": FOREIGN}, {"Origin": "null"}):
                answer = browser.request(method, url, headers={**cookie, **origin})
                assert answer.status_code == 403, f"{method} {path}, {origin}"


def test_the_interface_does_not_accept_the_cookie_of_the_page(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    of_interface = [endpoint for endpoint in endpoints if endpoint[1].startswith("/api/v1/")]
    assert len(of_interface) + len([path for _, path, _ in endpoints if path.startswith("/local/")]) == len(endpoints)
    for method, path, url in of_interface:
        answer = browser.request(method, url, headers={**service.page_cookie(), "Origin": FOREIGN})
        assert answer.status_code == 401, f"{method} {path}"


def test_no_answer_lets_another_origin_read_it(
    service: Running, browser: httpx.Client, endpoints: list[tuple[str, str, str]]
) -> None:
    foreign = {"Origin": FOREIGN, "X-API-Key": service.key, **service.page_cookie()}
    for method, path, url in endpoints:
        preflight = {
            **foreign, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "x-api-key"
        }  # fmt: skip
        headers = browser.options(url, headers=preflight).headers.keys()
        if method == "GET":
            with browser.stream("GET", url, headers=foreign) as answer:
                headers |= answer.headers.keys()
        assert not [name for name in headers if name.startswith("access-control")], path
