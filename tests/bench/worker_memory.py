"""Memory that each operation needs in a worker process, compared with the limit that `engine/workers.py` gives it.

`python -m tests.bench.worker_memory [--kinds NAMES]`. Linux only.

The pictures are of the kinds that need most memory. The limit is raised while they are measured.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyvips
from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.engine import analyze, results
from imgproc_local.engine.stage import WorkItem
from imgproc_local.engine.workers import MEGABYTE, Workers, memory_limit_bytes
from tests.bench.load import print_table, verdict
from tests.support.processes import memory_bytes
from tests.support.reading import probe
from tests.support.worker_pool import work_item, worker_pool

SAMPLE_S = 0.005
TIMEOUT_S = 600
MAX_SHARE = 0.6
"""The largest share of its limit that an operation may need."""
OPERATIONS: dict[str, tuple[Callable[[WorkItem, CheckStop], object], Format]] = {
    "analyze": (analyze.describer_input, Format.WEBP),
    "optimize": (results.optimize, Format.WEBP),
    "to webp": (results.convert, Format.WEBP),
    "to avif": (results.convert, Format.AVIF),
}
KINDS: dict[str, Callable[[], pyvips.Image]] = {
    "24MP.jpg": lambda: grain(6000, 4000),
    "50MP.jpg": lambda: grain(8660, 5773),
    "8MP.png": lambda: grain(3400, 2400),
    "alpha-8MP.png": lambda: grain(3400, 2400, 4),
    "16-bit-8MP.png": lambda: (grain(3400, 2400).cast("ushort") * 257).cast("ushort").copy(interpretation="rgb16"),
    "24-frames-400.gif": lambda: animation(400, 24),
    "100-frames-400.webp": lambda: animation(400, 100),
}


def grain(width: int, height: int, bands: int = 3) -> pyvips.Image:
    """A picture that compresses badly: a soft surface with grain."""
    parts = [
        pyvips.Image.perlin(width, height, cell_size=64, seed=band) * 60
        + pyvips.Image.gaussnoise(width, height, sigma=9)
        for band in range(bands)
    ]
    return (parts[0].bandjoin(parts[1:]) + 128).cast("uchar").copy(interpretation="srgb")


def animation(side_px: int, frames: int) -> pyvips.Image:
    stack = grain(side_px, side_px * frames).copy_memory().copy()
    stack.set_type(pyvips.GValue.gint_type, "page-height", side_px)
    return stack


def measure(folder: Path, path: Path, info: ImageInfo, operation: str) -> int:
    """The most private memory, in bytes, that the kernel counts against the limit."""
    function, target = OPERATIONS[operation]
    work = replace(work_item(folder), path=str(path).encode(), info=info)
    work = replace(work, plan=replace(work.plan, format=target))
    done, peaks = threading.Event(), [0]

    def sample(pool: Workers) -> None:
        while not done.wait(SAMPLE_S):
            for pid in pool.pids:
                peaks.append(memory_bytes(pid, "VmData"))

    with worker_pool(folder, timeout_s=TIMEOUT_S) as pool:
        thread = threading.Thread(target=sample, args=(pool,))
        thread.start()
        try:
            pool.run(function, work, 64 * 1024 * MEGABYTE, lambda: None)
        finally:
            done.set()
            thread.join()
    return max(peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in arguments.kinds:
            KINDS[kind]().write_to_file(str(folder / kind))
            info = probe(folder / kind, 10**9)
            for operation in OPERATIONS:
                if info.format is Format.GIF and operation == "to avif":
                    continue
                began_s = time.monotonic()
                peak, limit = measure(folder, folder / kind, info, operation), memory_limit_bytes(info)
                text = f"{peak // MEGABYTE} of {limit // MEGABYTE} MB, {time.monotonic() - began_s:.0f} s"
                rows.append((f"{kind}, {operation}", text, verdict(peak / limit, MAX_SHARE, "of the limit")))
                print(*rows[-1], flush=True)
    print_table("private memory of a worker", rows)


if __name__ == "__main__":
    main()
