"""Parses IP addresses, networks and origins of web pages, and recognises addresses of this machine."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALL_INTERFACES = ("0.0.0.0", "::")  # noqa: S104
"""The addresses with which a server listens on all interfaces."""


def parse_address(text: str) -> _Address | None:
    """The address in `text`, which may have brackets and a zone; None if it is a name instead.

    An IPv4 address that is mapped to IPv6 is returned as IPv4: `::ffff:192.0.2.1` as 192.0.2.1.
    """
    try:
        address = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach `host`, an address or a name."""
    if host.lower() == "localhost":
        return True
    address = parse_address(host)
    return address is not None and address.is_loopback


def host_name(host: str) -> str:
    """The name or address in a `Host` header, without the port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback_name(name: str) -> bool:
    """Whether `name`, from a `Host` header, is one by which a browser opens a service on its own machine.

    It is stricter than `is_loopback`, which takes any spelling of any loopback address.
    """
    return name in ("127.0.0.1", "localhost", "::1")


def parse_networks(text: str) -> tuple[Network, ...]:
    """The networks in `text`, separated by commas: `192.0.2.7, 10.0.0.0/8`. A single address is a network of one.

    Raises: ValueError, which names the invalid item.
    """
    return tuple(ipaddress.ip_network(item.strip()) for item in text.split(",") if item.strip())


def is_in(host: str, networks: Sequence[Network]) -> bool:
    """Whether `host`, an address, belongs to one of the networks."""
    address = parse_address(host)
    return address is not None and any(address in network for network in networks)


_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_origins(text: str) -> tuple[str, ...]:
    """The origins of web pages in `text`, separated by commas, as browsers send them: `https://shop.example:8443`.

    Raises: ValueError, which names the invalid item. A pattern such as `*` is invalid.
    """
    return tuple(dict.fromkeys(_parse_origin(item.strip()) for item in text.split(",") if item.strip()))


def parse_public_url(text: str) -> str:
    """The origin by which browsers reach the service: `https://img.example.org`.

    Raises: ValueError, also for an address with a path.
    """
    origin = text.strip().rstrip("/")
    if "/" in origin.partition("://")[2]:
        why = "Below a path of another site, every page of that site could read the session of the local page"
        raise ValueError(f"expected no path; received {text[:80]!r}. {why}: give the service a host name of its own")
    return _parse_origin(origin)


def _parse_origin(text: str) -> str:
    match = _ORIGIN.fullmatch(text.lower())
    if match is None or int(match[3] or 0) > 65535 or (match[2][0] == "[" and parse_address(match[2]) is None):
        raise ValueError(
            f"expected an origin such as https://shop.example, with http or https, without a path and in ASCII;"
            f" received {text[:80]!r}"
        )
    scheme, host, port = match.groups()
    is_usual = port is None or int(port) == _DEFAULT_PORTS[scheme]  # browsers omit it
    return f"{scheme}://{host}" if is_usual else f"{scheme}://{host}:{int(port)}"
