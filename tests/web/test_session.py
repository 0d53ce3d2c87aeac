"""Access to the local page: the link, the cookie, the host name and the origin are each required."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import httpx
import pytest

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.sessions import TOKEN_FILE, PageSession, page_token
from imgproc_local.web.guard import is_own_host
from tests.support.service import Running, running


def cookie_of(service: Running) -> dict[str, str]:
    page = service.services.page
    return {"Cookie": f"{page.cookie_name}={page.token}"}


def port_of(service: Running) -> str:
    return service.root.rpartition(":")[2]


# ---- the token ----


def test_the_token_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    token = page_token(tmp_path)
    assert page_token(tmp_path) == token
    assert [file.name for file in tmp_path.iterdir()] == [TOKEN_FILE]
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    (tmp_path / "other").mkdir()
    assert page_token(tmp_path / "other") != token


@pytest.mark.parametrize("content", ["", "short", "x" * 40 + " and more", "é" * 50])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / TOKEN_FILE).write_text(content, encoding="utf-8")
    with pytest.raises(StorageFailed, match="holds no valid token"):
        page_token(tmp_path)


def test_a_ticket_works_once_and_a_new_one_replaces_it() -> None:
    session = PageSession("t" * 43)
    first, second = session.new_ticket(), session.new_ticket()
    assert not session.opens(first)
    assert session.opens(second)
    assert not session.opens(second)
    assert session.opens("t" * 43)
    assert session.opens("t" * 43)
    assert not session.is_token(session.new_ticket())


def test_two_data_folders_use_two_cookies() -> None:
    assert PageSession("a" * 43).cookie_name != PageSession("b" * 43).cookie_name


def test_the_token_is_valid_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        cookie = cookie_of(first)
    with running(tmp_path) as second:
        assert httpx.get(second.root, headers=cookie).status_code == 200


# ---- the link and the cookie ----


def test_the_link_is_exchanged_for_a_cookie_by_a_redirect(service: Running) -> None:
    token = service.services.page.token
    answer = httpx.get(service.root, params={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert not any(attribute.startswith("domain") for attribute in attributes)
    assert token not in httpx.get(service.root, headers=cookie_of(service)).text


def test_a_ticket_of_serve_opens_the_page_once(service: Running) -> None:
    ticket = service.services.page.new_ticket()
    assert httpx.get(service.root, params={"token": ticket}).status_code == 303
    assert httpx.get(service.root, params={"token": ticket}).status_code == 403


@pytest.mark.parametrize("token", [None, "", "wrong", "é€😀", "\udc80", "%00"])
def test_without_the_token_the_page_says_where_to_find_the_link(service: Running, token: str | None) -> None:
    query = (
        "" if token is None else "?token=" + "".join(f"%{byte:02x}" for byte in token.encode("utf-8", "surrogatepass"))
    )
    answer = httpx.get(service.root + "/" + query)
    assert answer.status_code in (403, 422)
    assert "set-cookie" not in answer.headers
    if answer.status_code == 403:
        assert "imgproc-local serve" in answer.text
        assert "app.js" not in answer.text


@pytest.mark.parametrize("value", ["", "wrong", "imgp_" + "a" * 32])
def test_a_wrong_cookie_is_refused(service: Running, value: str) -> None:
    cookie = {"Cookie": f"{service.services.page.cookie_name}={value}"}
    assert httpx.get(service.root, headers=cookie).status_code == 403
    assert httpx.get(f"{service.root}/local/keys", headers=cookie).status_code == 401


ENDPOINTS = [("GET", "/local/overview"), ("GET", "/local/keys"), ("POST", "/local/keys"), ("DELETE", "/local/keys/x")]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_local_endpoints_need_the_cookie(service: Running, method: str, path: str) -> None:
    headers = {"Origin": service.root, "X-API-Key": service.key}
    answer = httpx.request(method, service.root + path, headers=headers)
    assert answer.status_code == 401
    assert "imgproc-local serve" in answer.json()["message"]


def test_the_cookie_is_not_a_key_of_the_api(service: Running) -> None:
    assert httpx.get(f"{service.url}/credits/balance", headers=cookie_of(service)).status_code == 401


# ---- the host name ----


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_are_accepted(service: Running, host: str) -> None:
    headers = {**cookie_of(service), "Host": f"{host}:{port_of(service)}"}
    assert httpx.get(service.root, headers=headers).status_code == 200
    assert httpx.get(f"{service.root}/local/keys", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example", "localhost.example", "192.0.2.7", "[::2]", "a@127.0.0.1"]
)
@pytest.mark.parametrize("path", ["/", "/local/keys", "/static/app.js"])
def test_any_other_host_name_is_refused_also_with_the_cookie(service: Running, host: str, path: str) -> None:
    answer = httpx.get(service.root + path, headers={**cookie_of(service), "Host": f"{host}:{port_of(service)}"})
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
        headers = cookie_of(service) | ({} if origin is None else {"Origin": origin})
        made = httpx.post(f"{service.root}/local/keys", headers=headers, json={"name": "stranger"})
        revoked = httpx.delete(f"{service.root}/local/keys/{before[0].id}", headers=headers)
        assert (made.status_code, revoked.status_code) == (403, 403), origin
        assert "Origin" in made.json()["message"]
    assert service.run(service.services.store.keys.all()) == before


def test_no_response_allows_another_origin(service: Running) -> None:
    headers = {**cookie_of(service), "Origin": "http://evil.example"}
    for path in ("/", "/local/keys", "/static/app.js"):
        answer = httpx.get(service.root + path, headers=headers)
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = httpx.options(
        f"{service.root}/local/keys", headers={**headers, "Access-Control-Request-Method": "POST"}
    )
    assert "access-control-allow-origin" not in preflight.headers
