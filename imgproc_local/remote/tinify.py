"""A client of a Tinify-compatible compression service: sends a picture, receives a smaller one of the same format.

Source: the Tinify API reference. The response to `POST {base}/shrink` with the picture and HTTP Basic `api:KEY` is 201
with the `Location` of the result, a JSON body and `Compression-Count`. Errors have `{"error": …, "message": …}`.

Invariants: requests are sent to the configured origin only, whatever a redirect or `Location` says. Every wait and
every body is bounded. The key is in the Authorization header only, never in a message, a log record or a `repr`. Each
call runs its requests on an event loop of its own, so that every wait ends soon after `check_stop` raises.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.domain.errors import OutsideServiceFailed, SettingInvalid

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
"""The pause before the second attempt. It doubles with each attempt and is multiplied by a random 0.5 to 1.5."""
MAX_RETRY_AFTER_S = 10
"""If `Retry-After` is longer than this, the picture is not sent again."""
BACKOFF_S = 30.0
"""How long no picture is sent after a failure, so that the pictures in the queue don't each wait for the service."""

CONNECT_TIMEOUT_S, READ_TIMEOUT_S, WRITE_TIMEOUT_S = 5.0, 30.0, 20.0
POLL_S = 0.1
"""How often `check_stop` is called during a request."""
CHUNK_BYTES = 64 * 1024
MAX_JSON_BYTES = 64 * 1024
MAX_QUOTED_CHARS = 200

_PICTURE_REFUSED = (400, 413, 415, 422)
"""Statuses that refuse this picture. Another picture may be accepted."""
_TOO_MANY = 429


class _Response(Struct, frozen=True):
    """`body` is None if it was longer than allowed."""

    status: int
    location: str
    retry_after: str
    body: bytes | None


class _Size(Struct, frozen=True):
    size: int
    type: str = ""


class _Shrunk(Struct, frozen=True):
    """The body of a 201. Not every server sends `output`."""

    output: _Size | None = None


class _Refusal(Struct, frozen=True):
    error: str = ""
    message: str = ""


class _Transient(Exception):
    """A failure that another attempt may avoid. `pause_s` is the `Retry-After` of the service, None without one."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


def check_url(url: str) -> None:
    """Check that the key may be sent to `url`.

    Raises: SettingInvalid unless it is https, or http on this machine, without user, query and fragment.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or parts.query or parts.fragment:
        raise SettingInvalid(
            "compression_url: expected a URL such as https://api.tinify.com, without query and fragment."
        )
    if "@" in parts.netloc:
        raise SettingInvalid("compression_url: expected a URL without a user. Set the key as compression_key.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise SettingInvalid(
            f"compression_url: expected https, because each request contains the key; received http://{host}."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Tinify:
    """The service at `url`. `shrink` may be called from several threads at a time.

    `timeout_s` bounds a call of `shrink` with all its attempts. `on_count` is called with each `Compression-Count`.
    """

    def __init__(
        self,
        url: str,
        key: str,
        timeout_s: float,
        on_count: Callable[[int], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        check_url(url)
        self._url = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._on_count = on_count
        self._monotonic = monotonic
        self._backoff: tuple[float, str] | None = None  # until when, and the message of the failure

    def shrink(self, picture: bytes, mime: str, max_bytes: int, check_stop: Callable[[], None]) -> bytes | None:
        """The file that the service returns, unchecked; None if it is not smaller than `max_bytes`.

        `picture` is a file of the media type `mime`. Raises: OutsideServiceFailed if there is no usable response, and
        what `check_stop` raises.
        """
        check_stop()
        backoff = self._backoff
        if backoff is not None and self._monotonic() < backoff[0]:
            raise OutsideServiceFailed(f"{backoff[1]} Nothing is sent for {BACKOFF_S:g} seconds.")
        try:
            return asyncio.run(self._shrink_until_stopped(picture, mime, max_bytes, check_stop))
        except OutsideServiceFailed as failure:
            if not failure.this_picture_only:
                self._backoff = self._monotonic() + BACKOFF_S, failure.message
            raise

    async def _shrink_until_stopped(
        self, picture: bytes, mime: str, max_bytes: int, check_stop: Callable[[], None]
    ) -> bytes | None:
        """Run the requests, and cancel them if `check_stop` raises."""
        task = asyncio.create_task(self._shrink(picture, mime, max_bytes))
        try:
            while not (await asyncio.wait({task}, timeout=POLL_S))[0]:
                check_stop()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _shrink(self, picture: bytes, mime: str, max_bytes: int) -> bytes | None:
        import httpx

        try:
            client = httpx.AsyncClient(
                auth=httpx.BasicAuth("api", self._key),
                timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
                follow_redirects=False,
                # a proxy sees no key in https; http is for this machine, whose pictures no proxy may see
                trust_env=urlsplit(self._url).scheme == "https",
                headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL):
            raise OutsideServiceFailed(
                "The compression service can't be reached: the environment has invalid certificate or proxy settings."
            ) from None
        try:
            async with asyncio.timeout(self._timeout_s), client:
                response = await self._request(
                    client, "POST", f"{self._url}/shrink", 201, MAX_JSON_BYTES, picture, mime
                )
                shrunk = _decoded(response.body, _Shrunk)
                if shrunk is None:
                    raise OutsideServiceFailed("Expected JSON from the compression service, received something else.")
                if shrunk.output is not None and shrunk.output.size >= max_bytes:
                    return None
                result = await self._request(client, "GET", self._result_url(response.location), 200, max_bytes - 1)
                if result.body and shrunk.output is not None and len(result.body) != shrunk.output.size:
                    raise OutsideServiceFailed("The compression service sent a file of another size than announced.")
                return result.body
        except TimeoutError:
            raise OutsideServiceFailed(
                f"The compression service did not finish within {self._timeout_s:g} seconds."
            ) from None

    def _result_url(self, location: str) -> str:
        """The URL of the result. Raises: OutsideServiceFailed unless it is at the configured origin."""
        import httpx

        own = httpx.URL(f"{self._url}/shrink")
        try:
            # parsed by httpx, which sends the request: another parser may see another host in the same URL
            url = own.join(location)
        except httpx.InvalidURL:
            url = httpx.URL()
        if not location or url.userinfo or (url.scheme, url.host, url.port) != (own.scheme, own.host, own.port):
            raise OutsideServiceFailed(
                "Expected the result at the compression service, but its Location is elsewhere or missing."
            )
        return str(url)

    async def _request(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: str,
        expected: int,
        max_bytes: int,
        picture: bytes | None = None,
        mime: str = "",
    ) -> _Response:
        """The response with the expected status, after at most `ATTEMPTS` attempts."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = await self._send(client, method, url, max_bytes, picture, mime)
                self._require_status(response, expected)
                return response
            except _Transient as failure:
                pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311
                if attempt == ATTEMPTS:
                    raise OutsideServiceFailed(f"{failure} {ATTEMPTS} attempts failed.") from None
                log.info("%s Trying again.", failure)
                await asyncio.sleep(pause_s if failure.pause_s is None else failure.pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self, client: httpx.AsyncClient, method: str, url: str, max_bytes: int, picture: bytes | None, mime: str
    ) -> _Response:
        import httpx

        headers = {} if picture is None else {"Content-Type": mime, "Content-Length": str(len(picture))}
        try:
            async with client.stream(
                method, url, headers=headers, content=None if picture is None else _chunks(picture)
            ) as response:
                count = response.headers.get("Compression-Count", "")
                if re.fullmatch(r"[0-9]{1,9}", count):
                    self._on_count(int(count))
                encoding = response.headers.get("Content-Encoding", "identity")
                if encoding.lower() != "identity":
                    raise OutsideServiceFailed(
                        "The compression service used a content encoding that was not requested."
                    )
                return _Response(
                    response.status_code,
                    response.headers.get("Location", ""),
                    response.headers.get("Retry-After", ""),
                    await _read(response, max_bytes if response.status_code < 300 else MAX_JSON_BYTES),
                )
        except (httpx.HTTPError, httpx.StreamError) as error:
            # the error object contains the request and so the key: only its type is reported
            raise _Transient(f"The connection to the compression service failed ({type(error).__name__}).") from None

    def _require_status(self, response: _Response, expected: int) -> None:
        """Raises: _Transient or OutsideServiceFailed for any other status than `expected`."""
        status = response.status
        if status == expected:
            return
        reason = self._reason(response)
        if status == _TOO_MANY:
            if re.fullmatch(r"[0-9]{1,9}", response.retry_after) and int(response.retry_after) <= MAX_RETRY_AFTER_S:
                raise _Transient(
                    f"The compression service received too many requests{reason}.", float(response.retry_after)
                )
            raise OutsideServiceFailed(f"The compression service refuses more requests: its limit is reached{reason}.")
        if status >= 500:
            raise _Transient(f"The compression service failed with status {status}{reason}.")
        if status in (401, 403):
            raise OutsideServiceFailed(f"The compression service does not accept the key{reason}.")
        if status in _PICTURE_REFUSED:
            raise OutsideServiceFailed(
                f"The compression service does not accept this picture{reason}.", this_picture_only=True
            )
        if 300 <= status < 400:
            raise OutsideServiceFailed("The compression service sent a redirect. Redirects are not followed.")
        raise OutsideServiceFailed(f"The compression service answered with status {status}{reason}.")

    def _reason(self, response: _Response) -> str:
        """The error message of the service as " (…)", printable and bounded; "" if there is none or it has the key."""
        refusal = _decoded(response.body, _Refusal)
        if refusal is None:
            return ""
        text = ": ".join(part for part in (refusal.error, refusal.message) if part)
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        secrets = (self._key, b64encode(f"api:{self._key}".encode()).decode())
        if not text or any(secret in text for secret in secrets):
            return ""
        return f" ({text[:MAX_QUOTED_CHARS].rstrip('. ')})"


def _decoded(body: bytes | None, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body or b"", type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    """`data` in chunks, so that the write timeout applies to each chunk instead of the whole picture."""
    for at in range(0, len(data), CHUNK_BYTES):
        yield data[at : at + CHUNK_BYTES]


async def _read(response: httpx.Response, max_bytes: int) -> bytes | None:
    """The body; None, without reading the rest, if it is longer than `max_bytes`."""
    body = bytearray()
    async for chunk in response.aiter_raw(CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)
