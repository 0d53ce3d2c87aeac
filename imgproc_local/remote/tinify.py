"""A client of a Tinify-compatible compression service: a picture out, a smaller one of the same format back.

Source: the Tinify API reference. `POST {base}/shrink` with the picture, HTTP Basic `api:KEY`, is answered with 201, a
`Location` to fetch the result from, a JSON body and `Compression-Count`; refusals carry `{"error": …, "message": …}`.

Invariants: a request goes to the configured origin or nowhere, whatever redirects and `Location` say; every wait and
every body is bounded; the key is in the Authorization header and in no message, log line or representation. The
requests run on an event loop of their own call, so that any wait in them is given up soon after `check_stop` raises.
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
"""Before the second attempt; doubled before each further one, each time times a random 0.5 to 1.5."""
MAX_RETRY_AFTER_S = 10
"""A service that asks for more patience is not asked again for this picture."""
REST_S = 30.0
"""How long after it failed the service is left alone, so that a queue of pictures does not wait for it one by one."""

CONNECT_TIMEOUT_S, READ_TIMEOUT_S, WRITE_TIMEOUT_S = 5.0, 30.0, 20.0
POLL_S = 0.1
"""How often a running request asks whether it is still wanted."""
PIECE_BYTES = 64 * 1024
MAX_JSON_BYTES = 64 * 1024
MAX_TOLD_CHARACTERS = 200

_PICTURE_REFUSED = (400, 413, 415, 422)
"""The answer is about this one picture: the service itself is well."""
_TOO_MANY = 429


class _Answer(Struct, frozen=True):
    """`body` is None where it was longer than allowed."""

    status: int
    location: str
    retry_after: str
    body: bytes | None


class _Size(Struct, frozen=True):
    size: int
    type: str = ""


class _Shrunk(Struct, frozen=True):
    """The body of a 201. Not every server tells `output`."""

    output: _Size | None = None


class _Refusal(Struct, frozen=True):
    error: str = ""
    message: str = ""


class _Transient(Exception):
    """Trying again may help. `pause_s` is how long the service asks to wait, None where it does not say."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


def check_url(url: str) -> None:
    """Refuse an address that the key must not be sent to.

    Raises: SettingInvalid unless it is https, or http on this machine, without user, query and fragment.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or parts.query or parts.fragment:
        raise SettingInvalid("compression_url: expected an address such as https://api.tinify.com, but another came.")
    if "@" in parts.netloc:
        raise SettingInvalid("compression_url: expected an address without a user; the key is compression_key.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise SettingInvalid(f"compression_url: expected https, as each picture carries the key; http://{host} came.")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Tinify:
    """One configured service. `shrink` may be called from several threads at a time.

    `timeout_s` bounds one call with all its attempts; `on_count` gets every `Compression-Count` that comes.
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
        self._rests: tuple[float, str] | None = None

    def shrink(self, picture: bytes, mime: str, max_bytes: int, check_stop: Callable[[], None]) -> bytes | None:
        """The service's smaller file as it came, None where it has none under `max_bytes`.

        Raises: OutsideServiceFailed where it gave no usable answer, and what `check_stop` raises.
        """
        check_stop()
        rests = self._rests
        if rests is not None and self._monotonic() < rests[0]:
            raise OutsideServiceFailed(f"{rests[1]} It is left alone for {REST_S:g} seconds.")
        try:
            return asyncio.run(self._watched(picture, mime, max_bytes, check_stop))
        except OutsideServiceFailed as failure:
            if not failure.this_picture_only:
                self._rests = self._monotonic() + REST_S, failure.message
            raise

    async def _watched(self, picture: bytes, mime: str, max_bytes: int, check_stop: Callable[[], None]) -> bytes | None:
        """Run the requests, asking `check_stop` meanwhile."""
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
                # a proxy of the environment may carry https, where it sees no key, and never what stays here
                trust_env=urlsplit(self._url).scheme == "https",
                headers={"User-Agent": f"imgproc-local/{__version__}", "Accept-Encoding": "identity"},
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL):
            raise OutsideServiceFailed(
                "The compression service can't be called: the environment's certificate or proxy settings are unusable."
            ) from None
        try:
            async with asyncio.timeout(self._timeout_s), client:
                answer = await self._ask(client, "POST", f"{self._url}/shrink", 201, MAX_JSON_BYTES, picture, mime)
                shrunk = _decoded(answer.body, _Shrunk)
                if shrunk is None:
                    raise OutsideServiceFailed("The compression service answered with something else than its JSON.")
                if shrunk.output is not None and shrunk.output.size >= max_bytes:
                    return None
                result = await self._ask(client, "GET", self._result_url(answer.location), 200, max_bytes - 1)
                if result.body and shrunk.output is not None and len(result.body) != shrunk.output.size:
                    raise OutsideServiceFailed("The compression service sent a file of another size than it said.")
                return result.body
        except TimeoutError:
            raise OutsideServiceFailed(
                f"The compression service was not done within {self._timeout_s:g} seconds."
            ) from None

    def _result_url(self, location: str) -> str:
        """Where to fetch the result. Raises: OutsideServiceFailed unless that is at the configured origin."""
        import httpx

        own = httpx.URL(f"{self._url}/shrink")
        try:
            # read by what will make the request: two readers may see two hosts in one address
            url = own.join(location)
        except httpx.InvalidURL:
            url = httpx.URL()
        if not location or url.userinfo or (url.scheme, url.host, url.port) != (own.scheme, own.host, own.port):
            raise OutsideServiceFailed("The compression service named no place of its own to fetch the result from.")
        return str(url)

    async def _ask(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: str,
        expected: int,
        max_bytes: int,
        picture: bytes | None = None,
        mime: str = "",
    ) -> _Answer:
        """The answer with the expected status, after as many attempts as that takes and are allowed."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._once(client, method, url, max_bytes, picture, mime)
                self._refuse(answer, expected)
                return answer
            except _Transient as failure:
                pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311
                if attempt == ATTEMPTS:
                    raise OutsideServiceFailed(f"{failure} {ATTEMPTS} attempts were made.") from None
                log.info("%s Trying again.", failure)
                await asyncio.sleep(pause_s if failure.pause_s is None else failure.pause_s)
        raise AssertionError("the last attempt returned or raised")

    async def _once(
        self, client: httpx.AsyncClient, method: str, url: str, max_bytes: int, picture: bytes | None, mime: str
    ) -> _Answer:
        import httpx

        headers = {} if picture is None else {"Content-Type": mime, "Content-Length": str(len(picture))}
        try:
            async with client.stream(
                method, url, headers=headers, content=None if picture is None else _pieces(picture)
            ) as answer:
                count = answer.headers.get("Compression-Count", "")
                if re.fullmatch(r"[0-9]{1,9}", count):
                    self._on_count(int(count))
                encoding = answer.headers.get("Content-Encoding", "identity")
                if encoding.lower() != "identity":
                    raise OutsideServiceFailed("The compression service answered in an encoding nobody asked for.")
                return _Answer(
                    answer.status_code,
                    answer.headers.get("Location", ""),
                    answer.headers.get("Retry-After", ""),
                    await _read(answer, max_bytes if answer.status_code < 300 else MAX_JSON_BYTES),
                )
        except (httpx.HTTPError, httpx.StreamError) as error:
            # the error itself holds the request and with it the key: only its kind is told
            raise _Transient(f"The compression service could not be talked to ({type(error).__name__}).") from None

    def _refuse(self, answer: _Answer, expected: int) -> None:
        """Return where the status is the expected one. Raises: _Transient, OutsideServiceFailed."""
        status = answer.status
        if status == expected:
            return
        told = self._told(answer)
        if status == _TOO_MANY:
            if re.fullmatch(r"[0-9]{1,9}", answer.retry_after) and int(answer.retry_after) <= MAX_RETRY_AFTER_S:
                raise _Transient(f"The compression service had too many requests{told}.", float(answer.retry_after))
            raise OutsideServiceFailed(f"The compression service takes no more for now: its limit is reached{told}.")
        if status >= 500:
            raise _Transient(f"The compression service failed with status {status}{told}.")
        if status in (401, 403):
            raise OutsideServiceFailed(f"The compression service does not accept the key{told}.")
        if status in _PICTURE_REFUSED:
            raise OutsideServiceFailed(
                f"The compression service does not take this picture{told}.", this_picture_only=True
            )
        if 300 <= status < 400:
            raise OutsideServiceFailed("The compression service pointed elsewhere, and redirects are not followed.")
        raise OutsideServiceFailed(f"The compression service answered with status {status}{told}.")

    def _told(self, answer: _Answer) -> str:
        """What a refusal's body says, ready to be put behind a phrase; empty where it says nothing fit to be told."""
        refusal = _decoded(answer.body, _Refusal)
        if refusal is None:
            return ""
        words = ": ".join(part for part in (refusal.error, refusal.message) if part)
        words = " ".join("".join(c if c.isprintable() else " " for c in words).split())
        secrets = (self._key, b64encode(f"api:{self._key}".encode()).decode())
        if not words or any(secret in words for secret in secrets):
            return ""
        return f" ({words[:MAX_TOLD_CHARACTERS].rstrip('. ')})"


def _decoded(body: bytes | None, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body or b"", type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """In pieces, so that the write timeout is per piece and not for the whole picture."""
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


async def _read(answer: httpx.Response, max_bytes: int) -> bytes | None:
    """The body, None as soon as it is longer than `max_bytes`."""
    body = bytearray()
    async for piece in answer.aiter_raw(PIECE_BYTES):
        body += piece
        if len(body) > max_bytes:
            return None
    return bytes(body)
