"""Doubles for `archive_scale` and `archive_workers`: tasks, workers that share a process, a source of any size.

They are in a module of their own, because scheduler and workers import the tasks by name.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import itertools
import os
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.archive import client as archive_client
from imgproc_local.archive import run as archive_run
from imgproc_local.archive.local_store import LocalStore
from imgproc_local.archive.manifest import encode_rows, part_key
from imgproc_local.archive.picture import PendingPicture
from imgproc_local.archive.store import PAGE_KEYS, SourceObject
from imgproc_local.archive.worker import PictureSummary, RunSpec, run_task
from imgproc_local.cli import main as command
from tests.bench.archive_manifest import SIZE_BYTES, invented_row

TIMES_ENDING = ".times.json"
PICTURE_S = 1.0
"""How long each picture claims to have taken, so that a task has 30."""


class TaskTimes(Struct, frozen=True):
    """When a task ran, in which process, and how long all its pictures took. Instants are those of `time.monotonic`."""

    pid: int
    begun_s: float
    ended_s: float
    pictures_s: float


def _summary(picture: SourceObject, seconds: float) -> PictureSummary:
    return PictureSummary(picture.key, "done", "", picture.size_bytes, picture.size_bytes // 2, False, seconds)


def rows_only(spec: RunSpec, pictures: Sequence[PendingPicture], name: str) -> list[PictureSummary]:
    """In place of `run_task`: stores the part of the task as if every picture was processed."""
    rows = [invented_row(pending.picture, spec.request.options_hash) for pending in pictures]
    LocalStore(Path(spec.target)).replace(part_key(name), encode_rows(rows))
    return [_summary(pending.picture, PICTURE_S) for pending in pictures]


def sleep(spec: RunSpec, pictures: Sequence[PendingPicture], name: str) -> list[PictureSummary]:
    """In place of `run_task`: waits for as long as the options of the run say."""
    seconds = float(spec.request.options_hash)
    time.sleep(seconds)
    return [_summary(pending.picture, seconds) for pending in pictures]


def timed(spec: RunSpec, pictures: Sequence[PendingPicture], name: str) -> list[PictureSummary]:
    """`run_task`, which stores beside the target when it ran, in which process, and how long its pictures took."""
    begun_s = time.monotonic()
    summaries = run_task(spec, pictures, name)
    times = TaskTimes(os.getpid(), begun_s, time.monotonic(), sum(each.total_s for each in summaries))
    Path(f"{spec.target}-{name}{TIMES_ENDING}").write_bytes(msgspec.json.encode(times))
    return summaries


def host_workers(address: str, count: int) -> None:
    """A process with many workers of Dask, each with a thread for its tasks."""
    from distributed import Worker

    async def run() -> None:
        names = (f"{os.getpid()}-{number}" for number in range(count))
        workers = [await Worker(address, nthreads=1, memory_limit=0, name=name, dashboard=False) for name in names]
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


class Listing(http.server.BaseHTTPRequestHandler):
    """Answers `ListObjectsV2` of S3 with pages of invented objects. There are none in hidden folders."""

    protocol_version = "HTTP/1.1"
    pictures = 0

    def do_GET(self) -> None:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        first = int(query.get("continuation-token", 0))
        pictures = 0 if "/." in query.get("prefix", "") else self.pictures
        end = min(first + PAGE_KEYS, pictures)
        objects = "".join(
            f"<Contents><Key>museum/{number // 10_000:03d}/IMG_{number:07d}.jpg</Key>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()}"</ETag>'
            f"<Size>{SIZE_BYTES}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for number in range(first, end)
        )
        more = end < pictures
        token = f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{objects}</ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def serve_listing(pictures: int, port_file: Path) -> None:
    Listing.pictures = pictures
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    server.daemon_threads = True
    port_file.with_suffix(".part").write_text(str(server.server_address[1]))
    port_file.with_suffix(".part").rename(port_file)
    server.serve_forever()


def run_timed(arguments: Sequence[str], pictures_per_task: int) -> None:
    """The command `archive` with tasks of one size, which store their times."""

    def grouped(pictures: Iterable[PendingPicture], _: object) -> Iterator[list[PendingPicture]]:
        remaining = iter(pictures)
        while group := list(itertools.islice(remaining, pictures_per_task)):
            yield group

    archive_client.run_task = timed  # type: ignore[assignment] # the same signature, another function
    archive_run.grouped = grouped  # type: ignore[assignment] # the same
    command([*arguments])


def run_rows_only(*arguments: str) -> None:
    """The command `archive`, whose tasks only store their rows."""
    archive_client.run_task = rows_only  # type: ignore[assignment] # the same signature, another function
    command([*arguments])
