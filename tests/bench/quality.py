"""Measures the CPU time and memory per megapixel of a SSIMULACRA 2.1 score, by each backend and by the PyPI package.

`python -m tests.bench.quality [--megapixels 2] [--rounds 3] [--side 512] [folder of pictures]`
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ssimulacra2
from PIL import Image

from imgproc_local.codecs.quality import ssimulacra2 as quality
from tests.bench.load import photograph, print_table, verdict

TARGET_S_PER_MP = 0.10
ORACLE_SIDE_PX = 500
TOLERANCE = 0.5
MEMORY_OF = """
import pathlib
from imgproc_local.codecs.quality import ssimulacra2 as quality

def status(field):
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split(field + ":")[1].split()[0]) * 1024

small = quality.Reference(bytes(3 * 64 * 64), 64, 64, using="{using}")
pixels, other = bytes(3 * {side} * {side}), bytearray(3 * {side} * {side})
other[:] = pixels
before = status("VmRSS")
source = quality.Reference(pixels, {side}, {side}, using="{using}")
held = status("VmRSS") - before
pathlib.Path("/proc/self/clear_refs").write_text("5")
source.score(other)
print(held, status("VmHWM") - before)
"""


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """The lowest CPU time of `rounds` runs, all threads included."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def jpeg_of(picture: Image.Image, q: int) -> Image.Image:
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=q)
    return Image.open(data).convert("RGB")


def costs(megapixels: float, rounds: int) -> list[tuple[str, str, str]]:
    side = round((megapixels * 1e6) ** 0.5)
    picture = photograph(side, side, 1)
    pixels, other = picture.tobytes(), jpeg_of(picture, 70).tobytes()
    rows = []
    for using in quality.BACKENDS:
        opening = cpu_seconds(partial(quality.Reference, pixels, side, side, using=using), rounds) / megapixels
        source = quality.Reference(pixels, side, side, using=using)
        scoring = cpu_seconds(partial(source.score, other), rounds) / megapixels
        limit = verdict(scoring, TARGET_S_PER_MP, "s/MP") if using == "c" else ""
        rows += [(f"{using}: reference", f"{opening:.3f} s/MP", ""), (f"{using}: score", f"{scoring:.3f} s/MP", limit)]
    part = picture.crop((0, 0, ORACLE_SIDE_PX, ORACLE_SIDE_PX))
    scoring = cpu_seconds(partial(oracle, part, jpeg_of(part, 70)), 1) / (ORACLE_SIDE_PX**2 / 1e6)
    return [*rows, ("PyPI package: both", f"{scoring:.3f} s/MP", "")]


def memory(megapixels: float) -> list[tuple[str, str, str]]:
    """Growth of the process in bytes per pixel, for each backend. Linux only."""
    side = round((megapixels * 1e6) ** 0.5)
    rows = []
    for using in quality.BACKENDS:
        code = MEMORY_OF.format(side=side, using=using)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        held, peak = (int(number) / side**2 for number in out.stdout.split())
        rows.append((f"{using}: reference, peak while scoring", f"{held:.0f}, {peak:.0f} bytes/pixel", ""))
    return rows


def oracle(picture: Image.Image, other: Image.Image) -> float:
    files = [io.BytesIO(), io.BytesIO()]
    for image, file in zip((picture, other), files, strict=True):
        image.save(file, "PNG", compress_level=0)
    return float(ssimulacra2.compute_ssimulacra2(*files))


def accuracy(folder: Path, side_px: int) -> list[tuple[str, str, str]]:
    """Differences from the PyPI package's scores on crops of the folder's pictures, per JPEG quality."""
    differences: dict[int, list[float]] = {10: [], 50: [], 80: [], 95: []}
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        try:
            with Image.open(file) as image:
                size = min(image.width, side_px), min(image.height, side_px)
                picture = image.convert("RGB").crop((0, 0, *size))
        except OSError:
            continue
        source = quality.Reference(picture.tobytes(), *picture.size)
        for q, distances in differences.items():
            other = jpeg_of(picture, q)
            distances.append(abs(source.score(other.tobytes()) - oracle(picture, other)))
    return [
        (
            f"JPEG {q}, {len(distances)} pictures: mean, largest difference",
            f"{statistics.mean(distances):.4f}, {max(distances):.4f}",
            verdict(max(distances), TOLERANCE, "points"),
        )
        for q, distances in differences.items()
        if distances
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="pictures to compare scores on")
    parser.add_argument("--megapixels", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=512, help="pixels per side of the crops to compare scores on")
    arguments = parser.parse_args()
    print_table(f"CPU, {arguments.megapixels:g} MP", costs(arguments.megapixels, arguments.rounds))
    print_table(f"memory, {arguments.megapixels:g} MP", memory(arguments.megapixels))
    if arguments.folder:
        print_table(f"scores, {quality.backend()} against the PyPI package", accuracy(arguments.folder, arguments.side))


if __name__ == "__main__":
    main()
