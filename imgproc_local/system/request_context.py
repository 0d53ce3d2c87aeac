"""Facts about the current request that rooms share without importing each other."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The identifier of the request of the current task, for log lines; "" outside a request. A thread that
`asyncio.to_thread` starts has the value of its task."""

TRUSTED_PROXY = "imgproc_trusted_proxy"
"""Set in the `scope["state"]` of a request whose connection comes from a trusted proxy."""
