"""Measures the manifest of an archive of a million pictures: a resumed run, tables and report, and the memory.

First the parts are those of tasks with 50 pictures each; the tables are made and the parts are merged. Then a run finds
that nothing has changed. The objects of the source are invented, so that neither a listing nor pictures are measured.
`python -m tests.bench.archive_manifest [--pictures 1000000]`. Linux only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from imgproc_local.archive.local_store import LocalStore
from imgproc_local.archive.manifest import encode_rows, next_run, part_key, run_name
from imgproc_local.archive.manifest_index import new_index
from imgproc_local.archive.row import Row
from imgproc_local.archive.store import PAGE_KEYS, SourceObject
from imgproc_local.archive.summary import LastRun, Summary
from imgproc_local.archive.tables import Report, finish, read_new_parts
from imgproc_local.batch.files import ResultFile
from imgproc_local.cli.archive.report import report_page
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation
from tests.bench.archive_memory import started, watch

TASK_PICTURES = 50
SIZE_BYTES = 2_000_000
OPTIONS = "options"
RUN = LastRun(datetime.now(UTC), 0.0, 0, is_complete=True, model="", unused_model="", makes_texts=True)


def source_object(number: int) -> SourceObject:
    version = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    return SourceObject(f"museum/{number // 10_000:03d}/IMG_{number:07d}.jpg", SIZE_BYTES, version)


def invented_row(picture: SourceObject, options: str) -> Row:
    """The row of a picture with two results and texts in two languages."""
    sha256 = hashlib.sha256(picture.key.encode()).hexdigest()
    slug = f"a-red-bicycle-in-front-of-a-house-{sha256[:8]}"
    folder = picture.key.rpartition("/")[0]
    return Row(
        source=picture.key,
        version=picture.version,
        size_bytes=picture.size_bytes,
        options=options,
        outcome="done",
        sha256=sha256,
        optimized=ResultFile(f"{folder}/{slug}.jpg", sha256, 900_000, Format.JPEG),
        converted=ResultFile(f"{folder}/{slug}.webp", sha256, 700_000, Format.WEBP),
        translations=tuple(
            Translation(language, slug, "A red bicycle stands in front of a house.", TextSource.FACTS)
            for language in ("en", "de")
        ),
        total_s=1.0,
    )


def fill(folder: Path, pictures: int) -> None:
    """Store the parts of the tasks of one run."""
    name = run_name(1, "00000000")
    for first in range(0, pictures, TASK_PICTURES):
        part = folder / part_key(f"{name}-{first // TASK_PICTURES:07d}")
        part.parent.mkdir(parents=True, exist_ok=True)
        pictures_of_task = (source_object(first + number) for number in range(TASK_PICTURES))
        part.write_bytes(encode_rows([invented_row(picture, OPTIONS) for picture in pictures_of_task]))


def pages(pictures: int) -> Iterator[list[SourceObject]]:
    for first in range(0, pictures, PAGE_KEYS):
        yield [source_object(number) for number in range(first, min(first + PAGE_KEYS, pictures))]


def resume(folder: str, number: str, title: str) -> None:
    """What the client does in a run that has no picture to process."""
    store, pictures = LocalStore(Path(folder)), int(number)
    cpu_s, times_s = sum(os.times()[:4]), [time.monotonic()]
    with new_index() as index:
        read_new_parts(store, index)
        parts = len(index.parts())
        times_s.append(time.monotonic())
        unchanged = sum(same for page in pages(pictures) for _, same in index.compared(page, OPTIONS))
        times_s.append(time.monotonic())
        report = Report(Summary(OPTIONS), lambda summary: report_page(summary, (), RUN))
        finish(store, index, next_run(index.parts()), report)
        times_s.append(time.monotonic())
    assert unchanged == pictures
    read, compared, finished = (after - before for before, after in pairwise(times_s))
    print(
        f"{title}: {parts:,} parts read in {read:.1f} s, {pictures:,} objects compared in {compared:.1f} s,"
        f" tables in {finished:.1f} s, together {times_s[-1] - times_s[0]:.1f} s, CPU time"
        f" {sum(os.times()[:4]) - cpu_s:.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=1_000_000)
    pictures = parser.parse_args().pictures // TASK_PICTURES * TASK_PICTURES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "target", pictures)
        for title in ("parts of tasks", "merged parts"):
            arguments = (folder / "target", pictures, title)
            with started(folder, "archive_manifest:resume", *arguments, environment={}) as process:
                samples = watch(process)
            client_mb, child_mb = max(each.client for each in samples), max(each.child for each in samples)
            print(f"{title}: client {client_mb:.0f} MB, its child {child_mb:.0f} MB at the peak", flush=True)


if __name__ == "__main__":
    main()
