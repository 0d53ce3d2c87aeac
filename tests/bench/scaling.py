"""Compares how results are scaled down with libvips' `thumbnail`, by SSIMULACRA 2.1, per format and size.

Scaling and encoding are separated: "scaled" is the working copy, which is lossless, and "result" the encoded file. The
working copy is compared with `thumbnail` twice: with that of the decoded picture, which is the same scaling, and with
that of the file, where libvips lets the decoders of JPEG and WebP scale by powers of two before it scales the rest. To
tell which of two pictures that differ is the better one, both are compared with Pillow's Lanczos of the whole decoded
picture, which shares no code with libvips. "Decoded" CMYK is converted to RGB as in results: without a profile as
browsers do, and through a profile with the perceptual intent; `thumbnail` of the file uses libvips' own press profile,
and the relative colorimetric intent.

`python -m tests.bench.scaling [PICTURE …] [--sides 200 400 1000 2000]`, by default with the sample picture, from which
all formats are made; the lowest score of all pictures counts. Exits with 1 if a working copy scores less than 90
against `thumbnail` of the decoded picture.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyvips
from PIL import Image

from imgproc_local.codecs.optimize import encode_file
from imgproc_local.codecs.picture.decode import open_upright, to_srgb
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.codecs.picture.source import DEFAULT_OPTIONS, ResultOptions, open_source
from imgproc_local.codecs.quality.sample import WHOLE, Sample
from imgproc_local.codecs.working_copy import working_copy
from imgproc_local.domain.image import ImageInfo, ScaledSize
from tests.faults.server_process import ROOT

SAMPLE = ROOT / "tests" / "sample" / "IMG_4711.jpg"
SIDES_PX = (200, 400, 1000, 2000)
MIN_SCORE = 90
MAX_BYTES = 10**9
HEAD = (
    "format", "side", "scaled and thumbnail of decoded", "scaled and thumbnail of file", "Pillow and scaled",
    "Pillow and thumbnail of file", "scaled and result",
)  # fmt: skip


def _saved(picture: Image.Image, file_format: str, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, file_format, **options)
    return out.getvalue()


def _with_press_profile(picture: Image.Image) -> bytes:
    """A CMYK JPEG with libvips' profile, converted through it."""
    image = pyvips.Image.new_from_array(np.asarray(picture), interpretation="srgb")
    return bytes(image.icc_export(output_profile="cmyk", depth=8).jpegsave_buffer(Q=95))


def _with_alpha(picture: Image.Image) -> Image.Image:
    ramp = Image.linear_gradient("L").resize(picture.size)
    picture = picture.copy()
    picture.putalpha(ramp.point(lambda value: max(value, 64)))
    return picture


FORMATS: dict[str, Callable[[Image.Image], bytes]] = {
    "JPEG": lambda picture: _saved(picture, "JPEG", quality=92),
    "grey JPEG": lambda picture: _saved(picture.convert("L"), "JPEG", quality=92),
    "CMYK JPEG": lambda picture: _saved(picture.convert("CMYK"), "JPEG", quality=95),
    "CMYK JPEG, profile": _with_press_profile,
    "PNG": lambda picture: _saved(picture, "PNG", compress_level=1),
    "PNG with alpha": lambda picture: _saved(_with_alpha(picture), "PNG", compress_level=1),
    "WebP": lambda picture: _saved(picture, "WEBP", quality=90, method=0),
    "lossless WebP": lambda picture: _saved(picture, "WEBP", lossless=True, quality=0, method=0),
    "AVIF": lambda picture: _saved(picture, "AVIF", quality=90, speed=10),
    "GIF": lambda picture: _saved(picture.quantize(256), "GIF"),
    "TIFF": lambda picture: _saved(picture, "TIFF"),
}


def _in_memory(image: pyvips.Image) -> pyvips.Image:
    return to_srgb(image).copy_memory()


def _score(expected: pyvips.Image, other: pyvips.Image) -> float:
    return Sample(expected, WHOLE).score(other)


def _by_pillow(decoded: pyvips.Image, size: ScaledSize) -> pyvips.Image:
    picture = Image.fromarray(decoded.numpy()).resize((size.width_px, size.height_px), Image.Resampling.LANCZOS)
    return pyvips.Image.new_from_array(np.asarray(picture), interpretation="b-w" if decoded.bands == 1 else "srgb")


def compare(path: Path, info: ImageInfo, side_px: int) -> list[float]:
    """The scores in the order of `HEAD`."""
    size = info.scaled_within(side_px, side_px)
    if size is None:
        raise SystemExit(f"Expected a picture that is larger than {side_px} pixels, received {info.display_size_px}.")
    with (
        open_source(path, info, lambda: None, DEFAULT_OPTIONS) as source,
        working_copy(source, size) as copy,
    ):
        ours = _in_memory(open_upright(copy.path, copy.info))
    stored = open_upright(path, info)
    stored = (to_srgb(stored) if stored.interpretation == "cmyk" else stored).copy_memory()
    limits = {"height": size.height_px, "size": "force"}
    of_decoded = _in_memory(stored.thumbnail_image(size.width_px, **limits))
    of_file = _in_memory(pyvips.Image.thumbnail(str(path), size.width_px, **limits))
    by_pillow = _by_pillow(_in_memory(stored), size)
    result, _ = encode_file(path, info, lambda: None, ResultOptions(effort="fast"), size)
    encoded = path.with_name("result")
    encoded.write_bytes(result)
    shown = _in_memory(open_upright(encoded, probe(encoded, MAX_BYTES)))
    return [
        _score(of_decoded, ours),
        _score(of_file, ours),
        _score(by_pillow, ours),
        _score(by_pillow, of_file),
        _score(ours, shown),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, nargs="*", default=[SAMPLE])
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES_PX)
    arguments = parser.parse_args()
    lowest: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for picture_path in arguments.pictures:
            picture = Image.open(picture_path).convert("RGB")
            for name, make in FORMATS.items():
                path = Path(folder) / "picture"
                path.write_bytes(make(picture))
                info = probe(path, MAX_BYTES)
                for side_px in arguments.sides:
                    scores = compare(path, info, side_px)
                    key = (name, side_px)
                    lowest[key] = [*map(min, lowest.get(key, scores), scores)]
                    print(name, side_px, *(f"{score:.1f}" for score in scores), file=sys.stderr, flush=True)
    rows = [(name, f"{side_px}", *(f"{score:.1f}" for score in scores)) for (name, side_px), scores in lowest.items()]
    for row in (HEAD, ("---",) * len(HEAD), *rows):
        print("| " + " | ".join(row) + " |")
    sys.exit(any(scores[0] < MIN_SCORE for scores in lowest.values()))


if __name__ == "__main__":
    main()
