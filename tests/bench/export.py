"""Measures an export of many images: files in the archive, memory of the server while it is sent, throughput. Compares
the bytes of an export that is repeated after one was broken off. Linux only.

`python -m tests.bench.export [--images 1000] [--texts]`
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from imgproc_local.compose import open_services
from imgproc_local.domain.image import Format
from imgproc_local.vision.facts.describer import FactsDescriber
from tests.bench.load import MIB, print_table, verdict
from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.finished import Result, add_job, text
from tests.support.processes import memory_bytes, reset_peak
from tests.support.service import Service, config_for

CONTENTS = 16
"""Different pictures; each is the content of many files."""
BASE_GROWTH_MIB, GROWTH_PER_IMAGE_MIB = 20, 0.005
"""The bound of the memory that an export may add: buffers, and the names and texts of all images."""


async def fill(folder: Path, images: int) -> None:
    """Store finished images, each with an optimized and a converted file and texts in two languages."""
    photos = [pictures.photo(1200, 800, number) for number in range(CONTENTS)]
    optimized = [Result(pictures.encoded(photo, "JPEG", quality=88), Format.JPEG) for photo in photos]
    converted = [Result(pictures.encoded(photo, "WEBP", quality=80), Format.WEBP) for photo in photos]
    async with open_services(config_for(folder), "bench", make_describer=FactsDescriber) as services:
        for number in range(images):
            await add_job(
                services,
                b"original",
                name=f"DSC_{number:05d}.JPG",
                optimized=optimized[number % CONTENTS],
                converted=converted[number % CONTENTS],
                texts=[text("en", f"red-boat-{number}"), text("de", f"rotes-boot-{number}")],
            )


def download(service: Service, options: dict[str, bool], up_to_bytes: int | None = None) -> bytes:
    """The archive, or its beginning if the connection is to be broken off."""
    archive = bytearray()
    with service.client.stream("POST", "/exports", json=options, timeout=600) as answer:
        assert answer.status_code == 200, answer.read()
        for piece in answer.iter_bytes():
            archive += piece
            if up_to_bytes is not None and len(archive) >= up_to_bytes:
                break
    return bytes(archive)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000, metavar="N")
    parser.add_argument("--texts", action="store_true", help="write the texts into the files")
    arguments = parser.parse_args()
    images, options = arguments.images, {"write_texts": arguments.texts}
    with tempfile.TemporaryDirectory(prefix="export-bench-") as name:
        folder = Path(name) / "data"
        asyncio.run(fill(folder, images))
        key = make_key(folder)
        with serving(folder) as server, Service(server.wait_ready(), key) as service:
            time.sleep(1)
            before = server.rss_bytes()
            reset_peak(server.pid)
            began = time.perf_counter()
            first = download(service, options)
            seconds = time.perf_counter() - began
            peak = memory_bytes(server.pid, "VmHWM")
            download(service, options, up_to_bytes=len(first) // 3)
            is_same = first == download(service, options)
            after = server.rss_bytes()
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        is_complete = archive.testzip() is None
        files = len(archive.namelist()) - 2
    growth_mib, max_growth_mib = (peak - before) / MIB, BASE_GROWTH_MIB + GROWTH_PER_IMAGE_MIB * images
    size_mib = len(first) / MIB
    print_table(
        f"Export of {images} images" + (" with texts" if arguments.texts else ""),
        [
            ("files in the archive", str(files), f"{2 * images}"),
            ("size, time, throughput", f"{size_mib:.0f} MiB, {seconds:.1f} s, {size_mib / seconds:.0f} MiB/s", ""),
            ("memory before", f"{before / MIB:.1f} MiB", ""),
            ("growth to the peak", f"{growth_mib:.1f} MiB", verdict(growth_mib, max_growth_mib, "MiB")),
            ("memory after three exports", f"{after / MIB:.1f} MiB", ""),
            ("same bytes after it was broken off", "yes" if is_same else "no", "yes"),
        ],
    )
    if not is_complete or files != 2 * images or not is_same or growth_mib > max_growth_mib:
        sys.exit(1)


if __name__ == "__main__":
    main()
