"""Reads a stream of server-sent events on a thread, so that a test can wait for one."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.service import Running

WAIT_S = 60
END = ("end", None)


class EventStream:
    """The events that were received, as pairs of name and data. `END` is the last one."""

    def __init__(self) -> None:
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()

    def read(self, lines: Iterator[str]) -> None:
        name = ""
        try:
            for line in lines:
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    self._events.put((name, json.loads(line[6:])))
        except httpx.TransportError:
            pass
        self._events.put(END)

    def next(self, timeout_s: float = WAIT_S) -> tuple[str, Any]:
        return self._events.get(timeout=timeout_s)

    def until(self, name: str, timeout_s: float = WAIT_S) -> Any:
        """The data of the next event called `name`. Those before it are skipped."""
        while True:
            received, data = self.next(timeout_s)
            if received == name:
                return data
            assert received != END[0], f"the stream ended before {name}"


@contextmanager
def event_stream(service: Running, path: str = "/events", key: str | None = None) -> Iterator[EventStream]:
    """The event stream at `path`, that of the account unless it is given. It is open when the block begins."""
    stream = EventStream()
    headers = {"X-API-Key": key or service.key}
    with (
        httpx.Client(timeout=60) as client,
        client.stream("GET", f"{service.url}{path}", headers=headers) as response,
    ):
        assert response.status_code == 200, response.read()
        reader = threading.Thread(target=stream.read, args=(response.iter_lines(),), daemon=True)
        reader.start()
        yield stream
