"""A client of a Tinify-compatible compression service: sends a picture, receives a smaller one of the same format.

Source: the Tinify API reference. The client sends the picture with `POST {base}/shrink` and HTTP Basic authentication
(user `api`, the key as password). The service answers with status 201, a JSON body, and the URL of the result in the
header `Location`. The body of an error is `{"error": …, "message": …}`.

Invariants: requests are sent to the configured origin only, whatever a redirect or `Location` says. Every wait has a
timeout and every body a maximum size. The key is in the Authorization header only, never in a message, a log record or
a `repr`. `Tinify.shrink` runs its requests in a new event loop and cancels them when `check_stop` raises.

No request is repeated: the local codecs do the work for a picture that the service fails to compress.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from imgproc_local import __version__
from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import CheckStop, ExternalServiceFailed, SettingInvalid
from imgproc_local.system.threads import run_until_stopped

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

COOLDOWN_S = 30.0
"""After a failure, `shrink` fails without a request for this long, so that queued pictures don't wait in vain."""

CONNECT_TIMEOUT_S, READ_TIMEOUT_S, WRITE_TIMEOUT_S = 5.0, 30.0, 20.0
POLL_INTERVAL_S = 0.1
"""How often `check_stop` is called during a request."""
CHUNK_BYTES = 64 * 1024
MAX_JSON_BYTES = 64 * 1024
MAX_ERROR_CHARS = 200

_PICTURE_REJECTED = (400, 413, 415, 422)
"""Status codes that reject this picture; the service may accept another."""


class _OutputInfo(Struct, frozen=True):
    """`size` is the size of the result in bytes."""

    size: int


class _SuccessBody(Struct, frozen=True):
    """The JSON body of a response with status 201. Not every server sends `output`."""

    output: _OutputInfo | None = None


class _ErrorBody(Struct, frozen=True):
    """The JSON body of an error response."""

    error: str = ""
    message: str = ""


def check_url(url: str) -> None:
    """Check that the key may be sent to `url`.

    Raises: SettingInvalid if it has a user, query or fragment, or is neither https nor http on this machine.
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
    if parts.scheme == "http" and not is_loopback(host):
        raise SettingInvalid(
            f"compression_url: expected https, because each request contains the key; received http://{host}."
        )


class Tinify:
    """A client of the service at `url`. `shrink` may be called from several threads at a time.

    `timeout_s` limits one call of `shrink`.
    """

    def __init__(self, url: str, key: str, timeout_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        check_url(url)
        self._url = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._cooldown: tuple[float, str] | None = None  # the time when it ends, and the message of the failure

    def shrink(self, picture: bytes, mime: str, check_stop: CheckStop) -> bytes | None:
        """The file that the service returns, not yet validated; None if it is not smaller than `picture`.

        `picture` is a file of the media type `mime`. Raises: ExternalServiceFailed, if there is no usable response;
        what `check_stop` raises.
        """
        check_stop()
        cooldown = self._cooldown
        if cooldown is not None and self._monotonic() < cooldown[0]:
            raise ExternalServiceFailed(f"{cooldown[1]} No request is sent for {COOLDOWN_S:g} seconds after a failure.")
        try:
            return run_until_stopped(self._shrink(picture, mime), check_stop, POLL_INTERVAL_S)
        except ExternalServiceFailed as failure:
            if not failure.this_picture_only:
                self._cooldown = self._monotonic() + COOLDOWN_S, failure.message
            raise

    async def _shrink(self, picture: bytes, mime: str) -> bytes | None:
        import httpx

        try:
            client = httpx.AsyncClient(
                auth=httpx.BasicAuth("api", self._key),
                timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
                follow_redirects=False,
                # over https, a proxy can't read the key; http is for loopback addresses only, where no proxy is used
                trust_env=urlsplit(self._url).scheme == "https",
                headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL):
            raise ExternalServiceFailed(
                "The compression service can't be reached: the environment has invalid certificate or proxy settings."
            ) from None
        try:
            async with asyncio.timeout(self._timeout_s), client:
                location, body = await self._request(
                    client, "POST", f"{self._url}/shrink", 201, MAX_JSON_BYTES, picture, mime
                )
                shrunk = _decode_json(body, _SuccessBody)
                if shrunk is None:
                    raise ExternalServiceFailed("Expected JSON from the compression service; received something else.")
                if shrunk.output is not None and shrunk.output.size >= len(picture):
                    return None
                _, result = await self._request(client, "GET", self._result_url(location), 200, len(picture) - 1)
                if result and shrunk.output is not None and len(result) != shrunk.output.size:
                    raise ExternalServiceFailed(
                        "The compression service sent a file of a different size than its response states."
                    )
                return result
        except TimeoutError:
            raise ExternalServiceFailed(
                f"The compression service did not finish within {self._timeout_s:g} seconds."
            ) from None

    def _result_url(self, location: str) -> str:
        """The URL of the result. Raises: ExternalServiceFailed unless it is at the configured origin."""
        import httpx

        shrink_url = httpx.URL(f"{self._url}/shrink")
        try:
            # parsed by httpx, which sends the request: another parser may see another host in the same URL
            url = shrink_url.join(location)
        except httpx.InvalidURL:
            url = httpx.URL()
        origin = shrink_url.scheme, shrink_url.host, shrink_url.port
        if not location or url.userinfo or (url.scheme, url.host, url.port) != origin:
            raise ExternalServiceFailed(
                "The Location header of the compression service is missing or names another origin."
            )
        return str(url)

    async def _request(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: str,
        expected_status: int,
        max_bytes: int,
        picture: bytes | None = None,
        mime: str = "",
    ) -> tuple[str, bytes | None]:
        """The header `Location` and the body of a response with `expected_status`; None for a longer body.

        Raises: ExternalServiceFailed.
        """
        import httpx

        headers = {} if picture is None else {"Content-Type": mime, "Content-Length": str(len(picture))}
        content = None if picture is None else _chunks(picture)
        try:
            async with client.stream(method, url, headers=headers, content=content) as response:
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise ExternalServiceFailed(
                        "The compression service used a content encoding that was not requested."
                    )
                if response.status_code != expected_status:
                    raise self._refusal(response.status_code, await _read_body(response, MAX_JSON_BYTES))
                return response.headers.get("Location", ""), await _read_body(response, max_bytes)
        except (httpx.HTTPError, httpx.StreamError) as error:
            # the error object contains the request and so the key: only its type is reported
            raise ExternalServiceFailed(
                f"The connection to the compression service failed ({type(error).__name__})."
            ) from None

    def _refusal(self, status: int, body: bytes | None) -> ExternalServiceFailed:
        """The error to raise for a status that was not expected. Redirects are not followed."""
        detail = self._error_detail(body)
        if status in (401, 403):
            return ExternalServiceFailed(f"The compression service does not accept the key{detail}.")
        return ExternalServiceFailed(
            f"The compression service answered with status {status}{detail}.",
            this_picture_only=status in _PICTURE_REJECTED,
        )

    def _error_detail(self, body: bytes | None) -> str:
        """The error message of the service in parentheses, printable and truncated, to append to a message.

        "" if there is none, or if it contains the key.
        """
        error = _decode_json(body, _ErrorBody)
        if error is None:
            return ""
        text = ": ".join(part for part in (error.error, error.message) if part)
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        secrets = (self._key, b64encode(f"api:{self._key}".encode()).decode())
        if not text or any(secret in text for secret in secrets):
            return ""
        return f" ({text[:MAX_ERROR_CHARS].rstrip('. ')})"


def _decode_json(body: bytes | None, body_type: type[T]) -> T | None:
    """The JSON `body` as `body_type`; None if it is not valid."""
    try:
        return msgspec.json.decode(body or b"", type=body_type)
    except (msgspec.DecodeError, RecursionError):
        return None


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    """`data` in chunks, so that the write timeout applies to each chunk instead of the whole picture."""
    for offset in range(0, len(data), CHUNK_BYTES):
        yield data[offset : offset + CHUNK_BYTES]


async def _read_body(response: httpx.Response, max_bytes: int) -> bytes | None:
    """The body; None, without reading the rest, if it is longer than `max_bytes`."""
    body = bytearray()
    async for chunk in response.aiter_raw(CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)
