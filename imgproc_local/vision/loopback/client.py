"""HTTP requests to a program on this machine: bounded in time and size, and interruptible.

Redirects are not followed, and the proxies of the environment are not used, so that a request reaches nothing but the
address that it was made for.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.domain.errors import CheckStop
from imgproc_local.system.threads import run_until_stopped
from imgproc_local.vision.loopback.address import Address

CONNECT_TIMEOUT_S = 2.0
POLL_S = 0.1
"""The interval at which `check_stop` is called during a request."""


class Reply(Struct, frozen=True):
    """A response: its status code and its body."""

    status: int
    body: bytes


class Unreachable(Exception):
    """Nothing listens at the address, or the connection broke."""


class ResponseTimeout(Exception):
    """The response was not complete in time."""


class ResponseTooLarge(Exception):
    """The response has more bytes than allowed."""


def request(
    address: Address, path: str, document: Any, *, timeout_s: float, max_bytes: int, check_stop: CheckStop
) -> Reply:
    """The response to a POST of `document` as JSON, or to a GET if `document` is None.

    `timeout_s` limits the whole exchange, `max_bytes` the body of the response.

    Raises: Unreachable; ResponseTimeout; ResponseTooLarge; what `check_stop` raises.
    """
    check_stop()
    body = None if document is None else msgspec.json.encode(document)
    return run_until_stopped(_exchange(address, path, body, timeout_s, max_bytes), check_stop, POLL_S)


async def _exchange(address: Address, path: str, body: bytes | None, timeout_s: float, max_bytes: int) -> Reply:
    import httpx

    client = httpx.AsyncClient(
        # a program sends nothing before its answer is complete, so reading may take as long as the whole exchange
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        follow_redirects=False,
        trust_env=False,
        # only http is used: reading the system's certificates would take longer than the request
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
    )
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        async with asyncio.timeout(timeout_s), client:
            for origin in address.origins:
                try:
                    async with client.stream(
                        "GET" if body is None else "POST", origin + path, content=body, headers=headers
                    ) as response:
                        return Reply(response.status_code, await _read(response, max_bytes))
                except httpx.ConnectError:
                    if origin == address.origins[-1]:
                        raise
    except (TimeoutError, httpx.TimeoutException):
        raise ResponseTimeout from None
    except httpx.HTTPError as error:
        raise Unreachable(type(error).__name__) from error
    raise AssertionError("unreachable: an address has at least one origin")


async def _read(response: Any, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            raise ResponseTooLarge
    return bytes(body)
