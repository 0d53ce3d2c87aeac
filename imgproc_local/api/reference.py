"""What the OpenAPI document and its page show beside the schemas: examples, which the tests record from a running
service (`examples.json`), and a page with Redoc (`reference/`), which renders the document without a network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from msgspec import Struct

FOLDER = resources.files(__package__)


class Example(Struct, frozen=True):
    """A request and its answer. `examples.json` has further fields, for README.md.

    `operation` is an operationId, "*" for an answer of every operation with that status, or "" for one of none. `sent`
    is a JSON body, and `body` that of the answer: JSON, text, or None where it is empty or a file.
    """

    name: str
    summary: str
    operation: str
    status: int
    sent: Any
    body: Any


def add_examples(paths: dict[str, Any]) -> None:
    """Add to each request and response of the Paths Object its examples. Their statuses are words of set A."""
    examples = msgspec.json.decode(FOLDER.joinpath("examples.json").read_bytes(), type=list[Example])
    operations = [part for item in paths.values() for part in item.values() if "operationId" in part]
    for example in examples:
        for operation in operations:
            if example.operation in ("*", operation["operationId"]):
                _add(operation.get("requestBody", {}), example, example.sent)
                _add(operation["responses"].get(str(example.status), {}), example, example.body)


def _add(described: dict[str, Any], example: Example, value: Any) -> None:
    """Add `value` to a Request Body or Response Object, if that has JSON or events, and the example such a body."""
    for media_type, content in described.get("content", {}).items():
        if value is not None and media_type in ("application/json", "text/event-stream"):
            content.setdefault("examples", {})[example.name] = {"summary": example.summary, "value": value}


@cache
def reference_page(document: bytes) -> tuple[bytes, str]:
    """The page that shows an OpenAPI document, and its Content Security Policy.

    The page loads nothing and connects to nothing. The sandbox gives it an origin of its own, so that the viewer can't
    read what the local page stores in the browser.
    """
    folder = FOLDER / "reference"
    html, viewer, start = ((folder / name).read_bytes() for name in ("page.html", "redoc.js.gz", "start.js"))
    scripts = gzip.decompress(viewer), start
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts)
    allowed = " ".join(map("'sha256-{}'".format, digests))
    policy = (
        f"sandbox allow-scripts; default-src 'none'; script-src {allowed};"
        " style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    return html % (document.replace(b"<", b"\\u003c"), *scripts), policy
