"""Measures the latency of a poll while the queue is busy, and of an upload while the server is idle.

The server and the client run in separate processes. An empty server in a third process shows how much of the latency is
that of the client.

`python -m tests.bench.latency [--seconds 10] [--posts 30]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.load import (
    MIB,
    Connection,
    jpeg_of_bytes,
    jpegs,
    percentile,
    print_table,
    submit,
    verdict,
    wait_final,
    with_comment,
)
from tests.faults.server_process import ROOT, make_key, serving

CONNECTIONS = 8
QUEUED = 400


async def poll(root: str, key: str, job_ids: list[str], seconds: float) -> list[float]:
    """Milliseconds of each `GET /jobs/{id}`, over `CONNECTIONS` connections at once."""
    times_ms: list[float] = []
    ends_at = time.perf_counter() + seconds

    async def one(number: int) -> None:
        connection = await Connection.open(root, key)
        turn = number
        while time.perf_counter() < ends_at:
            started_at = time.perf_counter()
            status, body = await connection.get(f"/api/v1/jobs/{job_ids[turn % len(job_ids)]}")
            times_ms.append((time.perf_counter() - started_at) * 1000)
            if status != 200:
                raise SystemExit(f"a poll was answered with {status}: {body.decode()}")
            turn += CONNECTIONS
        connection.close()

    await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
    return times_ms


async def post(root: str, key: str, count: int) -> list[float]:
    """Milliseconds from the first byte of a 3 MB upload until the 202 response, each on an idle server."""
    picture = jpeg_of_bytes(3 * MIB)
    connection = await Connection.open(root, key)
    times_ms: list[float] = []
    for number in range(count + 2):
        another = with_comment(picture, f"picture {number} of {time.time_ns()}")
        await asyncio.sleep(0.2)
        started_at = time.perf_counter()
        job_id = await submit(connection, "analyze", another)
        times_ms.append((time.perf_counter() - started_at) * 1000)
        await wait_final(connection, job_id)
    connection.close()
    return times_ms[2:]  # the first ones load libraries


async def serve_empty_responses() -> None:
    """An empty server: it reads the head of each request and sends the response at once."""
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n" + b" " * 600

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            writer.write(body)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def empty_server() -> Iterator[str]:
    arguments = [sys.executable, "-m", "tests.bench.latency", "--role", "empty"]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def client(role: str, root: str, key: str, job_ids: list[str], amount: float) -> list[float]:
    """The milliseconds that the role `role` of this script measured in a separate process."""
    task = json.dumps([root, key, job_ids, amount])
    arguments = [sys.executable, "-m", "tests.bench.latency", "--role", role]
    done = subprocess.run(arguments, cwd=ROOT, input=task, stdout=subprocess.PIPE, text=True, check=True)
    times_ms: list[float] = json.loads(done.stdout)
    return times_ms


async def fill_queue(root: str, key: str, files: list[Path]) -> list[str]:
    connection = await Connection.open(root, key)
    pictures = [file.read_bytes() for file in files]
    job_ids = [await submit(connection, "process", pictures[n % len(pictures)]) for n in range(QUEUED)]
    connection.close()
    return job_ids


async def count_waiting(root: str, key: str, job_ids: list[str]) -> int:
    connection = await Connection.open(root, key)
    bodies = [(await connection.get(f"/api/v1/jobs/{job_id}"))[1] for job_id in job_ids]
    connection.close()
    return sum(json.loads(body)["data"]["status"] not in ("completed", "failed") for body in bodies)


def measure(seconds: float, posts: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        files = jpegs(Path(name), 6)
        key = make_key(folder)
        with serving(folder) as server, empty_server() as nothing:
            root = server.wait_ready()
            post_ms = client("post", root, key, [], posts)
            own_idle_ms = client("poll", nothing, key, ["none"], min(3, seconds))
            job_ids = asyncio.run(fill_queue(root, key, files))
            own_busy_ms = client("poll", nothing, key, ["none"], min(3, seconds))
            busy_ms = client("poll", root, key, job_ids, seconds)
            waiting = asyncio.run(count_waiting(root, key, job_ids))
    if waiting < 10:
        raise SystemExit("The queue ran empty during the measurement; use fewer --seconds.")
    rows = [
        (f"GET /jobs/{{id}} busy, {CONNECTIONS} connections: polls", f"{len(busy_ms) / seconds:.0f} /s", ""),
        ("  p50", f"{percentile(busy_ms, 50):.1f} ms", ""),
        ("  p99", f"{percentile(busy_ms, 99):.1f} ms", verdict(percentile(busy_ms, 99), 25, "ms")),
        ("  longest", f"{max(busy_ms):.1f} ms", ""),
        ("  jobs still waiting afterwards", f"{waiting} of {QUEUED}", "> 0"),
        ("client against an empty server, idle: p50, p99", _pair(own_idle_ms), ""),
        ("client against an empty server, queue busy: p50, p99", _pair(own_busy_ms), ""),
        ("upload of a 3 MB JPEG until its response, idle: p50", f"{percentile(post_ms, 50):.1f} ms", ""),
        ("  p90", f"{percentile(post_ms, 90):.1f} ms", ""),
    ]
    rows[7] = (*rows[7][:2], verdict(percentile(post_ms, 50), 40, "ms"))
    print_table("Latency", rows)


def _pair(times_ms: list[float]) -> str:
    return f"{percentile(times_ms, 50):.2f}, {percentile(times_ms, 99):.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--posts", type=int, default=30)
    parser.add_argument("--role", choices=["poll", "post", "empty"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "empty":
        asyncio.run(serve_empty_responses())
    elif arguments.role:
        root, key, job_ids, amount = json.load(sys.stdin)
        work = poll(root, key, job_ids, amount) if arguments.role == "poll" else post(root, key, int(amount))
        print(json.dumps(asyncio.run(work)))
    else:
        measure(arguments.seconds, arguments.posts)


if __name__ == "__main__":
    main()
