"""CPU time, bytes and score of a set of widths in one conversion, against one conversion for each width.

    python -m tests.bench.widths FOLDER

For the pictures of a folder, in WebP and AVIF: the picture at most as wide as the largest width, and at the others.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from imgproc_local.codecs.files import convert_file
from imgproc_local.codecs.picture.source import score_of
from imgproc_local.domain.image import Format, ScaledSize
from tests.support.reading import picture

WIDTHS = (1600, 960, 480)


def measured(path: Path, new_format: Format, size: ScaledSize, others: list[ScaledSize]) -> tuple[float, list[bytes]]:
    """The CPU seconds, and the files."""
    began_s, read = time.process_time(), picture(path)
    made = convert_file(path, read, new_format, lambda: None, size=size, variant_sizes=others)
    return time.process_time() - began_s, [made.data, *made.variants]


def main(folder: Path) -> None:
    for new_format in (Format.WEBP, Format.AVIF):
        print("CPU s, bytes and lowest score by single conversions; CPU s, bytes and lowest score in one;", new_format)
        totals_s = [0.0, 0.0]
        for path in sorted(folder.iterdir()):
            sizes = [size for width in WIDTHS if (size := picture(path).info.scaled_within(width, None))]
            alone = [measured(path, new_format, size, []) for size in sizes]
            single_s, single = sum(each_s for each_s, _ in alone), [files[0] for _, files in alone]
            one_s, one = measured(path, new_format, sizes[0], sizes[1:])
            totals_s = [totals_s[0] + single_s, totals_s[1] + one_s]
            shown = [(sum(map(len, files)), min(score_of(file) or 100.0 for file in files)) for files in (single, one)]
            (before, low), (after, low_now) = shown
            print(f"{path.name:40} {single_s:6.2f} {before:8} {low:5.1f} {one_s:6.2f} {after:8} {low_now:5.1f}")
        print(f"all: {totals_s[1] / totals_s[0]:.2f} of the CPU time")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
