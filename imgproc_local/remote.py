"""A client of a Tinify-compatible compression service: sends a picture, receives a smaller one of the same format.

The service is disabled by default, and no connection is opened before the first picture is sent. Each picture is sent
with `POST {base}/shrink` and HTTP Basic authentication (user `api`, the key as password). The service answers with
status 201, and the header `Location` has the URL of the result. Source: the Tinify API reference.

Invariants: requests are sent to the configured origin only, whatever a redirect or `Location` says. Every wait has a
timeout and every body a maximum size. The key is in the Authorization header only, never in a message, a log record or
a `repr`; so nothing that the service writes is quoted. No request is repeated: the local codecs do the work for a
picture that the service fails to compress.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imgproc_local import __version__
from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import CheckStop, ExternalServiceFailed, SettingInvalid
from imgproc_local.system.threads import run_until_stopped

if TYPE_CHECKING:
    import httpx

_COOLDOWN_S = 30.0
"""After a failure, `shrink` fails without a request for this long, so that queued pictures don't wait in vain."""

_PICTURE_REJECTED = (400, 413, 415, 422)
"""Status codes that reject this picture; the service may accept another."""
_ADVICE = {401: "It does not accept the key.", 403: "It does not accept the key.", 429: "Its limit is used up."}
"""What the other status codes mean that a user can do something about."""


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
        self._cooldown: tuple[float, str] = 0.0, ""  # the time when it ends, and the message of the failure

    def shrink(self, picture: bytes, mime: str, check_stop: CheckStop) -> bytes | None:
        """The file that the service returns, not yet validated; None if it is not smaller than `picture`.

        `picture` is a file of the media type `mime`. Raises: ExternalServiceFailed, if there is no usable response;
        what `check_stop` raises, within a tenth of a second.
        """
        check_stop()
        ends_s, message = self._cooldown
        if message and self._monotonic() < ends_s:
            raise ExternalServiceFailed(f"{message} No request is sent for {_COOLDOWN_S:g} seconds after a failure.")
        try:
            return run_until_stopped(self._shrink(picture, mime), check_stop, 0.1)
        except ExternalServiceFailed as failure:
            if not failure.this_picture_only:
                self._cooldown = self._monotonic() + _COOLDOWN_S, failure.message
            raise

    async def _shrink(self, picture: bytes, mime: str) -> bytes | None:
        import httpx

        try:
            client = httpx.AsyncClient(
                auth=httpx.BasicAuth("api", self._key),
                timeout=httpx.Timeout(30.0, connect=5.0, write=None),  # an upload has the time of the whole call
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
                headers = {"Content-Type": mime}
                async with client.stream("POST", f"{self._url}/shrink", headers=headers, content=picture) as created:
                    _require_status(created, 201)
                    result_url = self._result_url(created.headers.get("Location", ""))
                    await _read_body(created, 65536)  # else its connection would not be used again
                async with client.stream("GET", result_url) as response:
                    _require_status(response, 200)
                    return await _read_body(response, len(picture) - 1)
        except TimeoutError:
            raise ExternalServiceFailed(
                f"The compression service did not finish within {self._timeout_s:g} seconds."
            ) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            # the error object contains the request and so the key: only its type is reported
            raise ExternalServiceFailed(
                f"The connection to the compression service failed ({type(error).__name__})."
            ) from None

    def _result_url(self, location: str) -> httpx.URL:
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
        return url


def _require_status(response: httpx.Response, expected: int) -> None:
    """Raises: ExternalServiceFailed, for another status or a compressed body. Redirects are not followed."""
    if (status := response.status_code) != expected:
        answer = f"The compression service answered with status {status}, expected {expected}."
        advice = _ADVICE.get(status, "")
        raise ExternalServiceFailed(f"{answer} {advice}".strip(), this_picture_only=status in _PICTURE_REJECTED)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ExternalServiceFailed("The compression service used a content encoding that was not requested.")


async def _read_body(response: httpx.Response, max_bytes: int) -> bytes | None:
    """The body; None, without reading the rest, if it is longer than `max_bytes`."""
    body = bytearray()
    async for chunk in response.aiter_raw(65536):
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)
