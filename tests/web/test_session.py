"""Access to the local page: the link, the session and the host name are each required."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.storage.accounts import LINK_VALID_S, SESSION_VALID_S
from imgproc_local.web.local import is_own_host
from tests.support.service import Running, running


def port_of(service: Running) -> str:
    return service.root.rpartition(":")[2]


def sign_in(service: Running, token: str, **headers: str) -> httpx.Response:
    """What the page sends when a link with `token` was opened."""
    return httpx.post(f"{service.root}/local/sign-in", json={"token": token}, headers=headers)


def status_of(service: Running, session: dict[str, str]) -> int:
    """200 where a request with the headers `session` is answered."""
    return httpx.get(f"{service.root}/local/keys", headers=session).status_code


def sessions_of(service: Running, session: dict[str, str]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = httpx.get(f"{service.root}/local/sessions", headers=session).json()["data"]
    return listed


# ---- the link ----


def test_a_link_is_exchanged_for_a_secret_that_is_no_cookie(service: Running) -> None:
    token = service.page_token()
    answer = sign_in(service, token)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers, "a cookie would be sent to every port of the host"
    secret = answer.json()["data"]["secret"]
    assert token not in secret, "the session has a secret of its own"
    assert status_of(service, {"Authorization": f"Bearer {secret}"}) == 200
    name = f"imgproc_page_{'0' * 12}"
    assert status_of(service, {"Cookie": f"{name}={secret}; session={secret}; Authorization=Bearer {secret}"}) == 401


def test_a_link_works_once_when_the_page_of_a_browser_without_a_session_uses_it(service: Running) -> None:
    token = service.page_token()
    assert httpx.get(service.root, params={"token": token}).status_code == 200
    answer = sign_in(service, token, **service.page_session())
    assert (answer.status_code, answer.json()) == (200, {"data": {"secret": None}})
    assert [sign_in(service, token).status_code for _ in range(2)] == [200, 401]


def test_links_and_sessions_expire(tmp_path: Path) -> None:
    now = [datetime(2026, 11, 1, tzinfo=UTC)]
    with running(tmp_path, clock=lambda: now[0]) as service:
        late, in_time = service.page_token(), service.page_token()
        now[0] += timedelta(seconds=LINK_VALID_S - 1)
        assert sign_in(service, in_time).status_code == 200
        now[0] += timedelta(seconds=1)
        assert sign_in(service, late).status_code == 401
        session = service.page_session()
        now[0] += timedelta(seconds=SESSION_VALID_S - 1)
        assert (status_of(service, session), balance_status(service, session)) == (200, 200)
        now[0] += timedelta(seconds=1)
        assert (status_of(service, session), balance_status(service, session)) == (401, 401)


def test_the_data_folder_holds_no_secret_and_a_session_is_valid_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        key, token, session = service.key, service.page_token(), service.page_session()
    secret = session["Authorization"].removeprefix("Bearer ")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert not [word for word in (key, token, secret) if word.encode() in file.read_bytes()]
    with running(tmp_path) as second:
        assert status_of(second, session) == 200


@pytest.mark.parametrize("token", ["", "wrong", "é€😀", "\0"])
def test_without_a_valid_link_the_answer_says_how_to_get_one(service: Running, token: str) -> None:
    answer = sign_in(service, token)
    assert answer.status_code == 401
    assert "imgproc-local sign-in" in answer.json()["message"]


# ---- the session ----


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer wrong", "Bearer imgs_wrong", "Basic imgs_wrong"])
def test_a_wrong_secret_is_refused(service: Running, value: str) -> None:
    answer = httpx.get(f"{service.root}/local/keys", headers={"Authorization": value})
    assert answer.status_code == 401
    assert "imgproc-local sign-in" in answer.json()["message"]


def test_the_sessions_are_listed_and_each_can_be_ended(service: Running) -> None:
    one, two = service.page_session("Browser\x1b one" + "x" * 300), service.page_session("Browser two")
    (own,) = (session for session in sessions_of(service, one) if session["current"])
    (other,) = (session for session in sessions_of(service, two) if session["current"])
    assert own["browser"] == ("Browser one" + "x" * 300)[:200]
    assert other["browser"] == "Browser two"
    assert httpx.delete(f"{service.root}/local/sessions/{other['id']}", headers=one).status_code == 204
    assert [status_of(service, session) for session in (one, two)] == [200, 401]
    assert other["id"] not in {session["id"] for session in sessions_of(service, one)}
    assert httpx.delete(f"{service.root}/local/sessions/{other['id']}", headers=one).status_code == 404


def balance_status(service: Running, session: dict[str, str]) -> int:
    return httpx.get(f"{service.url}/credits/balance", headers=session).status_code


def test_the_secret_is_a_key_without_a_rate_limit_until_the_sign_out(tmp_path: Path) -> None:
    with running(tmp_path, rate_limit_per_minute=2) as service:
        session = service.page_session()
        assert [balance_status(service, session) for _ in range(3)] == [200, 200, 200]
        key = {"Authorization": f"Bearer {service.key}"}
        assert status_of(service, key) == 401, "an API key is no session"
        assert httpx.post(f"{service.root}/local/sign-out", headers=session).status_code == 204
        assert (balance_status(service, session), status_of(service, session)) == (401, 401)
        assert balance_status(service, key) == 200


# ---- the host name ----


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_are_accepted(service: Running, host: str) -> None:
    headers = {**service.page_session(), "Host": f"{host}:{port_of(service)}"}
    assert httpx.get(service.root, headers=headers).status_code == 200
    assert status_of(service, headers) == 200


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example", "localhost.example", "192.0.2.7", "[::2]", "a@127.0.0.1"]
)
@pytest.mark.parametrize("path", ["/", "/local/keys", "/static/app.js"])
def test_any_other_host_name_is_refused_also_with_the_secret(service: Running, host: str, path: str) -> None:
    answer = httpx.get(service.root + path, headers={**service.page_session(), "Host": f"{host}:{port_of(service)}"})
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


def test_the_public_host_is_accepted_and_no_other(tmp_path: Path) -> None:
    with running(tmp_path, public_url="http://img.example.org") as service:
        session = service.page_session()
        for host, status in (("img.example.org", 200), ("IMG.example.org:8080", 200), ("example.org", 403), ("", 403)):
            assert status_of(service, {**session, "Host": host}) == status, host
