"""What parts of the program that do not know each other share about the request that is being answered."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The identifier of the request of the current task, for log lines; empty outside of a request. Threads that
`asyncio.to_thread` starts have that of their task."""

TRUSTED_PROXY = "imgproc_trusted_proxy"
"""Set in the `scope["state"]` of a request whose connection comes from a trusted proxy."""
