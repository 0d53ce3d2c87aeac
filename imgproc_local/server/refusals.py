"""The error responses that the server sends itself, in the shape of the API's errors."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import Struct

from imgproc_local.api.bodies import ErrorBody
from imgproc_local.server.limits import Limits

RETRY_AFTER_S = 5


class Refusal(Struct, frozen=True):
    """An error response. The connection is closed after it."""

    status: HTTPStatus
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def response(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """The bytes of the response. `default_headers` are those of all responses, such as `Date`."""
        body = msgspec.json.encode(ErrorBody(self.message))
        headers = (
            *default_headers,
            *self.headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        )
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (self.status, self.status.phrase.encode(), lines, body)


def bad_request(expected: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, f"{expected} The connection is closed.")


NOT_HTTP = bad_request("The request must be well-formed HTTP/1.1 (RFC 9112); the request received is not.")
NOT_ONE_HOST = bad_request("The request must have exactly one Host header field (RFC 9112, section 3.2).")
NO_UPGRADE = bad_request("Expected a request without protocol upgrade or CONNECT, which are not supported here.")


def too_many_pipelined(limits: Limits) -> Refusal:
    return bad_request(f"At most {limits.pipelined_requests} requests may wait on one connection; received more.")


def header_too_large(limits: Limits) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"The request line and header fields may have at most {limits.header_bytes} bytes and {limits.header_fields}"
        " fields; received more. If a browser sends cookies of other services, use another host name"
        " or delete them.",
    )


def header_timed_out(limits: Limits) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_TIMEOUT, f"The header of the request was not complete within {limits.header_s:g} seconds."
    )


NO_CONNECTION_FREE = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The service has too many open connections. Send the request again later.",
    ((b"retry-after", b"%d" % RETRY_AFTER_S),),
)
