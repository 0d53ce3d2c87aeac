"""Pages of other origins: which may use the API in a browser, and which headers say so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest

from imgproc_local.api import app
from imgproc_local.config import load
from imgproc_local.domain.errors import SettingInvalid
from tests.support import pictures
from tests.support.service import Running, running

SHOP, LOCAL = "https://shop.example", "http://localhost:3000"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key, prefer"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), cors_origins=f"{SHOP}:443, {LOCAL},{SHOP}") as started:
        yield started


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", [SHOP, LOCAL])
def test_a_page_of_an_allowed_origin_processes_a_picture(service: Running, origin: str) -> None:
    preflight = httpx.options(f"{service.url}/images/optimize", headers={"Origin": origin, **PREFLIGHT})
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == origin
    assert preflight.headers["vary"] == "Origin"
    allowed = preflight.headers["access-control-allow-headers"].lower().split(", ")
    assert {"x-api-key", "authorization", "content-type", "prefer", "idempotency-key"} <= set(allowed)
    assert "access-control-allow-private-network" not in preflight.headers

    dispatched = service.client.post(
        "/images/optimize", headers={"Origin": origin}, files={"image": ("a.jpg", pictures.jpeg())}
    )
    assert dispatched.status_code == 202
    assert dispatched.headers["access-control-allow-origin"] == origin
    assert dispatched.headers["vary"] == "Origin"
    assert dispatched.headers["access-control-expose-headers"] == "*", "the page may read Location and the others"
    assert all("credentials" not in name for name in cors_headers(dispatched))


def test_a_preflight_allows_every_method_and_a_private_network(service: Running) -> None:
    headers = {"Origin": SHOP, **PREFLIGHT, "Access-Control-Request-Private-Network": "true"}
    answer = httpx.options(f"{service.url}/exports", headers=headers)
    assert answer.headers["access-control-allow-private-network"] == "true"
    paths = json.loads(app.document())["paths"].values()
    methods = {method.upper() for path in paths for method in path if method != "servers"}
    assert methods <= set(answer.headers["access-control-allow-methods"].split(", "))


@pytest.mark.parametrize(
    "origins",
    [["https://evil.example"], ["http://shop.example"], ["https://shop.example.evil.example"],
     ["https://shop.example:8443"], ["https://SHOP.example"], ["null"], ["*"], [""], [SHOP, SHOP]],
)  # fmt: skip
def test_other_origins_get_no_permission(service: Running, origins: list[str]) -> None:
    sent = [("Origin", origin) for origin in origins]
    preflight = httpx.options(f"{service.url}/images/optimize", headers=[*sent, *PREFLIGHT.items()])
    for received in (preflight, httpx.get(f"{service.url}/languages", headers=sent)):
        assert cors_headers(received) == {}
        assert received.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    "path", ["/", "/static/app.js", "/local/overview", "/local/keys", "/docs", "/healthz", "/metrics"]
)
def test_only_the_api_is_open_to_other_origins(service: Running, path: str) -> None:
    headers = {"Origin": SHOP, **service.page_session()}
    for method in ("GET", "OPTIONS"):
        answer = httpx.request(method, service.root + path, headers=headers | PREFLIGHT)
        assert cors_headers(answer) == {}


@pytest.mark.parametrize(
    "value",
    ["*", "https://*.shop.example", "null", "shop.example", "https://shop.example/", "https://shop.example/admin",
     "https://user@shop.example", "ftp://shop.example", "https://", "https://münchen.example", "https://a:99999", "http://[1:2]"],
)  # fmt: skip
def test_a_value_that_is_no_origin_is_refused(value: str) -> None:
    with pytest.raises(SettingInvalid, match=f"cors_origins: expected .* received '{re.escape(value)}'"):
        load({"cors_origins": value}, {})


def test_origins_are_compared_as_browsers_send_them_and_none_is_allowed_by_default() -> None:
    assert load({}, {}).config.allowed_origins == ()
    text = "HTTPS://Shop.Example:443, http://[::1]:8080, http://localhost:80 ,"
    origins = load({"cors_origins": text}, {}).config.allowed_origins
    assert origins == ("https://shop.example", "http://[::1]:8080", "http://localhost")
