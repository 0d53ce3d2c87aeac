"""Addresses of this machine's loopback interface, the only ones that pictures are sent to.

No name is looked up: a host is an IP address, or "localhost", which stands for 127.0.0.1 and ::1. So connections are
made only to addresses that were checked.

Source: RFC 6761, section 6.3 ("localhost.").
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

LOCALHOST = ("127.0.0.1", "[::1]")


class Address(Struct, frozen=True):
    """`url` is the address as messages show it; `origins` are the same with IP addresses, to be tried in this order."""

    url: str
    origins: tuple[str, ...]


def parse_address(url: str) -> Address:
    """The address in `url`. Raises: ValueError, if it is not `http://HOST:PORT` with a host of this machine."""
    expected = "expected http://127.0.0.1:PORT, or localhost or another loopback address in place of 127.0.0.1"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{expected}; received {url!r}") from error
    plain = parts.scheme == "http" and parts.path in ("", "/") and not parts.query and not parts.fragment
    if not plain or "@" in parts.netloc or not port:
        raise ValueError(f"{expected}; received {url!r}")
    hosts = LOCALHOST if host == "localhost" else _loopback_host(host)
    if not hosts:
        raise ValueError(f"{expected}, because pictures don't leave this machine; received {url!r}")
    return Address(url.rstrip("/"), tuple(f"http://{host}:{port}" for host in hosts))


def _loopback_host(host: str) -> tuple[str, ...]:
    """`host` as it is written in a URL, if it is a loopback address; else nothing."""
    try:
        address = ip_address(host)
    except ValueError:
        return ()
    if not address.is_loopback or "%" in host:
        return ()
    return (f"[{address}]" if address.version == 6 else str(address),)
