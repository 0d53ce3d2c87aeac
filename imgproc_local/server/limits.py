"""The limits that the server applies to connections and request headers, before any API key is read."""

from __future__ import annotations

import sys

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of one server. Sizes are in bytes, times in seconds."""

    connections: int = 2000
    """Connections open at once. Fewer if the handle limit of the process is too low."""
    reserved_handles: int = 256
    """File handles that connections leave free for the database, stored files and worker processes."""
    address_share: float = 0.5
    """The share of all connections that one address outside this machine may hold."""
    header_bytes: int = 32 * 1024
    """Bytes of a request line with its header fields. Cookies of other services on the same host name count too."""
    header_fields: int = 100
    header_s: float = 20
    """How long a new connection may send nothing, and how long a header may take from its first byte."""
    pipelined_requests: int = 8
    """Requests that may wait on a connection while an earlier one is answered."""
    keep_alive_s: float = 75
    """How long a connection stays open between requests."""
    discard_s: float = 30
    """How long the rest of a body is received and discarded after its request was answered. A client that sends
    the whole body first reads the answer only afterwards."""
    refused_s: float = 2
    """How long a connection stays open after a refusal, so that the client can read it."""
    stalled_write_s: float = 60
    """How long a client may leave an answer unread."""
    stop_s: float = 3
    """How long a stop waits before it closes connections whose requests are still being answered. Shorter than the
    time-out of uvicorn, which logs a traceback per request."""


MIN_HANDLES = 16
"""Handles that connections may use even if `reserved_handles` would leave fewer."""


def handles_for_connections(limits: Limits) -> int:
    """How many handles connections and their requests may use now: other programs can change the limit of a process.

    A request that is being answered counts as two handles, because an upload or a download also has an open file.
    """
    needed, limit = 2 * limits.connections, _handle_limit()
    return needed if limit is None else max(MIN_HANDLES, min(needed, limit - limits.reserved_handles))


if sys.platform == "win32":  # a process may have millions of handles there

    def raise_handle_limit(limits: Limits) -> None:
        """Does nothing."""

    def _handle_limit() -> int | None:
        return None

else:
    import resource

    def raise_handle_limit(limits: Limits) -> None:
        """Raise the soft limit of open handles to what `limits` can use, or to the hard limit if that is lower.

        It is not raised further, because macOS refuses an unlimited soft limit, and because handles above 1,023, which
        `select` in C libraries can't take, should stay rare.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * limits.connections + limits.reserved_handles
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def _handle_limit() -> int | None:
        """The most handles that this process may have open now; None without a limit."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return None if soft == resource.RLIM_INFINITY else soft
