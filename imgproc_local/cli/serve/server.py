"""uvicorn, configured for one process on one machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from imgproc_local.cli.serve.log_file import log_to_console


class Server(uvicorn.Server):
    """Calls `on_stop` when a stop is requested: uvicorn would wait for the connections of open requests."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but without raising the signal again afterwards: the data folder has still to be closed."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


def server_config(app: Any, shutdown_s: int) -> uvicorn.Config:
    log_to_console()
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="httptools",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_s,
        timeout_keep_alive=75,
    )
