"""Runs the program under test for the smoke test: its commands and its server, and a client of its API.

The program runs with an empty environment, and every wait has a limit.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COMMAND_TIMEOUT_S = 120
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
RESPONSE_TIMEOUT_S = 90
JOB_TIMEOUT_S = 300
ADDRESS = re.compile(r"serves http://([\d.]+):(\d+)/api/v1")
LINK = re.compile(r"http://[^/]+/\?token=(\S+)")
SECRET = re.compile(r"imgp_|token=")
UNPACKED = re.compile(r"/\S*/_MEI\w+/")
"""The folder that a one-file program unpacks itself to."""
BOUNDARY = "boundary-of-the-smoke-test"
WINDOWS = sys.platform == "win32"
ENVIRONMENT = {"SYSTEMROOT": os.environ.get("SYSTEMROOT", r"C:\Windows")} if WINDOWS else {}
"""The environment of the program: empty, except for a variable without which Windows opens no sockets."""


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def data(self) -> Any:
        return json.loads(self.body)["data"]


class Program(NamedTuple):
    """The program under test: the words that start it, and its working folder."""

    words: tuple[str, ...]
    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return its output. Raises `AssertionError` if it fails or prints a traceback."""
        done = subprocess.run(
            [*self.words, *arguments],
            cwd=self.folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        report = f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        if done.returncode != 0 or "Traceback" in report:
            raise AssertionError(report)
        return done


class Server:
    """`serve` on the data folder `data` in a separate process group, with its output in `log`."""

    def __init__(self, program: Program, data: Path, log: Path, *options: str) -> None:
        self._log, self._begins_at = log, log.stat().st_size if log.exists() else 0
        self._unpacked: set[Path] = set()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*program.words, "--data-dir", str(data), "serve", "--no-browser", "--port", "0", *options],
                cwd=program.folder,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def printed_secret(self) -> bool:
        """Whether the server printed a key or a link to its page, though its output is a file."""
        return SECRET.search(self.output()) is not None

    def output(self) -> str:
        return self._log.read_bytes()[self._begins_at :].decode("utf-8", "replace")

    def wait_ready(self) -> tuple[str, int]:
        """Host and port, as soon as `GET /healthz` is answered with 200."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"the server ended with {self._process.returncode} while starting")
            printed = ADDRESS.search(self.output())
            if printed:
                address = printed[1], int(printed[2])
                with contextlib.suppress(OSError):
                    if Client(address).send("GET", "/healthz").status == 200:
                        self._unpacked = _unpacked_trees(self._process.pid)
                        return address
            time.sleep(0.01)
        raise AssertionError(f"the server was not ready within {START_TIMEOUT_S} s")

    def stop(self, *, allow_traceback: bool = False) -> None:
        """Stop the server by SIGTERM; on Windows, kill it.

        Raises `AssertionError` if it does not end with 0 or, unless `allow_traceback`, has logged a traceback.
        """
        if WINDOWS:
            self.kill()  # Windows has no signal that stops a process without a console
            return
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_TIMEOUT_S)
        if code != 0:
            raise AssertionError(f"after SIGTERM the server ended with {code}")
        if not allow_traceback and "Traceback" in self.output():
            raise AssertionError("the server has logged a traceback")

    def kill(self) -> None:
        """Kill the server and all its processes at once."""
        if WINDOWS:
            with_children = ["taskkill", "/F", "/T", "/PID", str(self._process.pid)]
            subprocess.run(with_children, check=False, capture_output=True, timeout=STOP_TIMEOUT_S)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT_S)
        for tree in self._unpacked:
            shutil.rmtree(tree, ignore_errors=True)  # a one-file program that is killed does not delete its folder


@contextlib.contextmanager
def serving(program: Program, data: Path, log: Path, *options: str) -> Iterator[Server]:
    """A started server, killed after the block if it is still running."""
    server = Server(program, data, log, *options)
    try:
        yield server
    finally:
        server.kill()


def _unpacked_trees(group: int) -> set[Path]:
    """The folders to which processes of this process group unpacked themselves; empty on systems without /proc."""
    trees = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(maps.parent.name)) == group:
                trees |= {Path(found) for found in UNPACKED.findall(maps.read_text(errors="replace"))}
    return trees


class Client:
    """A client of the API at one address, with one key."""

    def __init__(self, address: tuple[str, int], key: str = "") -> None:
        self.address, self._headers = address, {"X-API-Key": key} if key else {}

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Response:
        connection = http.client.HTTPConnection(*self.address, timeout=RESPONSE_TIMEOUT_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, self._headers | named)
            response = connection.getresponse()
            return Response(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def get(self, path: str) -> Response:
        """Raises `AssertionError` for any status but 200."""
        response = self.send("GET", path)
        if response.status != 200:
            raise AssertionError(f"GET {path}: expected 200, received {response.status}: {response.body[:500]!r}")
        return response

    def upload(self, operation: str, name: str, picture: bytes, **fields: Sequence[str]) -> Response:
        body = form(name, picture, fields)
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return self.send("POST", f"/api/v1/images/{operation}", body, Content_Type=kind)

    def submit(self, operation: str, name: str, picture: bytes, **fields: Sequence[str]) -> str:
        """Upload a picture and return the ID of its job. Raises `AssertionError` for any status but 202."""
        response = self.upload(operation, name, picture, **fields)
        if response.status != 202:
            raise AssertionError(
                f"{operation} {name}: expected 202, received {response.status}: {response.body[:500]!r}"
            )
        return str(response.data()["job_id"])

    def final(self, job_id: str) -> Any:
        """Wait until the job is completed or failed, and return it."""
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while time.monotonic() < deadline:
            response = self.send("GET", f"/api/v1/jobs/{job_id}", Prefer="wait=60")
            if response.status != 200:
                raise AssertionError(f"job {job_id}: expected 200, received {response.status}: {response.body[:500]!r}")
            job = response.data()
            if job["status"] in ("completed", "failed"):
                return job
        raise AssertionError(f"job {job_id} is neither completed nor failed after {JOB_TIMEOUT_S} s")

    @contextlib.contextmanager
    def partial_upload(self, name: str, picture: bytes) -> Iterator[None]:
        """A connection on which half of an upload has been sent."""
        body = form(name, picture, {})
        lines = [
            "POST /api/v1/images/process HTTP/1.1",
            f"Host: {self.address[0]}",
            *(f"{name}: {value}" for name, value in self._headers.items()),
            f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
            f"Content-Length: {len(body)}",
            "\r\n",
        ]
        with socket.create_connection(self.address, timeout=RESPONSE_TIMEOUT_S) as connection:
            connection.sendall("\r\n".join(lines).encode() + body[: len(body) // 2])
            yield


def form(name: str, picture: bytes, fields: dict[str, Sequence[str]]) -> bytes:
    """The body of an upload as multipart/form-data. Source: RFC 7578."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, values in fields.items()
        for value in values
    ]
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n\r\n'
    return "".join([*parts, head]).encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()
