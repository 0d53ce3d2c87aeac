"""Forwarded headers: what a trusted proxy states is applied, and nothing that others send."""

from __future__ import annotations

from typing import Any

import pytest

from imgproc_local.api.proxy import apply_forwarded, is_refused
from imgproc_local.domain.addresses import parse_networks

PROXIES = parse_networks("10.0.0.0/24, 2001:db8::7")


def applied(peer: str, *headers: tuple[str, str]) -> tuple[str | None, str, str]:
    """Client, scheme and host after a request from `peer`."""
    sent = [(name.lower().encode(), value.encode()) for name, value in (("Host", "inside:8484"), *headers)]
    scope: dict[str, Any] = {"client": (peer, 4711), "scheme": "http", "headers": sent, "state": {}}
    apply_forwarded(scope, PROXIES)
    hosts = [value.decode() for name, value in scope["headers"] if name == b"host"]
    assert len(hosts) == 1
    return scope["client"] and scope["client"][0], scope["scheme"], hosts[0]


STATED = (("X-Forwarded-For", "203.0.113.5"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "pictures.example"))


@pytest.mark.parametrize("peer", ["10.0.0.5", "2001:db8::7", "::ffff:10.0.0.5"])
def test_a_trusted_proxy_states_client_scheme_and_host(peer: str) -> None:
    assert applied(peer, *STATED) == ("203.0.113.5", "https", "pictures.example")


@pytest.mark.parametrize("peer", ["10.0.1.5", "127.0.0.1", "203.0.113.5", "2001:db8::8"])
def test_nobody_else_is_believed(peer: str) -> None:
    assert applied(peer, *STATED) == (peer, "http", "inside:8484")
    assert applied(peer, ("Forwarded", "for=1.2.3.4;proto=https;host=x")) == (peer, "http", "inside:8484")


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ([("X-Forwarded-For", "6.6.6.6, 203.0.113.5, 10.0.0.9")], "203.0.113.5"),
        ([("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "203.0.113.5")], "203.0.113.5"),
        ([("X-Forwarded-For", "10.0.0.9, 10.0.0.8")], None),
        ([("X-Forwarded-For", "unknown")], None),
        ([("X-Forwarded-For", "203.0.113.5:8080")], "203.0.113.5"),
        ([("X-Forwarded-Proto", "https")], None),
        ([("Forwarded", 'for="[2001:db8:cafe::17]:4711";proto=https, for=10.0.0.9')], "2001:db8:cafe::17"),
        ([("Forwarded", "for=203.0.113.5;proto=http;by=10.0.0.5"), ("X-Forwarded-For", "6.6.6.6")], "203.0.113.5"),
        ([("Forwarded", "for=_hidden")], None),
        ([], None),
    ],
)
def test_the_client_is_the_nearest_address_that_is_no_proxy(headers: list[tuple[str, str]], client: str | None) -> None:
    assert applied("10.0.0.5", *headers)[0] == client


@pytest.mark.parametrize("scheme", ["javascript", "ftp", ""])
def test_only_http_and_https_are_schemes(scheme: str) -> None:
    assert applied("10.0.0.5", ("X-Forwarded-For", "203.0.113.5"), ("X-Forwarded-Proto", scheme))[1] == "http"


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
    scope = {"client": (peer, 1), "scheme": scheme}
    assert is_refused(scope, PROXIES) is refused
    assert not is_refused(scope, ())
