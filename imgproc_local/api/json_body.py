"""Reads the JSON body of a request, within limits of size and time."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from imgproc_local.domain.errors import InvalidRequest, UploadTimedOut, UploadTooLarge

T = TypeVar("T")

MAX_BODY_BYTES = 16 * 1024
BODY_TIMEOUT_S = 10


async def read_json(
    request: Request[Any, Any, Any],
    body_type: type[T],
    expected: str,
    max_bytes: int = MAX_BODY_BYTES,
    without_body: T | None = None,
) -> T:
    """The body as `body_type`. `expected` describes it for the message, such as "a JSON object with name (text)".

    A request without a body gives `without_body`; it is refused if that is None.
    Raises: InvalidRequest, UploadTooLarge, UploadTimedOut.
    """
    body = await _read(request, max_bytes)
    if not body:
        if without_body is not None:
            return without_body
        raise InvalidRequest({"body": [f"Expected {expected}, received no body."]})
    try:
        return msgspec.json.decode(body, type=body_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest({"body": [f"Expected {expected}: {error}."]}) from error


async def _read(request: Request[Any, Any, Any], max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise UploadTooLarge(f"Expected a body of at most {max_bytes} bytes, received more.")
    except InternalServerException:  # Litestar raises this when the client has disconnected
        raise InvalidRequest({"body": ["The connection was closed before the whole body was received."]}) from None
    except TimeoutError:
        raise UploadTimedOut(f"The body was not received within {BODY_TIMEOUT_S} seconds.") from None
    return bytes(body)
