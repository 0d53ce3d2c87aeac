"""Requests that come through a proxy: the client's address, the scheme and the host that the proxy states.

Invariant: `Forwarded` and `X-Forwarded-*` are read only if the connection comes from a trusted proxy. Any client can
send them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from imgproc_local.domain.addresses import Network, is_in, is_loopback, parse_address

TRUSTED_PROXY = "imgproc_trusted_proxy"
"""Set in the `scope["state"]` of a request whose connection comes from a trusted proxy."""


class Hop(Struct, frozen=True):
    """What one proxy states about the request that it received. What it does not state is empty."""

    client: str = ""
    scheme: str = ""
    host: str = ""


def is_refused(scope: Any, proxies: Sequence[Network]) -> bool:
    """Whether a request avoids the proxy: it comes from another machine, without TLS, to a service behind a proxy."""
    peer = _peer(scope)
    return bool(proxies) and scope["scheme"] != "https" and not is_loopback(peer) and not is_in(peer, proxies)


def apply_forwarded(scope: Any, proxies: Sequence[Network]) -> None:
    """Put what a trusted proxy states into the ASGI scope: `client`, `scheme` and the `host` header."""
    if not is_in(_peer(scope), proxies):
        return
    scope["state"][TRUSTED_PROXY] = True
    hops = _hops(scope["headers"])
    if not hops:
        scope["client"] = None  # the proxy does not name the client, and is not the client itself
        return
    scope["client"] = _client(hops, proxies)
    nearest = hops[-1]
    if nearest.scheme in ("http", "https"):
        scope["scheme"] = nearest.scheme
    if nearest.host:
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope["headers"] = [*headers, (b"host", nearest.host.encode("latin-1"))]


def _peer(scope: Any) -> str:
    """The address of the connection; "" where there is none, as for a Unix socket."""
    return str(scope["client"][0]) if scope.get("client") else ""


def _client(hops: Sequence[Hop], proxies: Sequence[Network]) -> tuple[str, int] | None:
    """The client that the outermost trusted proxy received the request from; None if it does not name the client.

    Addresses further out are stated by the client itself.
    """
    for hop in reversed(hops):
        address = parse_address(hop.client)
        if address is None:
            return None
        if not is_in(str(address), proxies):
            return str(address), 0
    return None


def _hops(headers: Sequence[tuple[bytes, bytes]]) -> list[Hop]:
    """The proxies that the request passed, the nearest last. `Forwarded` wins over the older headers."""
    forwarded = _values(headers, b"forwarded")
    if forwarded:
        return [_element(element) for element in forwarded]
    clients = [_without_port(client) for client in _values(headers, b"x-forwarded-for")]
    schemes, hosts = _values(headers, b"x-forwarded-proto"), _values(headers, b"x-forwarded-host")
    if not clients and not schemes and not hosts:
        return []
    nearest = Hop(clients[-1] if clients else "", schemes[-1].lower() if schemes else "", hosts[-1] if hosts else "")
    return [*(Hop(client) for client in clients[:-1]), nearest]


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """The items of a list header, from all its lines. Every comma separates items: no item read here has one."""
    lines = ",".join(value.decode("latin-1") for key, value in headers if key == name)
    return [item.strip() for item in lines.split(",") if item.strip()]


def _element(element: str) -> Hop:
    """One element of `Forwarded`: `for=192.0.2.7;proto=https`. Source: RFC 7239, section 4."""
    pairs = {}
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        pairs[name.strip().lower()] = value.strip().strip('"')
    return Hop(_without_port(pairs.get("for", "")), pairs.get("proto", "").lower(), pairs.get("host", ""))


def _without_port(address: str) -> str:
    """`192.0.2.7:80` and `[2001:db8::1]:80` without the port."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
