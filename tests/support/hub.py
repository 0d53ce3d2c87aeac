"""A local substitute for the Hugging Face hub, which can fail in ways that tests choose.

As with the real hub, a request for `/REPOSITORY/resolve/COMMIT/FILE` is redirected to another server, which sends the
bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from imgproc_local.vision.llm import listing
from imgproc_local.vision.models import install, model
from imgproc_local.vision.models.model import Manifest, ModelFile
from tests.support.http_double import serving_double

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/Some-Model-GGUF"
TOKEN = "hf_secret"


def entry_of(text: bytes, mmproj: bytes, **fields: Any) -> Manifest:
    """The catalogue's entry of a model whose files, `T.gguf` and `M.gguf`, have this content."""
    files = {
        key: ModelFile(name, len(content), hashlib.sha256(content).hexdigest())
        for key, name, content in (("text", "T.gguf", text), ("mmproj", "M.gguf", mmproj))
    }
    about = {"origin": f"{REPOSITORY}@{COMMIT}", "licence": "MIT", "languages": "English", "memory_mb": 1}
    return Manifest(**{**about, **files, **fields})


def offer(monkeypatch: pytest.MonkeyPatch, **entries: Manifest) -> None:
    """Add `entries` to the catalogue, by name."""
    known = model.read_catalogue() | {name: replace(entry, name=name) for name, entry in entries.items()}
    for module in (model, install, listing):
        monkeypatch.setattr(module, "read_catalogue", lambda: known)


class Hub:
    """What the hub offers and how it fails: tests change its attributes.

    `files` are contents by name. `refusal` is a status for all requests. `cut_after` is a list: for each of the next
    downloads, the bytes after which it is interrupted. `sent` has other contents by name, which are sent in place of
    `files`. `pages` are other pages by path.
    """

    def __init__(self, files: dict[str, bytes], pages: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.pages = dict(pages)
        self.url = self.store_url = ""
        self.refusal: int | None = None
        self.cut_after: list[int] = []
        self.sent: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    def ranges(self) -> list[str]:
        """The `Range` header of each download; "" for a whole file."""
        return [headers.get("range", "") for path, headers in self.requests if path.startswith("/store/")]


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        hub, name = self.hub, self.path.rpartition("/")[2]
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.requests.append((self.path, headers))
        if hub.refusal is not None:
            self._end(hub.refusal, {}, b"")
        elif self.path in hub.pages:
            page = hub.pages[self.path]
            self._end(200, {"Content-Length": str(len(page))}, page)
        elif name not in hub.files:
            self._end(404, {}, b"")
        elif self.path.startswith("/store/"):
            self._send(hub.sent.get(name, hub.files[name]), headers.get("range"))
        elif self.path == f"/{REPOSITORY}/resolve/{COMMIT}/{name}":
            self._end(302, {"Location": f"{hub.store_url}/store/{name}"}, b"")
        else:
            self._end(404, {}, b"")

    def _send(self, content: bytes, range_header: str | None) -> None:
        start = int(range_header.removeprefix("bytes=").rstrip("-")) if range_header else 0
        body = content[start:]
        headers = {"Content-Length": str(len(body))}
        if self.hub.cut_after:
            body = body[: self.hub.cut_after.pop(0)]
            self.close_connection = True
        self._end(206 if start else 200, headers, body)

    def _end(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


@contextlib.contextmanager
def hub_with(files: dict[str, bytes], pages: dict[str, bytes] | None = None) -> Iterator[Hub]:
    """A running hub."""
    hub = Hub(files, pages or {})
    with serving_double(_Handler, hub=hub) as hub.url, serving_double(_Handler, hub=hub) as store_url:
        # another host name, as with the real hub, because clients treat a redirect to another host differently
        hub.store_url = store_url.replace("127.0.0.1", "localhost")
        yield hub
