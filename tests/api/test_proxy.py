"""Forwarded headers: what a trusted proxy states is applied, and nothing that others send."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from imgproc_local.api.app import Entry
from imgproc_local.api.requests import TRUSTED_PROXY
from imgproc_local.config import Config

STATED = (("X-Forwarded-For", "203.0.113.5"), ("X-Forwarded-Proto", "https"))


def received(
    peer: str, *headers: tuple[str, str], scheme: str = "http", proxies: str = "10.0.0.0/24, 2001:db8::7"
) -> Any:
    """The scope that the app receives for a request from `peer`; None if the request was refused."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)

    async def send(message: Any) -> None:
        assert message.get("status", 403) == 403

    sent = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope: Any = {"type": "http", "method": "GET", "path": "/", "client": (peer, 4711), "scheme": scheme, "state": {},
                  "headers": sent}  # fmt: skip
    metrics: Any = SimpleNamespace(answered=lambda *_: None)
    asyncio.run(Entry(app, Config(behind_proxy=proxies), metrics)(scope, None, send))  # type: ignore[arg-type]
    return scopes[0] if scopes else None


@pytest.mark.parametrize("peer", ["10.0.0.5", "2001:db8::7", "::ffff:10.0.0.5"])
def test_a_trusted_proxy_states_client_and_scheme(peer: str) -> None:
    scope = received(peer, *STATED)
    assert (scope["client"][0], scope["scheme"]) == ("203.0.113.5", "https")
    assert scope["state"][TRUSTED_PROXY]


@pytest.mark.parametrize("peer", ["10.0.1.5", "127.0.0.1", "203.0.113.7", "2001:db8::8"])
def test_nobody_else_is_believed(peer: str) -> None:
    scope = received(peer, ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-Proto", "http"), scheme="https")
    assert (scope["client"][0], scope["scheme"], scope["state"]) == (peer, "https", {})


@pytest.mark.parametrize(
    "values", [["6.6.6.6, 203.0.113.5, 10.0.0.9"], ["6.6.6.6", "203.0.113.5"], ["203.0.113.5:8080"]]
)
def test_the_client_is_the_nearest_address_that_is_no_proxy(values: list[str]) -> None:
    scope = received("10.0.0.5", *(("X-Forwarded-For", value) for value in values))
    assert scope["client"][0] == "203.0.113.5"


@pytest.mark.parametrize("scheme", ["javascript", "ftp", ""])
def test_only_http_and_https_are_schemes(scheme: str) -> None:
    assert received("10.0.0.5", ("X-Forwarded-Proto", scheme))["scheme"] == "http"


@pytest.mark.parametrize(
    ("peer", "scheme", "refused"),
    [
        ("203.0.113.5", "http", True),
        ("203.0.113.5", "https", False),
        ("10.0.0.5", "http", False),
        ("127.0.0.1", "http", False),
    ],
)
def test_other_machines_must_use_the_proxy_where_there_is_no_tls(peer: str, scheme: str, refused: bool) -> None:
    assert (received(peer, scheme=scheme) is None) is refused
    assert received(peer, scheme=scheme, proxies="") is not None
