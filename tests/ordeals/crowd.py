"""A crowd of idle and slow connections to a server with few file handles, while one client works.

`python -m tests.ordeals.crowd [--idle 2000] [--slow 300] [--handles 1024] [--seconds 90] [--program BINARY]`

One third of the slow connections sends a header, one a body without a key, one an upload with a key, a byte per second.
A connection that the server closes is opened again after `REOPEN_S`. The client polls on one connection, polls on a new
connection each time, and uploads pictures on new connections. Linux only.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.bench.load import MIB, percentile, print_table, with_comment
from tests.faults.server_process import make_key, serving
from tests.ordeals.options import options_of
from tests.support import pictures, processes

REOPEN_S = 2.5, 7.5
"""The shortest and the longest wait, so that connections are not opened all at once."""
DRIP_S = 1.0
POLL_S = 0.02
UPLOAD_S = 0.5
MAX_P99_S = 0.1
MAX_LOG_BYTES = 100_000
TIMEOUT_S = 10

HEADER = b"GET /api/v1/languages HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
BODY = b"POST /api/v1/images/optimize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999\r\n\r\n"
UPLOAD = (
    b"POST /api/v1/images/optimize HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: %b\r\nContent-Length: 9999\r\n"
    b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'
)


async def hold_open(host: str, port: int, begin: bytes, drip: bytes, opened: Synchronized[int]) -> None:
    """Hold one connection open: send `begin`, then `drip` every `DRIP_S`. Open it again whenever it is closed."""
    while True:
        writer = None
        try:
            reader, writer = await asyncio.open_connection(host, port)
            opened.value += 1
            writer.write(begin)
            while True:
                try:
                    async with asyncio.timeout(DRIP_S if drip else None):
                        if not await reader.read(65536):
                            break
                except TimeoutError:
                    writer.write(drip)
        except OSError:
            pass
        finally:
            if writer is not None:
                writer.close()
        await asyncio.sleep(random.uniform(*REOPEN_S))


def crowd(root: str, key: str, idle: int, slow: int, opened: Synchronized[int]) -> None:
    """Hold all connections of the crowd, in a process of its own, until that process is ended."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (idle + slow + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    address = urlsplit(root)
    assert address.hostname
    assert address.port
    kinds = [(HEADER, b"a"), (BODY, b"a"), (UPLOAD % key.encode(), b"a")]
    members = [(b"", b"")] * idle + [kinds[number % len(kinds)] for number in range(slow)]

    async def run(host: str, port: int) -> None:
        await asyncio.gather(*(hold_open(host, port, begin, drip, opened) for begin, drip in members))

    asyncio.run(run(address.hostname, address.port))


class Observed:
    """What the client has seen so far. Times are in seconds."""

    def __init__(self) -> None:
        self.polls_s: list[float] = []
        self.fresh_polls_s: list[float] = []
        self.uploads_s: list[float] = []
        self.problems: Counter[str] = Counter()
        self.is_over = threading.Event()


def timed(client: httpx.Client, method: str, path: str, expected: int, observed: Observed, **options: object) -> float:
    """The duration of one request. A response with another status than `expected` is a problem."""
    began_s = time.monotonic()
    try:
        answer = client.request(method, path, **options)  # type: ignore[arg-type]
        if answer.status_code != expected:
            observed.problems[f"{method}: {answer.status_code} {answer.text[:80]}"] += 1
    except httpx.HTTPError as error:
        observed.problems[f"{method}: {error!r}"] += 1
    return time.monotonic() - began_s


def poll(root: str, key: str, observed: Observed, *, fresh: bool) -> None:
    """Ask for the balance every `POLL_S`, on one connection or on a new one each time."""
    headers = {"X-API-Key": key} | ({"Connection": "close"} if fresh else {})
    with httpx.Client(base_url=f"{root}/api/v1", headers=headers, timeout=TIMEOUT_S) as client:
        times = observed.fresh_polls_s if fresh else observed.polls_s
        while not observed.is_over.wait(POLL_S):
            times.append(timed(client, "GET", "/credits/balance", 200, observed))


def upload(root: str, key: str, observed: Observed) -> None:
    """Upload a small picture every `UPLOAD_S`, each on a new connection."""
    headers = {"X-API-Key": key, "Connection": "close"}
    with httpx.Client(base_url=f"{root}/api/v1", headers=headers, timeout=TIMEOUT_S) as client:
        number = 0
        picture = pictures.jpeg(90, 60)
        while not observed.is_over.wait(UPLOAD_S):
            number += 1
            files = {"image": (f"{number}.jpg", with_comment(picture, str(number)))}
            observed.uploads_s.append(timed(client, "POST", "/images/optimize", 202, observed, files=files))


def main() -> None:
    options = options_of(__doc__, idle=2000, slow=300, handles=1024, seconds=90.0)
    limited = ("sh", "-c", f'ulimit -n {options.handles}; exec "$@"', "sh", *options.program)
    observed = Observed()
    spawn = multiprocessing.get_context("spawn")
    opened = spawn.Value("i", 0)
    handles = memory = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        key = make_key(folder)
        with serving(folder, program=limited) as server:
            root = server.wait_ready()
            strangers = spawn.Process(target=crowd, args=(root, key, options.idle, options.slow, opened), daemon=True)
            strangers.start()
            while opened.value < options.idle + options.slow:
                time.sleep(0.1)
            threads = [
                threading.Thread(target=poll, args=(root, key, observed), kwargs={"fresh": False}),
                threading.Thread(target=poll, args=(root, key, observed), kwargs={"fresh": True}),
                threading.Thread(target=upload, args=(root, key, observed)),
            ]
            for thread in threads:
                thread.start()
            ends_s = time.monotonic() + options.seconds
            while time.monotonic() < ends_s:
                handles = max(handles, processes.open_handles(server.pid))
                memory = max(memory, processes.rss_bytes(server.pid))
                time.sleep(0.5)
            observed.is_over.set()
            for thread in threads:
                thread.join()
            strangers.kill()
            began_s = time.monotonic()
            code = server.terminate()
            stop_s = time.monotonic() - began_s
            log_bytes = len(server.output()) + sum(file.stat().st_size for file in folder.glob("logs/imgproc.log*"))
            audit_bytes = sum(file.stat().st_size for file in folder.glob("logs/audit.log*"))
            if code or "Traceback" in server.output():
                observed.problems[f"the server ended with {code}: {server.output()[-2000:]}"] += 1

    def row(name: str, times: list[float], limit: str) -> tuple[str, str, str]:
        shown = ", ".join(f"{1000 * percentile(times, percent):.0f}" for percent in (50, 99, 100))
        return f"{name}: number, p50, p99, slowest", f"{len(times)}, {shown} ms", limit

    rows = [
        ("connections that the crowd opened", str(opened.value), ""),
        row("polls on one connection", observed.polls_s, f"p99 ≤ {1000 * MAX_P99_S:g} ms"),
        row("polls on new connections", observed.fresh_polls_s, f"p99 ≤ {1000 * MAX_P99_S:g} ms"),
        row("uploads on new connections", observed.uploads_s, ""),
        ("problems", str(observed.problems.total()), "0"),
        ("most handles", f"{handles} of {options.handles}", ""),
        ("most memory", f"{memory / MIB:.0f} MiB", ""),
        ("log, console and file", f"{log_bytes / 1000:.1f} kB", f"< {MAX_LOG_BYTES / 1000:g} kB"),
        ("audit log, a line for each use of a key", f"{audit_bytes / 1000:.1f} kB", ""),
        ("time of the stop", f"{stop_s:.1f} s", ""),
    ]
    print_table(f"Crowd of {options.idle} idle and {options.slow} slow, {options.seconds:g} s", rows)
    for problem, count in observed.problems.most_common(20):
        print(f"  problem, {count} times: {problem}")
    p99_s = max(percentile(observed.polls_s, 99), percentile(observed.fresh_polls_s, 99))
    if observed.problems or p99_s > MAX_P99_S or log_bytes >= MAX_LOG_BYTES:
        sys.exit(1)


if __name__ == "__main__":
    main()
