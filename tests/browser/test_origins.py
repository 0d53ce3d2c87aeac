"""A page of another origin can neither read nor change anything, although its browser is signed in.

It is on another port of the same host, to which browsers send the cookies of this one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from tests.browser.conftest import OpenTab
from tests.support import pictures
from tests.support.service import Running


class BlankPage(BaseHTTPRequestHandler):
    received: ClassVar[list[dict[str, str]]] = []
    """The headers of all requests."""

    def do_GET(self) -> None:
        self.received.append(dict(self.headers))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another page</title>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def other_origin() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), BlankPage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_of_another_origin_neither_reads_nor_changes_anything(
    empty_service: Running, open_tab: OpenTab, other_origin: str
) -> None:
    job = empty_service.process("process", pictures.jpeg(64, 48), "private.jpg")
    tab = open_tab(empty_service)
    tab.wait_for_count("Done", 1)
    keys = empty_service.run(empty_service.services.store.keys.all())
    own_image = f"{empty_service.url}/images/{job['image']['id']}/original"
    page = tab.context.new_page()
    BlankPage.received.clear()
    page.goto(other_origin)
    assert not {"cookie", "authorization"} & {name.lower() for name in BlankPage.received[0]}
    outcome = page.evaluate(
        """async ({ root, key, jobId, image }) => {
          const read = (path, options) => fetch(root + path, { credentials: "include", ...options })
            .then((response) => response.text(), () => "refused");
          const shown = new Promise((resolve) => {
            const element = new Image();
            element.onload = () => resolve("shown");
            element.onerror = () => resolve("refused");
            element.src = image;
          });
          const send = (path, options) => fetch(root + path, { credentials: "include", mode: "no-cors", ...options })
            .then(() => "sent", () => "refused");
          const stranger = JSON.stringify({ name: "stranger" });
          return {
            page: await read("/"),
            keys: await read("/local/keys"),
            overview: await read("/local/overview"),
            jobs: await read("/api/v1/jobs", { headers: { "X-API-Key": key } }),
            image: await shown,
            removal: await read(`/api/v1/jobs/${jobId}`, { method: "DELETE", headers: { "X-API-Key": key } }),
            creation: await send("/local/keys", { method: "POST", body: stranger }),
          };
        }""",
        {"root": empty_service.root, "key": empty_service.key, "jobId": job["job_id"], "image": own_image},
    )
    assert outcome.pop("creation") in ("sent", "refused"), "the answer can't be read either way"
    assert set(outcome.values()) == {"refused"}, outcome
    assert empty_service.run(empty_service.services.store.keys.all()) == keys
    assert empty_service.job(job["job_id"])["status"] == "completed"
    page.close()
