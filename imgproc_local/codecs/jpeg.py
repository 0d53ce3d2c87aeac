"""JPEG made smaller: mozjpeg's trellis at a fixed quality where that pays, else the same scans without ballast.

Re-encoding costs quality each time, so it must earn its place: it is skipped where the file is already stored as
coarsely as it would be here, and dropped where it saves less than `WORTH_IT`. An output therefore comes back as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyvips
from msgspec import structs

from imgproc_local.codecs import metadata
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.decode import CheckStop, finish, open_upright, to_srgb, whole_or_error
from imgproc_local.codecs.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.domain.image import Format, ImageInfo

QUALITY = 83
WORTH_IT = 0.95
_MOZJPEG = {
    "trellis_quant": True,
    "overshoot_deringing": True,
    "optimize_scans": True,
    "optimize_coding": True,
    "interlace": True,
    "quant_table": 3,
    "keep": "none",
}


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
        if container.quantization_mean(data) >= _our_quantization_mean() * 0.98 and container.components(data) < 4:
            _decode_through(path, info, check_stop)
            best = clean
        else:
            encoded = whole_or_error(path, info, lambda fail_on: _encode(path, info, blocks, check_stop, fail_on))
            best = encoded if len(encoded) <= WORTH_IT * len(clean) else clean
        return best if len(best) < len(data) else None


def _encode(path: Path, info: ImageInfo, blocks: Blocks, check_stop: CheckStop, fail_on: str) -> bytes:
    image = open_upright(path, info, fail_on=fail_on)
    profile = kept_profile(blocks.icc)
    if image.interpretation == "cmyk":
        image, profile = to_srgb(image), None
    encoded = finish(image, check_stop, "jpegsave_buffer", Q=QUALITY, **_MOZJPEG)
    kept = metadata.kept(blocks, Format.JPEG, Format.JPEG)
    return container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, kept.iptc, profile))


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
def _our_quantization_mean() -> float:
    sample: Data = (
        pyvips.Image.black(16, 16, bands=3).copy(interpretation="srgb").jpegsave_buffer(Q=QUALITY, **_MOZJPEG)
    )
    return container.quantization_mean(sample)
