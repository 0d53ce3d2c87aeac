"""Runs every file of a folder through all four operations of a server of its own and prints the outcomes.

`python -m tests.faults.run_folder FOLDER`
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
from msgspec import Struct

from tests.faults.server_process import make_key, memory_bytes, reset_peak, serving
from tests.support import pictures

OPERATIONS = ("analyze", "optimize", "convert", "process")
WAIT_S = 60
MIB = 1024 * 1024


class Outcome(Struct, frozen=True):
    """What a client sees of one file and operation. `reason` is "" for a job that was completed."""

    file: str
    operation: str
    answer: str
    reason: str
    seconds: float
    rss_before_bytes: int
    rss_after_bytes: int
    peak_bytes: int


def send(client: httpx.Client, operation: str, name: str, content: bytes) -> tuple[str, str]:
    """The answer in a word and its reason, of one file and operation."""
    answer = client.post(f"/images/{operation}", files={"image": (name, content)})
    if answer.status_code != 202:
        return str(answer.status_code), answer.json()["message"]
    job_id = answer.json()["data"]["job_id"]
    deadline = time.monotonic() + WAIT_S
    while True:
        job = client.get(f"/jobs/{job_id}", headers={"Prefer": f"wait={WAIT_S}"}).json()["data"]
        if job["status"] in ("completed", "failed"):
            break
        if time.monotonic() > deadline:
            raise AssertionError(f"{name}, {operation}: still {job['status']} after {WAIT_S} s")
    reasons = dict.fromkeys(f"{error['stage']}: {error['message']}" for error in job.get("errors", []))
    return f"202 {job['status']}", " / ".join(reasons)


def run_files(files: Mapping[str, bytes], folder: Path) -> list[Outcome]:
    """The outcome of every file and operation, from a fresh server that has done ordinary work before."""
    key = make_key(folder)
    outcomes: list[Outcome] = []
    with serving(folder) as server:
        url = f"{server.wait_ready()}/api/v1"
        with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=WAIT_S + 30) as client:
            for ordinary in (pictures.jpeg(), pictures.png()):
                answer, reason = send(client, "process", "ordinary", ordinary)
                assert answer == "202 completed", reason
            for name, content in files.items():
                for operation in OPERATIONS:
                    reset_peak(server.pid)
                    before, started_at = server.rss_bytes(), time.monotonic()
                    answer, reason = send(client, operation, name, content)
                    seconds = time.monotonic() - started_at
                    after, peak = server.rss_bytes(), memory_bytes(server.pid, "VmHWM")
                    outcomes.append(Outcome(name, operation, answer, reason, seconds, before, after, peak))
            alive = httpx.get(f"{server.wait_ready()}/healthz", timeout=10)
            assert alive.status_code == 200, alive.text
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    lines = ["| file | operation | answer | reason | seconds | MiB before | peak | after |", "|---" * 8 + "|"]
    lines += [
        f"| {o.file} | {o.operation} | {o.answer} | {o.reason} | {o.seconds:.2f} | {o.rss_before_bytes / MIB:.0f}"
        f" | {o.peak_bytes / MIB:.0f} | {o.rss_after_bytes / MIB:.0f} |"
        for o in outcomes
    ]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("One folder is expected: python -m tests.faults.run_folder FOLDER")
    files = {file.name: file.read_bytes() for file in sorted(Path(sys.argv[1]).iterdir()) if file.is_file()}
    with tempfile.TemporaryDirectory() as folder:
        print(table(run_files(files, Path(folder) / "data")))


if __name__ == "__main__":
    main()
