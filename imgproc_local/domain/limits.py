"""The rolling window that bounds how often a key may call.

Exact, not a bucket: at any instant the calls counted are those of the last 60 seconds. A refused call is not counted,
so a client that waits `retry_after_s` gets through.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from msgspec import Struct

WINDOW_S = 60.0


class Allowance(Struct, frozen=True):
    """What the window answered one call. `limit` 0 means that the key has none."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_s: int = 0


class RollingWindow:
    """Counts calls per key over the last minute. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[str, deque[float]] = {}

    def count(self, key_id: str, limit: int) -> Allowance:
        """Count one call of `key_id`, unless the last minute already holds `limit` of them."""
        if limit <= 0:
            return Allowance(allowed=True, limit=0, remaining=0)
        now = self._clock()
        calls = self._calls.setdefault(key_id, deque())
        while calls and calls[0] <= now - WINDOW_S:
            calls.popleft()
        if len(calls) >= limit:
            wait_s = calls[len(calls) - limit] + WINDOW_S - now
            return Allowance(allowed=False, limit=limit, remaining=0, retry_after_s=max(1, math.ceil(wait_s)))
        calls.append(now)
        return Allowance(allowed=True, limit=limit, remaining=limit - len(calls))
