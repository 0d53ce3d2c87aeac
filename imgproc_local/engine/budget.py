"""How many pixels may be worked on at once, so that a machine with many cores does not run out of memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PixelBudget:
    """At most `limit` pixels at once, first come, first served. A larger picture waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._acquired = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def acquired(self, pixels: int) -> AsyncIterator[None]:
        """Hold `pixels` inside the block."""
        needed = min(pixels, self._limit)
        if self._waiting or self._acquired + needed > self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((needed, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(needed)
                raise
        else:
            self._acquired += needed
        try:
            yield
        finally:
            self._release(needed)

    def _release(self, pixels: int) -> None:
        self._acquired -= pixels
        while self._waiting:
            needed, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
                continue
            if self._acquired + needed > self._limit:
                return
            self._waiting.popleft()
            self._acquired += needed
            turn.set_result(None)
