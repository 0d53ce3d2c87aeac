"""The pictures that the local page shows: those of the default account, for its own session and origin only."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support import pictures
from tests.support.service import Running

VARIANTS = ("original", "optimized", "converted")


@pytest.fixture(scope="module")
def image(service: Running) -> dict[str, Any]:
    processed: dict[str, Any] = service.process("process", pictures.jpeg(), "Grüße.jpg")["image"]
    return processed


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_picture_is_shown_inline(service: Running, image: dict[str, Any], variant: str) -> None:
    cookie = service.page_cookie()
    answer = httpx.get(f"{service.root}/local/images/{image['id']}/{variant}", headers=cookie)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("inline; filename=")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    download = service.client.get(f"/images/{image['id']}/{variant}")
    assert answer.content == download.content
    for name in ("etag", "cache-control", "content-type"):
        assert answer.headers[name] == download.headers[name], name
    again = httpx.get(answer.url, headers={**cookie, "If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_picture_is_not_shown_to_others(service: Running, image: dict[str, Any], variant: str) -> None:
    url = f"{service.root}/local/images/{image['id']}/{variant}"
    cookie = service.page_cookie()
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"X-API-Key": service.key}).status_code == 401
    assert httpx.get(url, headers={**cookie, "Host": "example.com"}).status_code == 403
    for site in ("same-site", "cross-site"):
        assert httpx.get(url, headers={**cookie, "Sec-Fetch-Site": site}).status_code == 403
    assert httpx.get(url, headers={**cookie, "Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_pictures_of_other_accounts_are_not_shown(service: Running) -> None:
    with service.client_for(service.make_key("another")) as other:
        job = other.post("/images/optimize", files={"image": ("p.jpg", pictures.jpeg(seed=5))}).json()["data"]
        done = other.get(f"/jobs/{job['job_id']}", headers={"Prefer": "wait=20"}).json()["data"]
    answer = httpx.get(f"{service.root}/local/images/{done['image']['id']}/original", headers=service.page_cookie())
    assert (answer.status_code, list(answer.json())) == (404, ["message"])


@pytest.mark.parametrize("path", ["/events", "/jobs?include=details", "/projects"])
def test_a_page_of_another_origin_can_not_read_the_account(service: Running, path: str) -> None:
    """It has no key, its preflight is not allowed, and an answer would not be readable."""
    foreign = {"Origin": "http://127.0.0.1:1", **service.page_cookie()}
    assert httpx.get(service.url + path, headers=foreign).status_code == 401
    preflight = httpx.options(service.url + path, headers={**foreign, "Access-Control-Request-Headers": "x-api-key"})
    assert not any(name.startswith("access-control") for name in preflight.headers)
    with service.client.stream("GET", path, headers=foreign) as answer:
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_the_key_of_the_page_has_no_rate_limit(service: Running) -> None:
    origin = {"Origin": service.root, **service.page_cookie()}
    body = {"name": "Local page", "rate_limit": 2, "for_page": True}
    key = httpx.post(f"{service.root}/local/keys", json=body, headers=origin).json()["data"]["key"]
    with service.client_for(key) as client:
        assert [client.get("/credits/balance").status_code for _ in range(4)] == [200] * 4
        httpx.post(f"{service.root}/local/sign-out", headers=origin)
        assert client.get("/credits/balance").status_code == 401
