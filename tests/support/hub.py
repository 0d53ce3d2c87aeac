"""A local substitute for the Hugging Face hub, which can fail in ways that tests choose.

As with the real hub, the response to `/REPOSITORY/resolve/REVISION/FILE` has the metadata of a file, and another server
sends its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from imgproc_local.vision.models import catalogue
from imgproc_local.vision.models.catalogue import Entry

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/Some-Model-GGUF"
OLD_REPOSITORY = "someone/old-name"


class Hub:
    """What the hub offers and how it fails: tests change its attributes.

    `files` are contents by name. `refusal` is a status and an error code for all requests. `cut_after` is a list: for
    each of the next downloads, the bytes after which it is interrupted. `extra_headers` replace those of the metadata.
    `sent` has other contents by name, which are sent in place of `files`. `moved_to` is where requests for the
    repository `OLD_REPOSITORY` are redirected to. `is_mirror` is whether it sends the files itself, without a redirect.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.url = self.store_url = ""
        self.refusal: tuple[int, str] | None = None
        self.cut_after: list[int] = []
        self.knows_ranges = True
        self.extra_headers: dict[str, str] = {}
        self.sent: dict[str, bytes] = {}
        self.is_mirror = False
        self.moved_to = f"/{REPOSITORY}"
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def ranges(self) -> list[str]:
        """The `Range` header of each download; "" for a whole file."""
        return [headers.get("range", "") for method, path, headers in self.requests if path.startswith("/store/")]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        hub = self.hub
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.requests.append((self.command, self.path, headers))
        if self.path.startswith("/store/"):
            self._send(hub.files[self.path.removeprefix("/store/")], headers.get("range"))
        elif self.path.startswith(f"/{OLD_REPOSITORY}/"):
            self._end(307, {"Location": hub.moved_to + self.path.removeprefix(f"/{OLD_REPOSITORY}")}, b"")
        elif hub.refusal is not None:
            self._refuse(*hub.refusal)
        elif not self.path.startswith(f"/{REPOSITORY}/resolve/"):
            self._refuse(404, "RepoNotFound")
        else:
            revision, _, name = self.path.removeprefix(f"/{REPOSITORY}/resolve/").partition("/")
            if revision not in ("main", COMMIT):
                self._refuse(404, "RevisionNotFound")
            elif name not in hub.files:
                self._refuse(404, "EntryNotFound")
            else:
                self._send_metadata(name)

    def _send_metadata(self, name: str) -> None:
        content = self.hub.files[name]
        if self.hub.is_mirror:
            digest = hashlib.sha256(content).hexdigest()
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{digest}"', "Content-Length": str(len(content))}
            self._end(200, headers | self.hub.extra_headers, content)
            return
        headers = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Linked-Size": str(len(content)),
            "X-Xet-Hash": "f" * 64,
            "ETag": '"not-the-content\'s"',
            "Location": f"{self.hub.store_url}/store/{name}",
        }
        self._end(302, headers | self.hub.extra_headers, b"")

    def _send(self, content: bytes, range_header: str | None) -> None:
        name = self.path.removeprefix("/store/")
        content = self.hub.sent.get(name, content)
        start = int(range_header.removeprefix("bytes=").rstrip("-")) if range_header and self.hub.knows_ranges else 0
        headers = {"Content-Length": str(len(content) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        if self.hub.cut_after:
            body = body[: self.hub.cut_after.pop(0)]
            self.close_connection = True
        self._end(206 if start else 200, headers, body)

    def _refuse(self, status: int, code: str) -> None:
        self._end(status, {"X-Error-Code": code} if code else {}, b"")

    def _end(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)


def offer(monkeypatch: pytest.MonkeyPatch, **entries: Entry) -> None:
    """Add `entries` to the catalogue, by name."""
    known = catalogue.read_catalogue()
    monkeypatch.setattr(catalogue, "read_catalogue", lambda: known | entries)


@contextlib.contextmanager
def hub_with(files: dict[str, bytes]) -> Iterator[Hub]:
    """A running hub."""
    hub = Hub(files)
    handler = type("Handler", (_Handler,), {"hub": hub})
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    # two host names, as with the real hub, because the client treats a redirect to another host differently
    hub.url, hub.store_url = (
        f"http://{name}:{server.server_address[1]}"
        for name, server in zip(("127.0.0.1", "localhost"), servers, strict=True)
    )
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
