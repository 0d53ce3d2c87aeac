"""How many pixels are worked on at a time: what keeps a machine with many cores from decoding itself out of memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PixelBudget:
    """At most `limit` pixels at a time, first come, first served. A larger picture waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, pixels: int) -> AsyncIterator[None]:
        """Hold `pixels` inside the block."""
        wanted = min(pixels, self._limit)
        if self._waiting or self._taken + wanted > self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((wanted, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_back(wanted)
                raise
        else:
            self._taken += wanted
        try:
            yield
        finally:
            self._give_back(wanted)

    def _give_back(self, pixels: int) -> None:
        self._taken -= pixels
        while self._waiting:
            wanted, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
                continue
            if self._taken + wanted > self._limit:
                return
            self._waiting.popleft()
            self._taken += wanted
            turn.set_result(None)
