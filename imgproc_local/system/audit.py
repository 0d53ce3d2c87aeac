"""The audit log: one line for each use of an API key and each act of an administrator.

A line has the act and short facts such as identifiers, and never contents: no secret, file name, text or name of a key.
The handlers of the logger write it; without a handler, as in tests, it is discarded.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The identifier of the request of the current task, for log lines; "" outside a request. A thread that
`asyncio.to_thread` starts has the value of its task."""

log = logging.getLogger("imgproc_local.audit")
log.propagate = False
log.setLevel(logging.INFO)


def audit(act: str, **facts: str | int | None) -> None:
    """Log the line `act name=value …`, without values that are None, and with the id of the current request, if any."""
    if not log.handlers:
        return
    fields = {**facts, "request": request_id.get() or None}
    log.info("%s", " ".join([act, *(f"{name}={value}" for name, value in fields.items() if value is not None)]))
