"""Compares this project's files with those of sharp (with mozjpeg) at the same score: bytes and CPU time.

    npm install --prefix SHARP sharp@0.35.5
    python -m tests.bench.peers FOLDER… --sharp SHARP [--format jpeg webp avif png] [--effort balanced] [--limit N]

JPEGs and PNGs in the folders are optimized, and both are converted to WebP and AVIF, with each effort. sharp's quality
is searched for each picture until two neighbouring settings enclose the score of our result. Its bytes are interpolated
between them, in their logarithm. Our lossless results are compared with sharp's lossless ones, and so are PNGs whose
score sharp's palette does not reach. Other pictures of which either side has no such result are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Effort
from tests.gate import Shown
from tests.support.reading import convert_file, optimize_file, probe

MAX_PIXELS = 1_000_000_000
LOSSLESS_SCORE = 99.99
SOURCES = {
    Format.JPEG: (".jpg", ".jpeg"),
    Format.WEBP: (".jpg", ".jpeg", ".png"),
    Format.AVIF: (".jpg", ".jpeg", ".png"),
    Format.PNG: (".png",),
}
SHARP_OPTIONS: dict[Format, dict[str, Any]] = {Format.JPEG: {"mozjpeg": True}, Format.PNG: {"palette": True}}
SHARP_LOSSLESS: dict[Format, dict[str, Any]] = {
    Format.WEBP: {"lossless": True},
    Format.PNG: {"compressionLevel": 9, "adaptiveFiltering": True},
}
HEADINGS = ("format, effort", "pictures", "median", "total", "worst", "score", "CPU median", "CPU total", "of source")


class Encoded(Struct):
    """A result: its bytes, its score against the source, and the CPU seconds that it took."""

    size_bytes: float
    score: float
    cpu_s: float


class Sharp:
    """sharp in a child process, in one thread. What it encoded is remembered, because every effort asks for it."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self._process, self._result = process, scratch / "result"
        self._known: dict[str, Encoded] = {}
        assert process.stdout is not None
        self.version = process.stdout.readline().strip() or "sharp does not start"

    def encode(self, source: Path, format: Format, original: Shown, **options: Any) -> Encoded:
        task = {"source": str(source), "result": str(self._result), "format": format.value, "options": options}
        line = json.dumps(task)
        if line not in self._known:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
            if "error" in answer:
                raise SystemExit(f"sharp, {source.name}: {answer['error']}")
            data = self._result.read_bytes()
            self._known[line] = Encoded(len(data), original.score(Shown(data)) or -100.0, answer["cpu_s"])
        return self._known[line]

    def at_score(self, source: Path, format: Format, original: Shown, wanted: float) -> Encoded | None:
        """What sharp needs for the score; None if it does not reach it at any quality."""

        def at(quality: int) -> Encoded:
            return self.encode(source, format, original, **SHARP_OPTIONS.get(format, {}), quality=quality)

        low, high = 1, 100
        below, above = at(low), at(high)
        if wanted >= LOSSLESS_SCORE or (format is Format.PNG and above.score < wanted):
            lossless = SHARP_LOSSLESS.get(format)
            return self.encode(source, format, original, **lossless) if lossless else None
        if not below.score <= wanted <= above.score:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            tried = at(middle)
            if tried.score <= wanted:
                low, below = middle, tried
            else:
                high, above = middle, tried
        part = (wanted - below.score) / ((above.score - below.score) or 1)
        size = math.exp((1 - part) * math.log(below.size_bytes) + part * math.log(above.size_bytes))
        return Encoded(size, wanted, (1 - part) * below.cpu_s + part * above.cpu_s)


@contextmanager
def started_sharp(folder: Path) -> Iterator[Sharp]:
    script = Path(__file__).with_name("peers_sharp.mjs")
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(["node", script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            yield Sharp(process, Path(scratch))
        finally:
            process.kill()


def ours(source: Path, format: Format, original: Shown, options: ResultOptions) -> Encoded | None:
    """This project's result; None if the original is returned."""
    info = probe(source, MAX_PIXELS)
    begun_s = time.process_time()
    if format is info.format:
        data = optimize_file(source, info, lambda: None, options)
    else:
        data = convert_file(source, info, format, lambda: None, options)
    cpu_s = time.process_time() - begun_s
    return None if data is None else Encoded(len(data), original.score(Shown(data)) or -100.0, cpu_s)


def compared(sharp: Sharp, sources: list[Path], format: Format, options: ResultOptions) -> tuple[str, ...]:
    """The row of the table for one format and effort."""
    pairs, source_bytes = [], 0
    for source in sources:
        try:
            original = Shown(source.read_bytes())
            mine = ours(source, format, original, options)
        except ServiceError as error:
            print(f"left out: {source.name}: {error.message}")
            continue
        if mine and (theirs := sharp.at_score(source, format, original, mine.score)):
            pairs.append((mine, theirs))
            source_bytes += source.stat().st_size
            print(
                f"{format.value}, {options.effort}, {source.name}: score {mine.score}, {mine.size_bytes} and"
                f" {theirs.size_bytes:.0f} bytes: {mine.size_bytes / theirs.size_bytes:.3f}",
                flush=True,
            )
    head = (f"{format.value}, {options.effort}", f"{len(pairs)} of {len(sources)}")
    if not pairs:
        return head
    sizes, times = relative(pairs, "size_bytes"), relative(pairs, "cpu_s")
    score = statistics.fmean(mine.score for mine, _ in pairs)
    share = sum(mine.size_bytes for mine, _ in pairs) / source_bytes
    return (
        *head,
        *(f"{value:.3f}" for value in sizes),
        f"{score:.1f}",
        *(f"{value:.2f}" for value in times[:2]),
        f"{share:.3f}",
    )


def relative(pairs: list[tuple[Encoded, Encoded]], field: str) -> tuple[float, float, float]:
    """Median, total and worst of our values relative to sharp's."""
    values = [(getattr(mine, field), getattr(theirs, field)) for mine, theirs in pairs]
    ratios = [mine / max(theirs, 1e-6) for mine, theirs in values]
    return statistics.median(ratios), sum(mine for mine, _ in values) / sum(theirs for _, theirs in values), max(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--sharp", type=Path, required=True, help="the folder that has node_modules")
    parser.add_argument("--format", nargs="+", type=Format, choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--effort", nargs="+", choices=get_args(Effort), default=get_args(Effort))
    parser.add_argument("--limit", type=int, help="only the first pictures of each format")
    arguments = parser.parse_args()
    files = sorted(file for folder in arguments.folders for file in folder.rglob("*"))
    with started_sharp(arguments.sharp) as sharp:
        rows = [HEADINGS, ("---",) * len(HEADINGS)]
        for wanted in arguments.format:
            sources = [file for file in files if file.suffix.lower() in SOURCES[wanted]][: arguments.limit]
            for effort in arguments.effort:
                rows.append(compared(sharp, sources, wanted, ResultOptions(effort=effort)))
        print(
            f"\n{sharp.version}. Bytes and CPU time relative to sharp at equal score; load {os.getloadavg()[0]:.1f}\n"
        )
        for row in rows:
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
