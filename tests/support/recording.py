"""Records what a running service answers, as examples for its documents.

Identifiers, times, hashes and sizes are replaced by fixed ones, because they differ from run to run.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from imgproc_local.api import app
from imgproc_local.compose import describer
from tests.support.service import Running, config_for

UNKNOWN = "01kbh0000000000000000000zz"
"""An identifier of nothing."""
WIDTH = 118
FIXED = {
    "original_size": 184320, "optimized_size": 121344, "converted_size": 98304, "compression_percentage": 34,
    "optimized_score": 88.2, "converted_score": 87.9, "bytes": 98304, "size": 8192, "retry_after": 60,
}  # fmt: skip
"""The values of fields that depend on encoders and time, where they are not null."""
SHOWN = (
    "Location", "X-Project-Id", "Content-Type", "Content-Disposition", "ETag", "Retry-After", "Allow", "X-Error-Code",
    "WWW-Authenticate", "Preference-Applied", "X-Total-Count",
)  # fmt: skip
"""The headers of answers that an example shows. The type is shown only where it is not JSON."""
SHOWN_OF_429 = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
"""The headers that an answer of that status shows, too; every other has them as well."""


class Gate:
    """The describer of the service, which describes one picture for each `release()`."""

    def __init__(self, folder: Path) -> None:
        self._describer = describer(config_for(folder))
        self._describe = self._describer.describe
        self._tickets = threading.Semaphore(0)
        self.release = self._tickets.release

    def make(self) -> Any:
        self._describer.describe = self._wait  # type: ignore[method-assign]
        return self._describer

    def _wait(self, *arguments: Any) -> Any:
        *_, check_stop = arguments
        while not self._tickets.acquire(timeout=0.01):
            check_stop()
        return self._describe(*arguments)


class Recorder:
    """Sends requests to `service`, and records each with its answer."""

    def __init__(self, service: Running, examples: list[dict[str, Any]]) -> None:
        self.service = service
        self.examples = examples

    def __call__(self, name: str, summary: str, method: str, path: str, **request: Any) -> Any:
        """The body of the answer, if it is JSON; see `answer`."""
        answer = self.answer(name, summary, method, path, **request)
        return answer.json() if answer.headers.get("content-type") == "application/json" else None

    def answer(
        self, name: str, summary: str, method: str, path: str, *,
        operation: str | None = None, saved: str = "", **request: Any,
    ) -> httpx.Response:  # fmt: skip
        """`operation` is "*" for an answer of many operations, and "" for one of none; `request` is that of `send`.

        `saved` are the options of curl that save the body, which is then no part of the example.
        """
        answer = self.send(method, path, **request)
        body = None if saved or not answer.content else answer.json()
        self.add(name, summary, method, path, answer, body, operation, saved=saved, **request)
        return answer

    def add(
        self, name: str, summary: str, method: str, path: str, answer: httpx.Response, body: Any,
        operation: str | None = None, **request: Any,
    ) -> None:  # fmt: skip
        """Record an answer whose body was read."""
        headers = {}
        for each in (*SHOWN, *(SHOWN_OF_429 if answer.status_code == 429 else ())):
            if values := answer.headers.get_list(each, split_commas=each == "Allow"):
                headers[each] = ", ".join(sorted(values))
        if headers.get("Content-Type") == "application/json":
            del headers["Content-Type"]
        self.examples.append(
            {
                "name": name,
                "summary": summary,
                "operation": operation_of(method, path) if operation is None else operation,
                "request": curl(method, path, **request),
                "sent": request.get("sent"),
                "status": answer.status_code,
                "headers": headers,
                "body": body,
            }
        )

    def send(
        self, method: str, path: str, *, form: dict[str, str] | None = None, picture: bytes = b"",
        sent: Any = None, headers: dict[str, str] | None = None, key: str | None = None,
    ) -> httpx.Response:  # fmt: skip
        """`form` and `sent` (JSON) are bodies; `key` is "" for none, and that of the service unless it is given."""
        key = self.service.key if key is None else key
        sends = {"X-API-Key": key} if key else {}
        url = (self.service.root if path in ("/healthz", "/metrics") else self.service.url) + path
        body: dict[str, Any] = {} if sent is None else {"json": sent}
        if form is not None:
            data = {name: value for name, value in form.items() if name != "image"}
            body = {"data": data, "files": {"image": (form["image"], picture)} if "image" in form else None}
        # without TLS there is nothing to verify, and reading the authorities takes longer than most answers
        return httpx.request(method, url, headers=sends | (headers or {}), timeout=60, verify=False, **body)

    def until(self, job_id: str, is_reached: Callable[[Any], bool]) -> None:
        """Wait until a job is as wanted."""
        for _ in range(3000):
            job = self.service.client.get(f"/jobs/{job_id}?include=details").json()["data"]
            if is_reached(job):
                return
            time.sleep(0.02)
        raise AssertionError(job)


def curl(
    method: str, path: str, *, form: dict[str, str] | None = None, sent: Any = None,
    headers: dict[str, str] | None = None, key: str | None = None, saved: str = "", **_: Any,
) -> str:  # fmt: skip
    """The request as a command for a shell."""
    is_default = method == ("GET" if form is None and sent is None else "POST")
    words = ["curl", *saved.split(), *([] if is_default else ["-X", method])]
    words += [] if key == "" else ['-H "X-API-Key: $KEY"']
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in (headers or {}).items()]
    for name, value in (form or {}).items():
        words.append(f"-F {shlex.quote(f'{name}=@{value}' if name == 'image' else f'{name}={value}')}")
    words += [] if sent is None else [f"--json {shlex.quote(laid_out(sent, indent=10))}"]
    root = "http://127.0.0.1:8484" if path in ("/healthz", "/metrics") else "$API"
    line = words[0]
    for word in [*words[1:], f'"{root}{path}"' if "?" in path else root + path]:
        is_full = len(line.rpartition("\n")[2] + word.partition("\n")[0]) + 4 > WIDTH
        line += f" \\\n  {word}" if is_full else f" {word}"
    return line


def operation_of(method: str, path: str) -> str:
    """The identifier that the OpenAPI document gives the operation."""
    for template, operations in json.loads(app.document())["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", r"[^/]+", template), path.partition("?")[0]):
            return str(operations[method.lower()]["operationId"])
    raise AssertionError(path)


@contextmanager
def events(service: Running, path: str) -> Iterator[tuple[httpx.Response, Iterator[str]]]:
    """A stream of events, and the text of each as it is on the wire."""
    with httpx.stream(
        "GET", service.url + path, headers={"X-API-Key": service.key}, timeout=60, verify=False
    ) as answer:

        def blocks() -> Iterator[str]:
            received = ""
            for part in answer.iter_text():
                received += part
                while "\n\n" in received:
                    block, _, received = received.partition("\n\n")
                    yield block + "\n\n"

        yield answer, blocks()


def first_with(blocks: Iterator[str], text: str) -> str:
    return next(block for block in blocks if text in block)


def normalized(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The examples with plausible fixed values for all that differs from run to run."""
    text = json.dumps(examples, ensure_ascii=False)
    found = dict.fromkeys(re.findall(r"\b01[0-9a-hjkmnp-tv-z]{24}\b", text))
    for number, ulid in enumerate(each for each in found if each != UNKNOWN):
        text = text.replace(ulid, f"01kbh3v9x2m4q8r6t0w7y5z1{number:02d}")
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", r"2026-11-27T09:30:00\2", text)
    text = re.sub(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "Fri, 27 Nov 2026 09:30:00 GMT", text)
    for number, digest in enumerate(dict.fromkeys(re.findall(r"\b[0-9a-f]{64}\b", text))):
        text = text.replace(digest, f"{number:02x}7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d90"[:64])
    text = re.sub(r'("X-RateLimit-Reset": ")\d+', r"\g<1>1795771860", text)
    text = re.sub(r'("Retry-After": ")[345]\d"', r'\g<1>60"', text)
    text = text.replace("(1 unfinished jobs)", "(1000 unfinished jobs)")
    for name, value in FIXED.items():
        text = re.sub(rf'(\\*"{name}\\*": ?)[\d.]+', rf"\g<1>{value}", text)
    # which of the two is smaller depends on encoders, too
    text = re.sub(r'("converted_notes": )\[{"code": "larger_than_optimized"[^]]*]', r"\1[]", text)
    made: list[dict[str, Any]] = json.loads(text)
    return made


# ---- as text ----


def shown(example: dict[str, Any]) -> str:
    """The example as a shell would show it, with the headers of its answer on one line."""
    head = [f"HTTP {example['status']}", *(f"{name}: {value}" for name, value in example["headers"].items())]
    lines = [f"$ {example['request']}", ("   " if len("   ".join(head)) <= WIDTH else "\n").join(head)]
    body = example["body"]
    return "\n".join(
        [*lines, *([] if body is None else [body.rstrip("\n") if isinstance(body, str) else laid_out(body)])]
    )


def laid_out(value: Any, indent: int = 0) -> str:
    """`value` as JSON that fills its lines: what fits on one stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list):
        return line
    start, end = "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    parts = value.values() if isinstance(value, dict) else value
    lines = [""]
    for name, part in zip(names, parts, strict=True):
        text = name + laid_out(part, indent + 1 + len(name) * ("\n" in name))
        if len(lines[-1]) + len(text) + indent + 3 <= WIDTH and "\n" not in text and "\n" not in lines[-1]:
            lines[-1] += f", {text}" if lines[-1] else text
        else:
            lines.append(text)
    pad = ",\n" + " " * (indent + 1)
    return start + pad.join(filter(None, lines)) + end
