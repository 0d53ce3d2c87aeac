"""uvicorn, configured for one process on one machine, with its own connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from imgproc_local.server.connections import Connections
from imgproc_local.server.limits import Limits, raise_handle_limit
from imgproc_local.server.protocol import HttpConnection

UVICORN_KEEP_ALIVE_S = 3600
"""So long that `Limits.keep_alive_s` always applies first: uvicorn's own timer ignores that a header has begun."""


class Server(uvicorn.Server):
    """Serves on the listening sockets that are given to `serve`.

    When a stop is requested, calls `on_stop` to end long requests such as event streams: uvicorn would wait for them.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None], limits: Limits | None = None) -> None:
        super().__init__(config)
        self._on_stop = on_stop
        self._limits = limits or Limits()
        self._connections: list[Connections] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but without raising the signal again afterwards: the data folder must still be closed."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # uvicorn accepts no connections
        raise_handle_limit(self._limits)
        self._connections = [
            Connections(listener, self._open, self._limits, self.config.ssl) for listener in sockets or ()
        ]

    def _open(self, connections: Connections, host: str) -> asyncio.BaseProtocol:
        return HttpConnection(self.config, self.server_state, self.lifespan.state, connections, host)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        for connections in self._connections:
            await connections.stop_accepting()
        await super().shutdown(sockets)


def server_config(app: Any, shutdown_s: int, tls_cert: str = "", tls_key: str = "") -> uvicorn.Config:
    """The configuration of uvicorn. `shutdown_s` is how long a stop waits for requests before uvicorn cancels them."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=HttpConnection,
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_s,
        timeout_keep_alive=UVICORN_KEEP_ALIVE_S,
        ssl_certfile=tls_cert or None,
        ssl_keyfile=tls_key or None,
    )
