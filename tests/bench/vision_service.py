"""Measures polls and stalls of the event loop while a vision model describes; or prints the texts for many pictures.

The model is installed by `models import`, as users do. Polls are measured as in `latency.py`: the server, the client,
and an empty server that shows the client's own share run in three processes. With `--pictures`, the pictures of a
folder are described through the HTTP API instead, and every text is printed with its source and the lint's verdict. A
text by the model that the lint refuses, or a failed job, ends the run with an error.

`python -m tests.bench.vision_service TEXT.gguf MMPROJ.gguf [--seconds 20] [--languages en,de,fr,es,it]
[--pictures FOLDER [--limit 20]]`
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from imgproc_local.codecs.picture.probe import probe
from imgproc_local.compose import open_services
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.plan import ACCEPTED_FORMATS, Operation, Plan
from imgproc_local.vision.llm.lint import alt_text_problem
from imgproc_local.vision.llm.prompt import Answer
from tests.bench.latency import CONNECTIONS, client, empty_server
from tests.bench.load import Connection, jpegs, percentile, print_table, submit, verdict
from tests.bench.throughput import MAX_PIXELS, Ticker
from tests.faults.server_process import ROOT, clean_environment, make_key, memory_bytes, serving

MODEL = "bench"
IMPORT_TIMEOUT_S = 900
DESCRIBED_TIMEOUT_S = 600
QUEUED = 12
"""Pictures queued for the model while polls are measured."""


def install(data: Path, text: Path, mmproj: Path) -> None:
    """Install the model by `models import`, which tests it in a child process."""
    subprocess.run(
        [sys.executable, "-m", "imgproc_local", "models", "import", str(text), str(mmproj), "--name", MODEL],
        cwd=ROOT,
        env=clean_environment(data_dir=data),
        timeout=IMPORT_TIMEOUT_S,
        check=True,
    )


def polls(data: Path, key: str, files: list[Path], languages: str, seconds: float) -> tuple[list[float], list[float]]:
    """Milliseconds of every poll while pictures are described, and of the client alone against an empty server."""

    async def queue(root: str) -> list[str]:
        connection = await Connection.open(root, key)
        ids = [await submit(connection, "analyze", file.read_bytes(), languages=languages) for file in files]
        connection.close()
        return ids

    with serving(data) as server, empty_server() as nothing:
        root = server.wait_ready()
        job_ids = asyncio.run(queue(root))
        with httpx.Client(base_url=f"{root}/api/v1", headers={"X-API-Key": key}, timeout=60) as api:
            while _status(api, job_ids[0]) == "pending":
                time.sleep(0.05)
            # the model is loaded once the first picture is described
            _wait_final(api, job_ids[0])
            own_ms = client("poll", nothing, key, ["none"], min(5, seconds))
            busy_ms = client("poll", root, key, job_ids, seconds)
            if _status(api, job_ids[-1]) != "pending":
                raise SystemExit("All pictures were described during the measurement; use fewer --seconds.")
    return busy_ms, own_ms


async def stalls(data: Path, files: list[Path], languages: str) -> list[float]:
    """Milliseconds by which each tick of the engine's event loop was late while two pictures are described."""
    config = Config(data_dir=data)
    plan = Plan(Operation.ANALYZE, tuple(languages.split(",")))
    async with open_services(config, "bench") as services:
        account_id = await services.store.keys.account_id(create=True)
        ticker = Ticker(blame=False)
        ticking = asyncio.create_task(ticker.tick())
        for file in files[:2]:
            with services.blobs.incoming() as incoming:
                await asyncio.to_thread(incoming.write, file.read_bytes())
                job, _ = await services.engine.accept(account_id, plan, incoming, file.name)
            done = await services.engine.wait(job.id, DESCRIBED_TIMEOUT_S)
            if done.status != "completed":
                raise SystemExit(f"a job ended as {done.status}: {done.stages}")
        ticking.cancel()
    return [late_s * 1000 for late_s in ticker.late_s]


def measure(data: Path, languages: str, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        files = jpegs(Path(name), QUEUED)
        key = make_key(data)
        late_ms = asyncio.run(stalls(data, files, languages))
        busy_ms, own_ms = polls(data, key, files[2:], languages, seconds)
    p99, longest_late = percentile(busy_ms, 99), max(late_ms)
    rows = [
        (f"GET /jobs/{{id}}, {CONNECTIONS} connections: polls", f"{len(busy_ms) / seconds:.0f} /s", ""),
        ("  p50", f"{percentile(busy_ms, 50):.1f} ms", ""),
        ("  p99", f"{p99:.1f} ms", verdict(p99, 25, "ms")),
        ("  longest", f"{max(busy_ms):.1f} ms", ""),
        ("client against an empty server: p99", f"{percentile(own_ms, 99):.2f} ms", ""),
        ("longest stall of the event loop", f"{longest_late:.1f} ms", verdict(longest_late, 50, "ms")),
        ("99.9 % of ticks are late by at most", f"{percentile(late_ms, 99.9):.1f} ms", ""),
    ]
    print_table(f"While a picture is described in {languages}", rows)


def some_of(folder: Path, limit: int) -> list[Path]:
    """`limit` pictures that can be analyzed, spread over all below `folder`; folders called `bad` are left out."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "bad" not in path.relative_to(folder).parts[:-1]:
            with suppress(ServiceError):
                if probe(path, MAX_PIXELS).format in ACCEPTED_FORMATS[Operation.ANALYZE]:
                    found.append(path)
    step = max(1, len(found) // limit)
    return found[::step][:limit]


def describe(data: Path, pictures: list[Path], languages: str) -> bool:
    """Print every text with its source; return whether no job failed and the lint refused no text of the model."""
    key = make_key(data)
    sources: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    failed = 0
    seconds: list[float] = []
    with serving(data) as server:
        url = f"{server.wait_ready()}/api/v1"
        print("| picture | language | source | lint | seo_filename | seo_alt_text |\n" + "|---" * 6 + "|")
        with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=60) as api:
            for picture in pictures:
                started_at = time.monotonic()
                job = _described(api, picture, languages)
                if job["status"] != "completed":
                    failed += 1
                    print(f"| {picture.name} | – | {job['status']} | {job.get('errors', job)} | | |")
                    continue
                seconds.append(time.monotonic() - started_at)
                for entry in job["image"]["translations"]:
                    language, source, text = entry["language_code"], entry["source"], entry["seo_alt_text"]
                    answer = Answer(entry["seo_filename"], text)
                    found = alt_text_problem(answer, language, original_filename=picture.name) or "clean"
                    sources[source] += 1
                    faults[source] += found != "clean"
                    cells = (picture.name, language, source, found, entry["seo_filename"], text.replace("|", "/"))
                    print("| " + " | ".join(cells) + " |", flush=True)
            peak = memory_bytes(server.pid, "VmHWM")
    rows = [
        ("pictures described", f"{len(seconds)} of {len(pictures)}", "all" if not failed else "MISSED"),
        (
            "seconds per picture: median, longest",
            f"{percentile(seconds or [0], 50):.1f}, {max(seconds or [0]):.1f}",
            "",
        ),
        ("peak memory of the service", f"{peak / 1e6:.0f} MB", ""),
    ]
    rows += [
        (f"texts by {source}, refused by the lint", f"{count}, {faults[source]}", "")
        for source, count in sources.items()
    ]
    print_table(f"{len(pictures)} pictures in {languages}", rows)
    return not failed and not faults["vision"]


def _described(api: httpx.Client, picture: Path, languages: str) -> dict[str, Any]:
    """The job with its final status; for a refused upload, that is the HTTP status."""
    with picture.open("rb") as file:
        answer = api.post("/images/analyze", files={"image": (picture.name, file)}, data={"languages": languages})
    if answer.status_code != 202:
        return {"status": str(answer.status_code), "errors": answer.json().get("message")}
    return _wait_final(api, answer.json()["data"]["job_id"])


def _wait_final(api: httpx.Client, job_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + DESCRIBED_TIMEOUT_S
    while time.monotonic() < deadline:
        job: dict[str, Any] = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=30"}).json()["data"]
        if job["status"] in ("completed", "failed"):
            return job
    raise SystemExit(f"a picture was not described in {DESCRIBED_TIMEOUT_S} s")


def _status(api: httpx.Client, job_id: str) -> str:
    status: str = api.get(f"/jobs/{job_id}").json()["data"]["status"]
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("mmproj", type=Path)
    parser.add_argument("--languages", default="en,de,fr,es,it")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pictures", type=Path, help="describe the pictures in this folder instead of measuring polls")
    parser.add_argument("--limit", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        install(data, arguments.text, arguments.mmproj)
        if not arguments.pictures:
            measure(data, arguments.languages, arguments.seconds)
            return
        if not describe(data, some_of(arguments.pictures, arguments.limit), arguments.languages):
            sys.exit("A text was published that the lint refuses, or a picture was not described.")


if __name__ == "__main__":
    main()
