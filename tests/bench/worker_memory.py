"""Memory that each operation needs in a worker process, compared with the limit that `engine/workers.py` gives it.

`python -m tests.bench.worker_memory [--folder PICTURES] [--kinds NAMES]`. Linux only.

Without a folder, synthetic pictures of the kinds that need most are used. The limit is raised while they are measured.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pyvips
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.errors import BadImage, CheckStop, StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.engine import analyze, results, workers
from imgproc_local.engine.stage import WorkItem
from imgproc_local.engine.workers import MEGABYTE, Workers, memory_limit_bytes
from tests.bench.load import print_table, verdict
from tests.support.worker_pool import work_item, worker_pool

SAMPLE_S = 0.005
UNLIMITED_BYTES = 64 * 1024 * MEGABYTE
TIMEOUT_S = 600
OPERATIONS: dict[str, tuple[Callable[[WorkItem, CheckStop], object], Format]] = {
    "analyze": (analyze.describer_input, Format.WEBP),
    "optimize": (results.optimize, Format.WEBP),
    "to webp": (results.convert, Format.WEBP),
    "to avif": (results.convert, Format.AVIF),
}


class Peak(Struct):
    """The largest sizes seen, in bytes: private memory, which the limit of the kernel counts, and resident memory."""

    data: int = 0
    resident: int = 0


def data_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def sample(pool: Workers, peak: Peak, done: threading.Event) -> None:
    while not done.wait(SAMPLE_S):
        for pid in pool.pids:
            try:
                peak.data = max(peak.data, data_bytes(pid))
            except OSError:
                continue
            peak.resident = max(peak.resident, workers.resident_bytes(pid))


def measure(folder: Path, path: Path, info: ImageInfo, operation: str) -> tuple[Peak, float, str]:
    """The peak, the seconds, and the error if there was one."""
    function, target = OPERATIONS[operation]
    work = replace(work_item(folder), path=str(path).encode(), info=info, size_bytes=path.stat().st_size)
    work = replace(work, plan=replace(work.plan, format=target))
    peak, done, error = Peak(), threading.Event(), ""
    started_s = time.monotonic()
    with (
        worker_pool(folder, timeout_s=TIMEOUT_S) as pool,
        patch.object(workers, "memory_limit_bytes", lambda _: UNLIMITED_BYTES),
    ):
        thread = threading.Thread(target=sample, args=(pool, peak, done))
        thread.start()
        try:
            pool.run(function, work, info, lambda: None)
        except (StageFailed, BadImage) as failure:
            error = failure.message
        done.set()
        thread.join()
    return peak, time.monotonic() - started_s, error


def photo(path: Path, megapixels: float) -> None:
    """Write a JPEG of that size with shapes, gradients and grain."""
    height = int((megapixels * 1e6 / 1.5) ** 0.5)
    width = int(height * 1.5)
    grey = sum(
        pyvips.Image.perlin(width, height, cell_size=cell) * weight
        for cell, weight in ((1024, 60), (128, 40), (16, 20))
    )
    grain = pyvips.Image.gaussnoise(width, height, sigma=3, mean=0)
    bands = [grey * part + grain + shift for part, shift in ((0.9, 120), (0.8, 128), (0.6, 110))]
    bands[0].bandjoin(bands[1:]).cast("uchar").copy(interpretation="srgb").jpegsave(str(path), Q=95)


def noise(width: int, height: int, bands: int = 3, *, bits: int = 8) -> pyvips.Image:
    """A picture that compresses badly: a soft surface with grain."""
    scale = 257 if bits == 16 else 1
    parts = [
        (
            pyvips.Image.perlin(width, height, cell_size=64, seed=n) * 60
            + pyvips.Image.gaussnoise(width, height, sigma=9)
        )
        for n in range(bands)
    ]
    picture = (parts[0].bandjoin(parts[1:]) + 128) * scale
    return picture.cast("ushort" if bits == 16 else "uchar").copy(interpretation="rgb16" if bits == 16 else "srgb")


def animation(path: Path, side_px: int, frames: int) -> None:
    stack = noise(side_px, side_px * frames).copy_memory().copy()
    stack.set_type(pyvips.GValue.gint_type, "page-height", side_px)
    stack.write_to_file(str(path))


SYNTHETIC: dict[str, Callable[[Path], None]] = {
    "photo-4MP.jpg": lambda path: photo(path, 4),
    "photo-24MP.jpg": lambda path: photo(path, 24),
    "photo-50MP.jpg": lambda path: photo(path, 50),
    "photo-8MP.png": lambda path: noise(3400, 2400).write_to_file(str(path)),
    "alpha-8MP.png": lambda path: noise(3400, 2400, 4).write_to_file(str(path)),
    "16-bit-1MP.png": lambda path: noise(1200, 900, bits=16).write_to_file(str(path)),
    "16-bit-8MP.png": lambda path: noise(3400, 2400, bits=16).write_to_file(str(path)),
    "24-frames-400.gif": lambda path: animation(path, 400, 24),
    "100-frames-400.webp": lambda path: animation(path, 400, 100),
}


def sources(folder: Path, pictures: Path | None, kinds: list[str] | None) -> Iterator[Path]:
    if pictures is not None:
        yield from sorted(path for path in pictures.rglob("*") if path.is_file())
        return
    for name, make in SYNTHETIC.items():
        if not kinds or name in kinds:
            make(folder / name)
            yield folder / name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--operations", nargs="*", default=list(OPERATIONS), choices=list(OPERATIONS))
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in sources(folder, arguments.folder, arguments.kinds):
            try:
                info = probe(path, 10**9)
            except (BadImage, StageFailed):
                continue
            for operation in arguments.operations:
                if info.format is Format.GIF and info.frames > 1 and operation == "to avif":
                    continue
                peak, seconds, error = measure(folder, path, info, operation)
                limit = memory_limit_bytes(info)
                share = peak.data / limit
                text = f"{peak.data // MEGABYTE} of {limit // MEGABYTE} MB ({peak.resident // MEGABYTE} resident)"
                what = f"{path.name}, {info.pixels / 1e6:.1f} MP, {operation}"
                rows.append((what, f"{text} {seconds:.0f} s {error[:60]}", verdict(share, 0.6, "of the limit")))
                print(*rows[-1], flush=True)
    print_table("private memory of a worker", rows)


if __name__ == "__main__":
    main()
