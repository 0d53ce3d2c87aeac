"""Measures the peak memory of each codec on a picture of 50 megapixels, each in a child process of its own.

`python -m tests.bench.codecs_memory [--megapixels 50]`. Linux and macOS.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.load import print_table, verdict

CHILD = """
import sys, time
from pathlib import Path
from imgproc_local.codecs.convert import convert_file
from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from tests.bench.peers_worker import peak_bytes
from imgproc_local.domain.image import Format
source = Path(sys.argv[2])
info = probe(source, 10**9)
if sys.argv[1] == "optimize":
    out = optimize_file(source, info, lambda: None)
else:
    out = convert_file(source, info, Format(sys.argv[1].removeprefix("to ")), lambda: None)
print(len(out) if out else source.stat().st_size, peak_bytes(), time.process_time())
"""
LIMITS_MB = {"optimize": 400.0, "to webp": None, "to avif": 900.0}
TIMEOUT_S = 600


def photo(path: Path, megapixels: float, quality: int) -> None:
    """Write a JPEG of that size with shapes, gradients and grain."""
    import pyvips

    height = int((megapixels * 1e6 / 1.5) ** 0.5)
    width = int(height * 1.5)
    grey = sum(
        pyvips.Image.perlin(width, height, cell_size=cell) * weight
        for cell, weight in ((1024, 60), (128, 40), (16, 20))
    )
    grain = pyvips.Image.gaussnoise(width, height, sigma=3, mean=0)
    bands = [grey * part + grain + shift for part, shift in ((0.9, 120), (0.8, 128), (0.6, 110))]
    picture = bands[0].bandjoin(bands[1:]).cast("uchar").copy(interpretation="srgb")
    picture.jpegsave(str(path), Q=quality)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megapixels", type=float, default=50)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for quality in (95, 75):
            source = Path(folder) / f"q{quality}.jpg"
            photo(source, arguments.megapixels, quality)
            for name, limit in LIMITS_MB.items():
                command = [sys.executable, "-c", CHILD, name, str(source)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
                size, peak, cpu_s = done.stdout.split()
                sizes = f"{source.stat().st_size:,} → {int(size):,} bytes"
                what = f"quality {quality}, {name}: {sizes}, {float(cpu_s):.1f} CPU s"
                peak_mb = int(peak) / 1e6
                rows.append((what, f"{peak_mb:.0f} MB", verdict(peak_mb, limit, "MB") if limit else ""))
    print_table(f"peak memory, {arguments.megapixels:g} megapixels", rows)


if __name__ == "__main__":
    main()
