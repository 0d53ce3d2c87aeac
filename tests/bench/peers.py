"""Compares this project's codecs with other encoders on this machine ("peers"): bytes, scores and CPU time for the
pictures in a folder. Prints a table per format; all tables are in one file, so that their rows can be compared.

`python -m tests.bench.peers FOLDER [--format jpeg png webp avif gif] [--target 85] [--effort best] [--limit N]
[--max-megapixels N] [--sharp DIR] [--cache DIR] [--each]`

Peers, each optional: sharp (with mozjpeg) through Node, Pillow, pngquant, jpegoptim, oxipng (the package `pyoxipng`),
cwebp, avifenc. For WebP and AVIF, the JPEGs and PNGs in the folder are converted. Folders named `bad` are left out.
Values at "equal score" are those of the peer at the score of our result, interpolated (bytes in their logarithm)
between the two quality settings whose scores are nearest. With `--cache` the results of peers are reused in later runs;
for figures to publish, measure both sides in one run without it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import ServiceError
from imgproc_local.domain.image import Format
from imgproc_local.domain.quality import Effort
from tests.bench.load import print_table, verdict
from tests.bench.peers_match import SEARCH_RANGES, Match, Sharp, p10, same_p10
from tests.bench.peers_measure import Encoding, Measure, Options, Picture, picture_at, readable, start_encoders

Row = tuple[str, str, str]
LOSSLESS_SCORE = 99.99
MAX_BELOW, MAX_ABOVE, MAX_SHORTFALL = 1.5, 2.0, 4.0
"""In points: how far below and above the target the score of a result may be, and how far below it the worst may be."""

PEERS: dict[str, tuple[tuple[str, str, Options], ...]] = {
    "jpeg": (
        ("sharp default, mozjpeg q80", "sharp", {"quality": 80, "mozjpeg": True}),
        ("Pillow q85", "pillow", {"quality": 85, "optimize": True}),
        (
            "jpegoptim, lossless",
            "jpegoptim",
            {"arguments": ["--quiet", "--all-progressive", "{copy}"]},
        ),
        (
            "jpegoptim -m85",
            "jpegoptim",
            {"arguments": ["--quiet", "--max=85", "--all-progressive", "{copy}"]},
        ),
    ),
    "png": (
        ("sharp palette", "sharp", {"palette": True, "effort": 10, "compressionLevel": 9}),
        ("Pillow optimize", "pillow", {"optimize": True}),
        ("pngquant", "pngquant", {"arguments": ["--force", "--output", "{result}", "--", "{source}"]}),
        ("oxipng level 2", "oxipng", {"level": 2}),
    ),
    "webp": (
        ("sharp default, q80", "sharp", {"quality": 80}),
        ("Pillow q80", "pillow", {"quality": 80}),
        (
            "cwebp q80",
            "cwebp",
            {"arguments": ["-quiet", "-metadata", "icc", "-q", "80", "{source}", "-o", "{result}"]},
        ),
    ),
    "avif": (
        ("Pillow default", "pillow", {"max_threads": 1}),
        ("avifenc default", "avifenc", {"arguments": ["--jobs", "1", "{source}", "{result}"]}),
    ),
    "gif": (("sharp default", "sharp", {}), ("Pillow optimize", "pillow", {"optimize": True})),
}

CONVERTED = {"webp": (Format.JPEG, Format.PNG), "avif": (Format.JPEG, Format.PNG)}
MAX_CONVERTED_CHECKED = 8
CONVERSION_LIMITS = {
    ("webp", False): (0.97, 4.0),
    ("webp", True): (0.94, 8.0),
    ("avif", False): (1.03, 0.5),
    ("avif", True): (0.97, 1.5),
}
"""The largest bytes and CPU time as multiples of sharp's, by format and by whether the effort is `best`."""


class Pair(Struct, frozen=True):
    picture: Picture
    ours: Encoding
    result: Path
    match: Match | None = None


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def verdict_at_least(value: float, bar: float, unit: str) -> str:
    return f"≥ {bar:g} {unit}: {'met' if value >= bar else 'MISSED'}"


def encode_with_ours(
    measure: Measure, pictures: Sequence[Picture], door: str, target: float, folder: Path
) -> list[Pair]:
    """This project's results for all pictures that are complete. The files are written to `folder`."""
    folder.mkdir()
    pairs = []
    for number, picture in enumerate(pictures):
        result = folder / str(number)
        done = measure.encode("ours", picture, door, {"target": target, "effort": measure.effort}, result)
        if done.error and not readable(picture):
            print(f"left out, damaged: {picture.name}: {done.error}")
            continue
        if done.error:
            print(f"ours, {picture.name}: {done.error}")
        pairs.append(Pair(picture, done, result))
    return pairs


def summary(pairs: Sequence[Pair], peers: Sequence[tuple[str, Sequence[Encoding]]]) -> None:
    """Print the table of a format. The bytes of a peer are compared on the pictures that both could encode."""
    rows = []
    for name, encodings in [("ours", [pair.ours for pair in pairs]), *peers]:
        both = [
            (mine.ours, theirs)
            for mine, theirs in zip(pairs, encodings, strict=True)
            if not mine.ours.error and not theirs.error
        ]
        if not both:
            rows.append([name, f"0/{len(pairs)}", *["–"] * 8])
            continue
        scores = [theirs.score for _, theirs in both]
        total = sum(theirs.size_bytes for _, theirs in both)
        rows.append(
            [
                name,
                f"{len(both)}/{len(pairs)}",
                f"{total:,}",
                f"{total / sum(mine.size_bytes for mine, _ in both):.3f}",
                f"{median(scores):.1f}",
                f"{p10(scores):.1f}",
                f"{min(scores):.1f}",
                f"{sum(theirs.cpu_s for _, theirs in both):.1f}",
                f"{median([theirs.cpu_s for _, theirs in both]):.2f}",
                f"{max(theirs.peak_bytes for _, theirs in both) / 1e6:.0f}",
            ]
        )
    head = ["", "done", "bytes", "× ours", "median", "p10", "min", "CPU s", "median", "peak MB"]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    print()
    for row in (head, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def with_sharp_matches(sharp: Sharp, measure: Measure, pairs: Sequence[Pair], format: str, target: float) -> list[Pair]:
    """The pairs, with the bytes and the CPU time that sharp needs for the same score.

    If our result is a lossless WebP, it is compared with the smaller one of sharp's lossless WebP and its lossy WebP at
    the target, because users of sharp could choose either. A losslessly optimized JPEG has no counterpart.
    """
    found = []
    for pair in pairs:
        if pair.ours.error:
            continue
        if pair.ours.score < LOSSLESS_SCORE:
            match = sharp.match(pair.picture, pair.ours.score)
        elif format == "webp":
            lossless = measure.peer("sharp", pair.picture, format, {"lossless": True})
            forms = [sharp.match(pair.picture, target)]
            if not lossless.error:
                forms.append(Match(lossless.size_bytes, lossless.cpu_s, 100))
            match = min((form for form in forms if form), key=lambda form: form.size_bytes, default=None)
        else:
            match = None
        found.append(replace(pair, match=match))
    return found


def equal_score_rows(
    pairs: Sequence[Pair], title: str, max_bytes_ratio: float, max_cpu_ratio: float, *, limit_total: bool
) -> list[Row]:
    """The rows that compare bytes and CPU time with sharp's at the same score. The median of the bytes has a limit.

    With `limit_total`, the total has the same limit. A picture is left out if sharp can't reach its score at any
    quality setting or if our result is lossless.
    """
    both = [(pair.ours, pair.match) for pair in pairs if pair.match]
    if not both:
        return [(f"{title}, at equal score", "no picture could be matched", "")]
    total = sum(ours.size_bytes for ours, _ in both) / sum(match.size_bytes for _, match in both)
    middle = median([ours.size_bytes / match.size_bytes for ours, match in both])
    cpu = sum(ours.cpu_s for ours, _ in both) / sum(match.cpu_s for _, match in both)
    cpu_middle = median([ours.cpu_s / match.cpu_s for ours, match in both])
    return [
        (
            f"{title}, at equal score: total bytes of {len(both)}/{len(pairs)}",
            f"{total:.3f} ×",
            verdict(total, max_bytes_ratio, "×") if limit_total else "",
        ),
        (f"{title}, at equal score: median of bytes", f"{middle:.3f} ×", verdict(middle, max_bytes_ratio, "×")),
        (f"{title}, CPU: total", f"{cpu:.2f} ×", verdict(cpu, max_cpu_ratio, "×")),
        (f"{title}, CPU: median", f"{cpu_middle:.2f} ×", ""),
    ]


def target_rows(pairs: Sequence[Pair], target: float) -> list[Row]:
    done = [pair.ours.score for pair in pairs if not pair.ours.error]
    lossy = [value for value in done if value < LOSSLESS_SCORE]
    if not lossy:
        return [("re-encoded pictures", f"none of {len(done)}", "")]
    near = 100 * sum(target - MAX_BELOW <= value <= target + MAX_ABOVE for value in lossy) / len(lossy)
    below, above = (
        sum(value < target - MAX_BELOW for value in lossy),
        sum(value > target + MAX_ABOVE for value in lossy),
    )
    return [
        (
            f"within −{MAX_BELOW}/+{MAX_ABOVE} of {target:g}, of {len(lossy)} re-encoded",
            f"{near:.0f} % ({below} below, {above} above)",
            verdict_at_least(near, 95, "%"),
        ),
        ("lowest score", f"{min(done):.1f}", verdict_at_least(min(done), target - MAX_SHORTFALL, "points")),
    ]


def integrity_rows(
    measure: Measure, pairs: Sequence[Pair], format: str, target: float, *, converted: bool
) -> list[Row]:
    """The rows on integrity: no result is larger than its source, all can be decoded, optimizing them changes nothing.

    Of converted pictures only the smallest ones are optimized again, because that takes long.
    """
    larger = [each for each in pairs if not each.ours.error and each.ours.size_bytes > each.picture.size_bytes]
    for pair in larger:
        print(f"larger than its input: {pair.picture.name}, {pair.picture.size_bytes:,} → {pair.ours.size_bytes:,}")
    broken = sum(bool(pair.ours.error) for pair in pairs)
    whole = [pair for pair in pairs if not pair.ours.error]
    if converted:
        whole = sorted(whole, key=lambda pair: pair.picture.info.pixels)[:MAX_CONVERTED_CHECKED]
    changed = 0
    for pair in whole:
        once, again = pair.result, pair.result.with_suffix(".again")
        if converted:
            once = optimized(measure, once, format, target, pair.result.with_suffix(".once"))
        if optimized(measure, once, format, target, again).read_bytes() != once.read_bytes():
            changed += 1
            print(f"changed by optimizing again: {pair.picture.name}")
    share = 100 * (len(whole) - changed) / len(whole) if whole else math.nan
    return [
        ("larger than the input", f"{len(larger)} of {len(pairs)}", verdict(len(larger), 0, "files")),
        ("failed or don't open in Pillow and libvips", f"{broken} of {len(pairs)}", verdict(broken, 0, "files")),
        (
            f"optimizing again gives the same bytes, of {len(whole)}",
            f"{share:.0f} %",
            verdict_at_least(share, 100, "%"),
        ),
    ]


def optimized(measure: Measure, source: Path, format: str, target: float, result: Path) -> Path:
    result.unlink(missing_ok=True)
    answer = measure.encoders["ours"].encode(source, result, format, {"target": target, "effort": measure.effort})
    if "error" in answer:
        print(f"optimizing again: {answer['error']}")
        result.write_bytes(b"")
    return result


def jpeg_rows(measure: Measure, pairs: list[Pair], peers: dict[str, list[Encoding]], target: float) -> list[Row]:
    """The rows of JPEG.

    Adds sharp at the same p10 score to `peers`, and sharp at the same score of each picture to `pairs`.
    """
    if "sharp" not in measure.encoders:
        return [("compared with sharp", "sharp is not installed", "")]
    everything = [pair.picture for pair in pairs]
    sharp = Sharp(measure, "jpeg")
    pairs[:] = [pair for pair in pairs if not pair.ours.error and not sharp.at(pair.picture, 80).error]
    pictures = [pair.picture for pair in pairs]
    wanted = p10([pair.ours.score for pair in pairs])
    fixed = same_p10(sharp, pictures, wanted)
    rows: list[Row] = []
    if fixed:
        name, total, nearest = fixed
        encodings = sharp.fixed(pictures, nearest)
        ratio = sum(pair.ours.size_bytes for pair in pairs) / total
        cpu = sum(pair.ours.cpu_s for pair in pairs) / sum(each.cpu_s for each in encodings)
        middle = median([pair.ours.cpu_s / each.cpu_s for pair, each in zip(pairs, encodings, strict=True)])
        rows += [
            (f"total bytes, sharp at {name} (p10 {wanted:.1f})", f"{ratio:.3f} ×", verdict(ratio, 0.64, "×")),
            ("CPU, one sharp encode: total", f"{cpu:.2f} ×", verdict(cpu, 1.5, "×")),
            ("CPU, one sharp encode: median", f"{middle:.2f} ×", ""),
        ]
        peers[f"sharp, mozjpeg q{nearest}"] = sharp.fixed(everything, nearest)
    else:
        best = p10([each.score for each in sharp.fixed(pictures, 100)])
        rows.append((f"total bytes, sharp at p10 {wanted:.1f}", f"sharp reaches {best:.1f} at most", ""))
    pairs[:] = with_sharp_matches(sharp, measure, pairs, "jpeg", target)
    return rows + equal_score_rows(pairs, "sharp", 0.95, 1.5, limit_total=False)


def png_rows(pairs: Sequence[Pair], peers: dict[str, list[Encoding]], target: float) -> list[Row]:
    """The rows of PNG, on the pictures in folders named `graphic`; on all pictures if there is no such folder."""
    chosen = [number for number, pair in enumerate(pairs) if "graphic" in pair.picture.path.parts] or range(len(pairs))
    ratios, cpu = [], []
    for number in chosen:
        ours = pairs[number].ours
        passing = [
            each.size_bytes
            for name in ("pngquant", "oxipng level 2")
            for each in peers.get(name, [])[number : number + 1]
            if not each.error and each.score >= target
        ]
        if passing and not ours.error:
            ratios.append(ours.size_bytes / min(passing))
            cpu.append(ours.cpu_s)
    if not ratios:
        return [("compared with pngquant or oxipng", "neither is installed", "")]
    here = " or ".join(name for name in ("pngquant", "oxipng level 2") if name in peers)
    return [
        (
            f"{len(ratios)} graphics, best of {here} that passes: median",
            f"{median(ratios):.3f} ×",
            verdict(median(ratios), 0.72, "×"),
        ),
        ("graphics, median CPU", f"{median(cpu):.2f} s", verdict(median(cpu), 1, "s")),
    ]


def conversion_rows(measure: Measure, pairs: list[Pair], format: str, target: float) -> list[Row]:
    if "sharp" not in measure.encoders:
        return [("compared with sharp", "sharp is not installed", "")]
    pairs[:] = with_sharp_matches(Sharp(measure, format), measure, pairs, format, target)
    max_bytes_ratio, max_cpu_ratio = CONVERSION_LIMITS[format, measure.effort == "best"]
    return equal_score_rows(pairs, "sharp", max_bytes_ratio, max_cpu_ratio, limit_total=True)


def print_each(pairs: Sequence[Pair]) -> None:
    """Print a row per picture: bytes of source and result, score, CPU time; sharp's bytes, quality and CPU time."""
    print(f"\n{'picture':44} {'MP':>5} {'input':>9} {'ours':>9} {'score':>6} {'CPU s':>6}   × sharp at quality, CPU s")
    for pair in pairs:
        picture, ours, match = pair.picture, pair.ours, pair.match
        against = f"{ours.size_bytes / match.size_bytes:9.3f} {match.quality:10.1f} {match.cpu_s:6.2f}" if match else ""
        print(
            f"{picture.name[:44]:44} {picture.info.pixels / 1e6:5.2f} {picture.size_bytes:9} {ours.size_bytes:9}"
            f" {ours.score:6.2f} {ours.cpu_s:6.2f}{' =' if ours.unchanged else '  '} {against} {ours.error or ''}"
        )


def run_format(
    measure: Measure, format: str, found: Sequence[Picture], target: float, folder: Path, each: bool
) -> None:
    sources = CONVERTED.get(format, (Format(format),))
    pictures = [item for item in found if item.info.format in sources and (item.info.frames == 1 or format == "gif")]
    if not pictures:
        print(f"\n{format}: no picture for it in the folder")
        return
    pairs = encode_with_ours(
        measure, pictures, f"to {format}" if format in CONVERTED else format, target, folder / format
    )
    pictures = [pair.picture for pair in pairs]
    peers = {
        name: [measure.peer(encoder, picture, format, options) for picture in pictures]
        for name, encoder, options in PEERS[format]
        if encoder in measure.encoders
    }
    rows: list[Row] = []
    compared = list(pairs)
    if format == "jpeg":
        rows += jpeg_rows(measure, compared, peers, target)
    if format == "png":
        rows += png_rows(pairs, peers, target)
    if format in CONVERTED:
        rows += conversion_rows(measure, compared, format, target)
    if format in SEARCH_RANGES:
        rows += target_rows(pairs, target)
    rows += integrity_rows(measure, pairs, format, target, converted=format in CONVERTED)
    summary(pairs, list(peers.items()))
    for name, encodings in peers.items() if each else ():
        for picture, encoding in zip(pictures, encodings, strict=True):
            if encoding.error:
                print(f"{name}, {picture.name}: {encoding.error}")
    print_table(f"{format}, target {target:g}, {len(pictures)} pictures", rows)
    if each:
        print_each(compared)


def run_native(measure: Measure, format: str, found: Sequence[Picture], target: float, folder: Path) -> None:
    """Measure optimizing the WebP and AVIF files in the folder, as opposed to converting to these formats."""
    pictures = [item for item in found if item.info.format == format]
    if not pictures:
        return
    pairs = encode_with_ours(measure, pictures, format, target, folder / f"{format} as found")
    rows = [] if any(item.info.frames > 1 for item in pictures) else target_rows(pairs, target)
    total = sum(pair.ours.size_bytes for pair in pairs) / sum(item.size_bytes for item in pictures)
    rows.append(("   bytes, × input", f"{total:.3f}", ""))
    rows += [(f"   score of {pair.picture.name}", f"{pair.ours.score:.1f}", "") for pair in pairs]
    rows += integrity_rows(measure, pairs, format, target, converted=False)
    print_table(f"{format} as found, {len(pictures)} pictures", rows)


def pictures_in(folder: Path, max_megapixels: float) -> list[Picture]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "bad" not in path.relative_to(folder).parts:
            try:
                picture = picture_at(path)
            except ServiceError as error:
                print(f"left out: {path.name}: {error.message}")
                continue
            if picture.info.pixels <= max_megapixels * 1e6:
                found.append(picture)
    return found


def limited(pictures: Sequence[Picture], limit: int) -> list[Picture]:
    """At most `limit` pictures of each format, evenly spread over those in the folder; all of them if `limit` is 0."""
    kept: list[Picture] = []
    for each in Format:
        of_format = [picture for picture in pictures if picture.info.format is each]
        kept += of_format[:: max(1, math.ceil(len(of_format) / limit))] if limit else of_format
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--target", type=float, default=85.0, help="target score")
    parser.add_argument(
        "--effort", choices=get_args(Effort), default="balanced", help="effort of this project's codecs"
    )
    parser.add_argument("--limit", type=int, default=0, help="pictures per format, spread over the folder")
    parser.add_argument(
        "--max-megapixels", type=float, default=1000, help="leave out pictures with more pixels in all frames"
    )
    parser.add_argument("--sharp", type=Path, default=Path(), help="folder with sharp in its node_modules")
    parser.add_argument("--cache", type=Path, help="folder in which results of peers are stored for later runs")
    parser.add_argument("--each", action="store_true", help="also print a line per picture")
    arguments = parser.parse_args()
    found = limited(pictures_in(arguments.folder, arguments.max_megapixels), arguments.limit)
    encoders, missing = start_encoders(arguments.sharp)
    print("Installed: " + "; ".join(encoder.version for encoder in encoders.values()))
    print("Not installed: " + (", ".join(missing) or "none"))
    try:
        with tempfile.TemporaryDirectory() as name:
            measure = Measure(encoders, Path(name), arguments.cache, arguments.effort)
            for each in arguments.format:
                try:
                    run_format(measure, each, found, arguments.target, Path(name), arguments.each)
                    if each in CONVERTED:
                        run_native(measure, each, found, arguments.target, Path(name))
                finally:
                    measure.save_cache()
    finally:
        for encoder in encoders.values():
            encoder.close()


if __name__ == "__main__":
    main()
