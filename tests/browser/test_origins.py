"""A page of another origin can neither read nor change anything, although its browser is signed in.

It is on another port of the same host, to which browsers send the cookies of this one.
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from tests.browser.conftest import OpenTab
from tests.support import pictures
from tests.support.http_double import serving_double
from tests.support.service import Running


class BlankPage(BaseHTTPRequestHandler):
    received: ClassVar[list[dict[str, str]]] = []
    """The headers of all requests."""

    def do_GET(self) -> None:
        self.received.append(dict(self.headers))
        body = b"<!doctype html><title>another page</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_page_of_another_origin_neither_reads_nor_changes_anything(empty_service: Running, open_tab: OpenTab) -> None:
    job = empty_service.process("process", pictures.jpeg(64, 48), "private.jpg")
    tab = open_tab(empty_service)
    tab.wait_for_count("Done", 1)
    keys = empty_service.run(empty_service.services.store.keys.all())
    own_image = f"{empty_service.url}/images/{job['image']['id']}/original"
    page = tab.context.new_page()
    with serving_double(BlankPage) as other_origin:
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
              const send = (path, options) =>
                fetch(root + path, { mode: "no-cors", credentials: "include", ...options })
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
    assert outcome.pop("creation") == "sent", "a request without a header of its own can be sent, but not read"
    assert set(outcome.values()) == {"refused"}, outcome
    assert empty_service.run(empty_service.services.store.keys.all()) == keys
    assert empty_service.job(job["job_id"])["status"] == "completed"
    page.close()
