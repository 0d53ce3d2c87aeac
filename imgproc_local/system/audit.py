"""The audit log: one line for each use of an API key and each act of an administrator.

A line names the act and identifiers, never contents: no secret, file name, text or name of a key. Handlers decide where
it is written; without one, as in tests, it is discarded.
"""

from __future__ import annotations

import logging

from imgproc_local.system.request_context import request_id

log = logging.getLogger("imgproc_local.audit")
log.propagate = False
log.setLevel(logging.INFO)


def audit(act: str, **identifiers: str | int | None) -> None:
    """Write `act name=value …`. Values that are None are left out; the request is added where there is one."""
    if not log.handlers:
        return
    fields = {**identifiers, "request": request_id.get() or None}
    log.info("%s", " ".join([act, *(f"{name}={value}" for name, value in fields.items() if value is not None)]))
