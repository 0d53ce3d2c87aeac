"""The working copy of a picture: upright, scaled, and in a format from which every encoder here works.

A result that is scaled down has other pixels than its file, so that nothing of the file's picture data can be copied.
Its pixels are stored without loss in a temporary file, which the encoders then read as they read originals: the
quality of results is measured against the scaled picture, and memory does not hold the large one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import png, webp
from imgproc_local.codecs.picture.decode import decode_complete, evaluate, open_upright, to_srgb
from imgproc_local.codecs.picture.probe import opened
from imgproc_local.codecs.picture.scale import scaled
from imgproc_local.codecs.picture.source import Source
from imgproc_local.domain.image import Format, ImageInfo, ScaledSize

_PNG_OPTIONS = {"compression": 1, "filter": "sub", "keep": "icc"}
"""Fast, but small enough to tell graphics from photographs by the size of the file."""


@contextmanager
def working_copy(source: Source, size: ScaledSize) -> Iterator[Source]:
    """`source` with its picture scaled to `size` (as displayed): a PNG, or a lossless WebP of an animation.

    CMYK is converted to sRGB, and has no profile then. Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    with tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        file = Path(folder) / "picture"
        if source.info.frames > 1:
            info, has_profile = _write_animation(source, size, file), True
        else:
            info, has_profile = _write_still(source, size, file)
        icc, published_icc = (source.blocks.icc, source.published.icc) if has_profile else (None, None)
        with opened(file) as data:
            yield structs.replace(
                source,
                path=file,
                info=info,
                data=data,
                blocks=structs.replace(source.blocks, icc=icc),
                published=structs.replace(source.published, icc=published_icc),
            )


def _write_still(source: Source, size: ScaledSize, file: Path) -> tuple[ImageInfo, bool]:
    """Write the scaled picture as PNG; its properties, and whether the original's profile is for its colours."""
    info = source.info

    def write(fail_on: str) -> tuple[ImageInfo, bool]:
        image = open_upright(source.path, info, fail_on=fail_on)
        is_cmyk = image.interpretation == "cmyk"
        image = scaled(to_srgb(image) if is_cmyk else image, size)
        evaluate(image, source.check_stop, "pngsave", os.fspath(file), **_PNG_OPTIONS)
        bits = info.bits_per_sample if image.format == "ushort" else 8
        return ImageInfo(
            Format.PNG, size.width_px, size.height_px, has_alpha=image.hasalpha(), bits_per_sample=bits
        ), not is_cmyk

    written = decode_complete(source.path, info, write)
    if info.format is Format.PNG and png.has_own_colours(source.data):
        file.write_bytes(png.with_colours_of(file.read_bytes(), source.data))
    return written


def _write_animation(source: Source, size: ScaledSize, file: Path) -> ImageInfo:
    """Write the scaled frames as lossless WebP; their properties."""
    frames = animation.scaled_frames(source.path, source.info, size, source.check_stop)
    encoded = evaluate(frames, source.check_stop, "webpsave_buffer", lossless=True, effort=1, keep="none")
    delays, has_alpha = frames.get("delay"), frames.hasalpha()
    file.write_bytes(webp.with_merged_frames_restored(encoded, delays, has_alpha=has_alpha))
    return structs.replace(
        source.info,
        format=Format.WEBP,
        width_px=size.width_px,
        height_px=size.height_px,
        orientation=1,
        has_alpha=has_alpha,
        bits_per_sample=8,
    )
