"""JPEG made smaller: mozjpeg's trellis at the lowest quality that still looks the same, else the same scans without
ballast.

Which quality that is differs from picture to picture, from 40 to 95, and is searched for each. Re-encoding costs
quality each time, so it must earn its place: it is dropped where it saves less than `WORTH_IT`, and a file whose
quantisation tables are those written here has had its turn. An output therefore comes back as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyvips
from msgspec import structs

from imgproc_local.codecs import metadata
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.decode import CheckStop, finish, open_upright, to_srgb, whole_or_error
from imgproc_local.codecs.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.search import TARGET_SCORE, Sample, lowest_quality
from imgproc_local.domain.image import Format, ImageInfo

WORTH_IT = 0.95
LOWEST, HIGHEST = 30, 97
USUAL = 82
LARGE_FROM_PIXELS = 24_000_000
"""From here on the decoded picture is not held in memory while its result is encoded."""

_PROBE = {
    "trellis_quant": True,
    "overshoot_deringing": True,
    "optimize_coding": True,
    "quant_table": 2,
    "keep": "none",
}
"""mozjpeg's table for MS-SSIM: fewest bytes at equal score here, and rare elsewhere, so that it tells our own files."""

_MOZJPEG = {**_PROBE, "optimize_scans": True, "interlace": True}


@at_border("The JPEG can't be optimised")
def optimize(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """A smaller JPEG, None where nothing smaller came out.

    Pixels are turned upright; where they stay untouched the orientation stays as a tag. A gain map (Ultra HDR) stays,
    and with it the pixels. CMYK becomes sRGB through its profile.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = metadata.read_blocks(data, Format.JPEG)
        gain_map = container.gain_map_offset(data)
        if gain_map is not None:
            clean = metadata.cleaned(
                data,
                blocks,
                Format.JPEG,
                lambda new, _: container.with_blocks_and_gain_map(data, new, gain_map),
                orientation=info.orientation,
                gain_map=True,
            )
            _decode_through(path, info, check_stop)
            return clean if len(clean) < len(data) else None
        clean = metadata.cleaned(
            data,
            blocks,
            Format.JPEG,
            lambda new, _: container.with_blocks(data, new),
            orientation=info.orientation,
        )
        if container.luma_quantization(data) in _our_tables() and container.components(data) < 4:
            _decode_through(path, info, check_stop)
            best = clean
        else:
            encoded = whole_or_error(path, info, lambda fail_on: _encode(path, info, blocks, check_stop, fail_on))
            best = encoded if len(encoded) <= WORTH_IT * len(clean) else clean
        return best if len(best) < len(data) else None


def _encode(path: Path, info: ImageInfo, blocks: Blocks, check_stop: CheckStop, fail_on: str) -> bytes:
    image, profile = _opened(path, info, blocks, fail_on)
    image = finish(image, check_stop, "copy_memory")
    options = _smallest_that_looks_the_same(image, check_stop)
    if info.pixels >= LARGE_FROM_PIXELS:
        image, _ = _opened(path, info, blocks, fail_on)
    encoded = finish(image, check_stop, "jpegsave_buffer", **_MOZJPEG, **options)
    kept = metadata.kept(blocks, Format.JPEG, Format.JPEG)
    return container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, kept.iptc, profile))


def _opened(path: Path, info: ImageInfo, blocks: Blocks, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = open_upright(path, info, fail_on=fail_on)
    return (to_srgb(image), None) if image.interpretation == "cmyk" else (image, kept_profile(blocks.icc))


def _smallest_that_looks_the_same(image: pyvips.Image, check_stop: CheckStop) -> dict[str, Any]:
    """Quality and chroma subsampling: 4:2:0 where it reaches the target, 4:4:4 where only that does."""
    sample = Sample(image)

    def lowest(subsample_mode: str, start: int) -> int | None:
        def scored(quality: int) -> float:
            options = {"Q": quality, "subsample_mode": subsample_mode, **_PROBE}
            probe = finish(sample.image, check_stop, "jpegsave_buffer", **options)
            return sample.score(pyvips.Image.jpegload_buffer(probe))

        return lowest_quality(scored, TARGET_SCORE, lowest=LOWEST, highest=HIGHEST, start=start)

    quality = lowest("on", USUAL)
    if quality is not None:
        return {"Q": quality, "subsample_mode": "on"}
    return {"Q": lowest("off", USUAL) or HIGHEST, "subsample_mode": "off"}


def _decode_through(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Reads the picture to its end: what goes out untouched must be whole, too."""
    unturned = structs.replace(info, orientation=1)
    shrink = 8 if min(info.width_px, info.height_px) >= 8 else 1
    whole_or_error(
        path,
        info,
        lambda fail_on: finish(open_upright(path, unturned, shrink=shrink, fail_on=fail_on), check_stop, "avg"),
    )


@cache
def _our_tables() -> frozenset[tuple[int, ...]]:
    """The luma tables that this module writes, one for each quality."""
    tiny = pyvips.Image.black(8, 8)
    return frozenset(
        container.luma_quantization(tiny.jpegsave_buffer(Q=quality, quant_table=2, keep="none"))
        for quality in range(LOWEST, HIGHEST + 1)
    )
