"""Converts pictures and animations to WebP and AVIF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from imgproc_local.codecs import avif, webp
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import Source, open_source
from imgproc_local.codecs.quality.sample import TARGET_SCORE
from imgproc_local.codecs.working_copy import working_copy
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation, ScaledSize
from imgproc_local.domain.quality import Effort

CONVERTERS: dict[Format, Callable[[Source], bytes]] = {Format.WEBP: webp.converted, Format.AVIF: avif.converted}


def convert_file(
    path: Path,
    info: ImageInfo,
    new_format: Format,
    check_stop: Callable[[], None],
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
    effort: Effort = "balanced",
    size: ScaledSize | None = None,
) -> bytes:
    """The picture in `new_format`. The frames, delays and number of plays of an animation are preserved.

    With `size` (as displayed) the picture is scaled to that size. `target` is the SSIMULACRA 2.1 score that the
    result must reach, against the scaled picture; of an animation, some frames are scored together.
    Raises: BrokenImage; StageFailed, also for a picture that the format can't hold; and what `check_stop` raises.
    """
    row = FORMATS[new_format]
    with translate_errors(f"The picture can't be converted to {row.name}"):
        width_px, height_px = (size.width_px, size.height_px) if size else (info.width_px, info.height_px)
        if row.max_side_px and max(width_px, height_px) > row.max_side_px:
            raise StageFailed(
                f"{row.name} is written with at most {row.max_side_px:,} pixels on a side, but the picture has"
                f" {width_px:,} × {height_px:,}."
            )
        if info.frames > 1 and FORMATS[info.format].read_timing is None:
            raise StageFailed(
                f"An animated {FORMATS[info.format].name} can't be converted to {row.name}: expected a still picture,"
                " or an animated GIF, WebP or PNG."
            )
        with open_source(path, info, check_stop, target, keep_location, effort) as source:
            if size is None:
                return CONVERTERS[new_format](source)
            with working_copy(source, size) as copy:
                return CONVERTERS[new_format](copy)
