"""Measures the latency of a poll while the queue is busy, and of an upload while the server is idle.

The server and the client run in separate processes.

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
        with serving(folder) as server:
            root = server.wait_ready()
            post_ms = client("post", root, key, [], posts)
            job_ids = asyncio.run(fill_queue(root, key, files))
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
        (
            "upload of a 3 MB JPEG until its response, idle: p50",
            f"{percentile(post_ms, 50):.1f} ms",
            verdict(percentile(post_ms, 50), 40, "ms"),
        ),
        ("  p90", f"{percentile(post_ms, 90):.1f} ms", ""),
    ]
    print_table("Latency", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--posts", type=int, default=30)
    parser.add_argument("--role", choices=["poll", "post"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        root, key, job_ids, amount = json.load(sys.stdin)
        work = poll(root, key, job_ids, amount) if arguments.role == "poll" else post(root, key, int(amount))
        print(json.dumps(asyncio.run(work)))
    else:
        measure(arguments.seconds, arguments.posts)


if __name__ == "__main__":
    main()
