"""Access to the local page: the link, the session, the host name and the origin are each required."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.compose import DATABASE_FILE
from imgproc_local.storage.sessions import LINK_VALID_S, SESSION_VALID_S, cookie_name
from imgproc_local.web.guard import is_own_host
from tests.support.service import Running, running


def port_of(service: Running) -> str:
    return service.root.rpartition(":")[2]


def sessions_of(service: Running, cookie: dict[str, str]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = httpx.get(f"{service.root}/local/sessions", headers=cookie).json()["data"]
    return listed


# ---- the link ----


def test_a_link_is_exchanged_for_a_cookie_by_a_redirect(service: Running) -> None:
    token = service.page_token()
    answer = httpx.get(service.root, params={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    cookie, *attributes = (part.strip() for part in answer.headers["set-cookie"].split(";"))
    lowered = {attribute.lower() for attribute in attributes}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={SESSION_VALID_S}"} <= lowered
    assert not any(attribute.startswith("domain") for attribute in lowered)
    assert "secure" not in lowered, "a browser would not send it to http"
    assert token not in cookie, "the cookie has a secret of its own"
    assert httpx.get(service.root, headers={"Cookie": cookie}).status_code == 200


def test_a_link_works_once(service: Running) -> None:
    token = service.page_token()
    assert httpx.head(service.root, params={"token": token}).status_code == 403, "HEAD changes nothing"
    assert httpx.get(service.root, params={"token": token}).status_code == 303
    assert httpx.get(service.root, params={"token": token}).status_code == 403


def test_a_browser_that_is_signed_in_does_not_use_a_link_up(service: Running) -> None:
    token = service.page_token()
    answer = httpx.get(service.root, params={"token": token}, headers=service.page_cookie())
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert httpx.get(service.root, params={"token": token}).status_code == 303


@pytest.fixture
def moved_clock() -> tuple[Callable[[], datetime], Callable[[int], None]]:
    """A clock, and a function that moves it by seconds."""
    now = [datetime(2026, 11, 1, tzinfo=UTC)]

    def move(seconds: int) -> None:
        now[0] += timedelta(seconds=seconds)

    return lambda: now[0], move


def test_links_and_sessions_expire(
    tmp_path: Path, moved_clock: tuple[Callable[[], datetime], Callable[[int], None]]
) -> None:
    clock, move = moved_clock
    with running(tmp_path, clock=clock) as service:
        late, in_time = service.page_token(), service.page_token()
        move(LINK_VALID_S - 1)
        assert httpx.get(service.root, params={"token": in_time}).status_code == 303
        move(1)
        assert httpx.get(service.root, params={"token": late}).status_code == 403
        cookie = service.page_cookie()
        move(SESSION_VALID_S - 1)
        assert httpx.get(service.root, headers=cookie).status_code == 200
        move(1)
        assert httpx.get(service.root, headers=cookie).status_code == 403


def test_the_data_folder_holds_no_secret(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        token = service.page_token()
        secret = service.page_cookie()["Cookie"].partition("=")[2]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert token.encode() not in content
            assert secret.encode() not in content


def test_two_data_folders_use_two_cookies(tmp_path: Path) -> None:
    assert cookie_name(tmp_path / "a") != cookie_name(tmp_path / "b")


def test_a_session_is_valid_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        cookie = first.page_cookie()
    with running(tmp_path) as second:
        assert httpx.get(second.root, headers=cookie).status_code == 200


@pytest.mark.parametrize("token", [None, "", "wrong", "é€😀", "\udc80", "%00"])
def test_without_a_valid_link_the_page_says_how_to_get_one(service: Running, token: str | None) -> None:
    query = (
        "" if token is None else "?token=" + "".join(f"%{byte:02x}" for byte in token.encode("utf-8", "surrogatepass"))
    )
    answer = httpx.get(service.root + "/" + query)
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers
    if answer.status_code == 403:
        assert "imgproc-local sign-in" in answer.text
        assert "app.js" not in answer.text


# ---- the session ----


@pytest.mark.parametrize("value", ["", "wrong", "imgp_" + "a" * 32])
def test_a_wrong_cookie_is_refused(service: Running, value: str) -> None:
    cookie = {"Cookie": f"{cookie_name(service.services.config.data_dir)}={value}"}
    assert httpx.get(service.root, headers=cookie).status_code == 403
    assert httpx.get(f"{service.root}/local/keys", headers=cookie).status_code == 401


ENDPOINTS = [
    ("GET", "/local/overview"),
    ("GET", "/local/keys"),
    ("POST", "/local/keys"),
    ("DELETE", "/local/keys/x"),
    ("GET", "/local/sessions"),
    ("DELETE", "/local/sessions/x"),
    ("POST", "/local/sign-out"),
]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_local_endpoints_need_the_cookie(service: Running, method: str, path: str) -> None:
    headers = {"Origin": service.root, "X-API-Key": service.key}
    answer = httpx.request(method, service.root + path, headers=headers)
    assert answer.status_code == 401
    assert "imgproc-local sign-in" in answer.json()["message"]


def test_the_cookie_is_not_a_key_of_the_api(service: Running) -> None:
    assert httpx.get(f"{service.url}/credits/balance", headers=service.page_cookie()).status_code == 401


def test_the_sessions_are_listed_and_each_can_be_ended(service: Running) -> None:
    one, two = service.page_cookie("Browser\x1b one" + "x" * 300), service.page_cookie("Browser two")
    (own,) = (session for session in sessions_of(service, one) if session["current"])
    (other,) = (session for session in sessions_of(service, two) if session["current"])
    assert own["browser"] == ("Browser one" + "x" * 300)[:200]
    assert other["browser"] == "Browser two"
    headers = {**one, "Origin": service.root}
    assert httpx.delete(f"{service.root}/local/sessions/{other['id']}", headers=headers).status_code == 204
    assert httpx.get(f"{service.root}/local/keys", headers=two).status_code == 401
    assert httpx.get(f"{service.root}/local/keys", headers=one).status_code == 200
    assert other["id"] not in {session["id"] for session in sessions_of(service, one)}
    assert httpx.delete(f"{service.root}/local/sessions/{other['id']}", headers=headers).status_code == 404


def test_a_sign_out_ends_the_session_and_the_key_of_the_page(service: Running) -> None:
    cookie = service.page_cookie()
    headers = {**cookie, "Origin": service.root}

    def create(for_page: bool) -> str:
        answer = httpx.post(
            f"{service.root}/local/keys", headers=headers, json={"name": "Local page", "for_page": for_page}
        )
        return str(answer.json()["data"]["key"])

    def works(key: str) -> bool:
        return httpx.get(f"{service.url}/credits/balance", headers={"X-API-Key": key}).status_code == 200

    first, own, program = create(for_page=True), create(for_page=True), create(for_page=False)
    assert [works(key) for key in (first, own, program)] == [False, True, True]
    answer = httpx.post(f"{service.root}/local/sign-out", headers=headers)
    assert answer.status_code == 204
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert [works(key) for key in (own, program)] == [False, True]
    assert httpx.get(service.root, headers=cookie).status_code == 403


def test_expired_sessions_are_deleted_with_their_keys(
    tmp_path: Path, moved_clock: tuple[Callable[[], datetime], Callable[[int], None]]
) -> None:
    clock, move = moved_clock
    with running(tmp_path, clock=clock) as service:
        headers = {**service.page_cookie(), "Origin": service.root}
        answer = httpx.post(
            f"{service.root}/local/keys", headers=headers, json={"name": "Local page", "for_page": True}
        )
        key = answer.json()["data"]["key"]
        balance = partial(httpx.get, f"{service.url}/credits/balance", headers={"X-API-Key": key})
        assert balance().status_code == 200
        move(SESSION_VALID_S)
        assert balance().status_code == 401
        service.page_token()
        assert balance().status_code == 401
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as rows:
        assert rows.execute("SELECT count(*) FROM page_sessions").fetchone() == (0,)


# ---- the host name ----


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_are_accepted(service: Running, host: str) -> None:
    headers = {**service.page_cookie(), "Host": f"{host}:{port_of(service)}"}
    assert httpx.get(service.root, headers=headers).status_code == 200
    assert httpx.get(f"{service.root}/local/keys", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example", "localhost.example", "192.0.2.7", "[::2]", "a@127.0.0.1"]
)
@pytest.mark.parametrize("path", ["/", "/local/keys", "/static/app.js"])
def test_any_other_host_name_is_refused_also_with_the_cookie(service: Running, host: str, path: str) -> None:
    answer = httpx.get(service.root + path, headers={**service.page_cookie(), "Host": f"{host}:{port_of(service)}"})
    assert answer.status_code == 403
    assert host in answer.json()["message"]


@pytest.mark.parametrize(
    ("host", "configured", "own"),
    [
        ("studio.lan:8484", "studio.lan", True),
        ("studio.lan:8484", "127.0.0.1", False),
        ("192.168.1.5:8484", "0.0.0.0", True),
        ("[fe80::1]:8484", "::", True),
        ("rebound.example:8484", "0.0.0.0", False),
        ("rebound.example:8484", "::", False),
        ("192.168.1.5:8484", "192.168.1.6", False),
        ("", "127.0.0.1", False),
        ("", "0.0.0.0", False),
    ],
)
def test_the_configured_host_is_accepted_and_all_interfaces_only_by_address(
    host: str, configured: str, own: bool
) -> None:
    assert is_own_host(host, configured) is own


# ---- the origin ----


def origins(service: Running) -> list[str | None]:
    port = int(port_of(service))
    return [None, "null", "http://evil.example", f"http://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}",
            f"http://localhost:{port}", "http://127.0.0.1", f"http://127.0.0.1:{port}.evil.example"]  # fmt: skip


def test_changes_need_the_same_origin(service: Running) -> None:
    before = service.run(service.services.store.keys.all())
    for origin in origins(service):
        headers = service.page_cookie() | ({} if origin is None else {"Origin": origin})
        made = httpx.post(f"{service.root}/local/keys", headers=headers, json={"name": "stranger"})
        revoked = httpx.delete(f"{service.root}/local/keys/{before[0].id}", headers=headers)
        assert (made.status_code, revoked.status_code) == (403, 403), origin
        assert "Origin" in made.json()["message"]
    assert service.run(service.services.store.keys.all()) == before


def test_no_response_allows_another_origin(service: Running) -> None:
    headers = {**service.page_cookie(), "Origin": "http://evil.example"}
    for path in ("/", "/local/keys", "/static/app.js"):
        answer = httpx.get(service.root + path, headers=headers)
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = httpx.options(
        f"{service.root}/local/keys", headers={**headers, "Access-Control-Request-Method": "POST"}
    )
    assert "access-control-allow-origin" not in preflight.headers
