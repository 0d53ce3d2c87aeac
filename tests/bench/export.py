"""Measures an export of many images: files in the archive, memory of the server while it is sent, throughput. Compares
the bytes of an export that is repeated after one was broken off. Linux only.

`python -m tests.bench.export [--images 1000] [--texts]`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import http.client
import json
import sqlite3
import tempfile
import threading
import time
import zipfile
from pathlib import Path

from imgproc_local.compose import open_services
from imgproc_local.domain.image import Format
from imgproc_local.storage.inspection import DATABASE_FILE
from imgproc_local.vision.facts.describer import FactsDescriber
from tests.bench.load import MIB, print_table, verdict
from tests.faults.server_process import make_key, memory_bytes, reset_peak, serving
from tests.support import pictures
from tests.support.finished import Result, add_job, text
from tests.support.service import config_for

CONTENTS = 16
"""Different pictures; each is the content of many files."""
SAMPLE_S = 0.05
BASE_GROWTH_MIB, GROWTH_PER_IMAGE_MIB = 20, 0.005
"""The bound of the memory that an export may add: buffers, and the names and texts of all images."""
MAX_DRIFT_MIB = 10
"""The bound of the growth from the first quarter of an export to the last one."""


async def fill(folder: Path, images: int) -> None:
    """Store finished images, each with an optimized and a converted file and texts in two languages."""
    async with open_services(config_for(folder), "bench", make_describer=FactsDescriber) as services:
        for number in range(CONTENTS):
            picture = pictures.photo(1200, 800, number)
            await add_job(
                services,
                b"original",
                name=f"DSC_{number:05d}.JPG",
                optimized=Result(pictures.encoded(picture, "JPEG", quality=88), Format.JPEG),
                converted=Result(pictures.encoded(picture, "WEBP", quality=80), Format.WEBP),
                texts=[text("en", f"red-boat-{number}"), text("de", f"rotes-boot-{number}")],
            )
    copy_jobs(folder / DATABASE_FILE, images)


def copy_jobs(path: Path, images: int) -> None:
    """Copy the rows of the stored jobs until there are `images`."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        ids = [row["id"] for row in connection.execute("SELECT id FROM jobs ORDER BY id")]
        for number in range(len(ids), images):
            original, copy = ids[number % len(ids)], f"{number:026d}"
            for table, column in (("jobs", "id"), ("stages", "job_id"), ("translations", "job_id")):
                for row in connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", (original,)):
                    values = dict(row) | {column: copy}
                    if table == "jobs":
                        values["image_id"] = f"i{copy[1:]}"
                    elif table == "stages":
                        del values["id"]
                    else:
                        values["seo_filename"] = f"{values['seo_filename']}-{number}"
                    marks = ", ".join("?" * len(values))
                    connection.execute(
                        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})",
                        list(values.values()),
                    )
        connection.commit()


class Memory:
    """Samples the resident memory of a process until the end of its block."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.samples: list[int] = []

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self.samples.append(memory_bytes(self._pid, "VmRSS"))

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def median_mib(self, part: int, parts: int) -> float:
        """The median of one of `parts` parts of the time."""
        chosen = sorted(self.samples[len(self.samples) * part // parts : len(self.samples) * (part + 1) // parts])
        return chosen[len(chosen) // 2] / MIB if chosen else 0.0


def request(port: int, key: str, *, texts: bool) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = json.dumps({"write_texts": texts})
    connection.request("POST", "/api/v1/exports", body, {"X-API-Key": key, "Connection": "close"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    return answer


def download(port: int, key: str, path: Path, *, texts: bool) -> str:
    """The SHA-256 of the archive, which is stored at `path`."""
    digest = hashlib.sha256()
    with request(port, key, texts=texts) as answer, path.open("wb") as file:
        while piece := answer.read(256 * 1024):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def run(images: int, *, texts: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="export-bench-") as name:
        folder, path = Path(name) / "data", Path(name) / "a.zip"
        asyncio.run(fill(folder, images))
        with serving(folder) as server:
            key = make_key(folder)
            root = server.wait_ready()
            port = int(root.rpartition(":")[2])
            time.sleep(1)
            before = memory_bytes(server.pid, "VmRSS")
            reset_peak(server.pid)
            began = time.perf_counter()
            with Memory(server.pid) as memory:
                first = download(port, key, path, texts=texts)
            seconds = time.perf_counter() - began
            peak = memory_bytes(server.pid, "VmHWM")
            with zipfile.ZipFile(path) as archive:
                complete = archive.testzip() is None
                files = len(archive.namelist()) - 2
            size = path.stat().st_size
            with request(port, key, texts=texts) as broken_off:
                broken_off.read(size // 3)
            second = download(port, key, path, texts=texts)
            after = memory_bytes(server.pid, "VmRSS")
    growth_mib, max_growth_mib = (peak - before) / MIB, BASE_GROWTH_MIB + GROWTH_PER_IMAGE_MIB * images
    parts = [memory.median_mib(part, 4) for part in range(4)]
    drift_mib = parts[-1] - parts[0]
    print_table(
        f"Export of {images} images" + (" with texts" if texts else ""),
        [
            ("files in the archive", str(files), f"{2 * images}"),
            ("size, time, throughput", f"{size / MIB:.0f} MiB, {seconds:.1f} s, {size / MIB / seconds:.0f} MiB/s", ""),
            ("memory before", f"{before / MIB:.1f} MiB", ""),
            (
                "memory in each quarter of the export",
                ", ".join(f"{part:.1f}" for part in parts) + " MiB",
                verdict(drift_mib, MAX_DRIFT_MIB, "MiB more"),
            ),
            ("growth to the peak", f"{growth_mib:.1f} MiB", verdict(growth_mib, max_growth_mib, "MiB")),
            ("memory after three exports", f"{after / MIB:.1f} MiB", ""),
            ("same bytes after it was broken off", "yes" if first == second else "no", "yes"),
        ],
    )
    is_complete = complete and files == 2 * images and first == second
    return 0 if is_complete and growth_mib <= max_growth_mib and drift_mib <= MAX_DRIFT_MIB else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000, metavar="N")
    parser.add_argument("--texts", action="store_true", help="write the texts into the files")
    arguments = parser.parse_args()
    return run(arguments.images, texts=arguments.texts)


if __name__ == "__main__":
    raise SystemExit(main())
