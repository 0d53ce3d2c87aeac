"""Measures the latency of a poll while the queue is busy, and of an upload while the server is idle.

`python -m tests.bench.latency [--seconds 10] [--posts 30]`
"""

from __future__ import annotations

import argparse
import http.client
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.load import percentile, photograph, photographs, print_table, verdict, with_comment
from tests.faults.server_process import make_key, serving
from tests.support.service import FINAL, Service

CONNECTIONS = 8
QUEUED = 400


def poll(service: Service, job_ids: list[str], seconds: float) -> list[float]:
    """Milliseconds of each `GET /jobs/{id}`, over `CONNECTIONS` connections at once."""
    ends_at = time.perf_counter() + seconds

    def one(number: int) -> list[float]:
        times_ms: list[float] = []
        connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=60)
        while (began_at := time.perf_counter()) < ends_at:
            job_id = job_ids[(number + CONNECTIONS * len(times_ms)) % len(job_ids)]
            connection.request("GET", f"/api/v1/jobs/{job_id}", headers={"X-API-Key": service.key})
            answer = connection.getresponse()
            body = answer.read()
            times_ms.append(1000 * (time.perf_counter() - began_at))
            if answer.status != 200:
                raise SystemExit(f"a poll was answered with {answer.status}: {body.decode()}")
        connection.close()
        return times_ms

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return [ms for times_ms in pool.map(one, range(CONNECTIONS)) for ms in times_ms]


def post(service: Service, count: int) -> list[float]:
    """Milliseconds of each upload of 3 MB until the 202 response, on an idle server."""
    picture = photograph(2400, 1600, 7, quality=95)
    times_ms: list[float] = []
    for number in range(count + 2):
        another = with_comment(picture, f"picture {number}")
        time.sleep(0.2)
        began_at = time.perf_counter()
        job_id = service.dispatch("analyze", another)["job_id"]
        times_ms.append(1000 * (time.perf_counter() - began_at))
        service.final(job_id)
    return times_ms[2:]  # the first ones load libraries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--posts", type=int, default=30)
    arguments = parser.parse_args()
    pictures = photographs(6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        key = make_key(folder)
        with serving(folder) as server, Service(server.wait_ready(), key) as service:
            post_ms = post(service, arguments.posts)
            job_ids = [service.dispatch("process", pictures[n % len(pictures)])["job_id"] for n in range(QUEUED)]
            busy_ms = poll(service, job_ids, arguments.seconds)
            waiting = sum(service.job(job_id)["status"] not in FINAL for job_id in job_ids)
    if waiting < 10:
        raise SystemExit("The queue ran empty during the measurement; use fewer --seconds.")
    busy_p99, post_p50 = percentile(busy_ms, 99), percentile(post_ms, 50)
    rows = [
        ("GET /jobs/{id} while the queue is busy: polls", f"{len(busy_ms) / arguments.seconds:.0f} /s", ""),
        ("  p50", f"{percentile(busy_ms, 50):.1f} ms", ""),
        ("  p99", f"{busy_p99:.1f} ms", verdict(busy_p99, 25, "ms")),
        ("  longest", f"{max(busy_ms):.1f} ms", ""),
        ("upload of a 3 MB JPEG until its response, idle: p50", f"{post_p50:.1f} ms", verdict(post_p50, 40, "ms")),
        ("  p90", f"{percentile(post_ms, 90):.1f} ms", ""),
    ]
    print_table(f"Latency, {CONNECTIONS} connections, {waiting} of {QUEUED} jobs still waiting afterwards", rows)


if __name__ == "__main__":
    main()
