"""Compares this project's files with those of sharp (with mozjpeg) at the same score: bytes and CPU time.

    npm install --prefix SHARP sharp
    python -m tests.bench.peers FOLDER --sharp SHARP [--format jpeg webp avif] [--effort best] [--limit N]

JPEGs in the folder are optimized; JPEGs and PNGs are converted to WebP and AVIF. sharp's quality is searched for each
picture until two neighbouring settings enclose the score of our result. Its bytes are interpolated between them, in
their logarithm. A picture is left out if sharp does not reach the score or if our result is lossless.
"""

from __future__ import annotations

import argparse
import json
import math
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
from tests.bench.load import print_table
from tests.gate import Shown
from tests.support.reading import convert_file, optimize_file, probe

MAX_PIXELS = 1_000_000_000
LOSSLESS_SCORE = 99.99
SOURCES = {
    Format.JPEG: (".jpg", ".jpeg"),
    Format.WEBP: (".jpg", ".jpeg", ".png"),
    Format.AVIF: (".jpg", ".jpeg", ".png"),
}
SHARP_OPTIONS: dict[Format, dict[str, Any]] = {Format.JPEG: {"mozjpeg": True}, Format.AVIF: {"effort": 4}}


class Encoded(Struct):
    """A result: its bytes, its score against the source, and the CPU seconds that it took."""

    size_bytes: float
    score: float
    cpu_s: float


class Sharp:
    """sharp in a child process, in one thread."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self._process, self._result = process, scratch / "result"

    def encode(self, source: Path, format: Format, quality: int) -> tuple[bytes, float]:
        """The file and its CPU seconds."""
        options = {**SHARP_OPTIONS.get(format, {}), "quality": quality}
        task = {"source": str(source), "result": str(self._result), "format": format.value, "options": options}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise SystemExit(f"sharp, {source.name}: {answer['error']}")
        return self._result.read_bytes(), answer["cpu_s"]

    def at_score(self, source: Path, format: Format, original: Shown, wanted: float) -> Encoded | None:
        """What sharp needs for the score; None if it does not reach it at any quality."""

        def at(quality: int) -> Encoded:
            data, cpu_s = self.encode(source, format, quality)
            return Encoded(len(data), original.score(Shown(data)) or -100.0, cpu_s)

        low, high = 1, 100
        below, above = at(low), at(high)
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
            assert process.stdout is not None
            print(process.stdout.readline().strip() or "sharp does not start")
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


def compare(sharp: Sharp, sources: list[Path], format: Format, options: ResultOptions) -> None:
    pairs = []
    for source in sources:
        try:
            original = Shown(source.read_bytes())
            mine = ours(source, format, original, options)
        except ServiceError as error:
            print(f"left out: {source.name}: {error.message}")
            continue
        if mine and mine.score < LOSSLESS_SCORE and (theirs := sharp.at_score(source, format, original, mine.score)):
            pairs.append((mine, theirs))
            print(f"{source.name}: score {mine.score}, {mine.size_bytes} and {theirs.size_bytes:.0f} bytes", flush=True)
    rows = [("pictures", f"{len(pairs)} of {len(sources)}", "")]
    for name in ("size_bytes", "cpu_s") if pairs else ():
        values = [(getattr(mine, name), getattr(theirs, name)) for mine, theirs in pairs]
        total = sum(mine for mine, _ in values) / sum(theirs for _, theirs in values)
        middle = statistics.median(mine / theirs for mine, theirs in values)
        rows.append((f"{name} relative to sharp: total, median", f"{total:.3f}, {middle:.3f}", ""))
    print_table(f"{format.value}, {options.effort}, at equal score", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sharp", type=Path, required=True, help="the folder that has node_modules")
    parser.add_argument("--format", nargs="+", type=Format, choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--effort", choices=get_args(Effort), default="balanced")
    parser.add_argument("--limit", type=int, help="only the first pictures of each format")
    arguments = parser.parse_args()
    with started_sharp(arguments.sharp) as sharp:
        for wanted in arguments.format:
            files = sorted(file for file in arguments.folder.rglob("*") if file.suffix.lower() in SOURCES[wanted])
            compare(sharp, files[: arguments.limit], wanted, ResultOptions(effort=arguments.effort))


if __name__ == "__main__":
    main()
