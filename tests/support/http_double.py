"""Runs a double of a program or of an outside service, which is reached over HTTP, on this machine."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def serving_double(handler: type[http.server.BaseHTTPRequestHandler], **attributes: Any) -> Iterator[str]:
    """The address of a server with this handler, whose class gets `attributes`."""
    common = {"protocol_version": "HTTP/1.1", "log_message": lambda *_: None}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), common | attributes))
    server.daemon_threads, server.block_on_close = True, False
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients that disconnect are expected
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
