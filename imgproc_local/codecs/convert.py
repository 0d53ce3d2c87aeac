"""Converts pictures and animations to WebP and AVIF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from imgproc_local.codecs import avif, webp
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS, require_writable
from imgproc_local.codecs.picture.source import DEFAULT_OPTIONS, Picture, ResultOptions, Source, open_source
from imgproc_local.codecs.working_copy import working_copy
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ScaledSize

CONVERTERS: dict[Format, Callable[[Source], bytes]] = {Format.WEBP: webp.converted, Format.AVIF: avif.converted}


def convert_file(
    path: Path,
    picture: Picture,
    new_format: Format,
    check_stop: CheckStop,
    options: ResultOptions = DEFAULT_OPTIONS,
    size: ScaledSize | None = None,
) -> bytes:
    """The picture in `new_format`. The frames, delays and number of plays of an animation are preserved.

    With `size` (as displayed) the picture is scaled to that size, and the score is measured against the scaled picture.
    Of an animation, some frames are scored together.
    Raises: BrokenImage; StageFailed, also for a picture that the format can't hold; and what `check_stop` raises.
    """
    info, name = picture.info, FORMATS[new_format].name
    with translate_errors(f"The picture can't be converted to {name}"):
        width_px, height_px = (size.width_px, size.height_px) if size else info.display_size_px
        require_writable(new_format, width_px, height_px)
        if info.frames > 1 and FORMATS[info.format].read_timing is None:
            raise StageFailed(
                f"An animated {FORMATS[info.format].name} can't be converted to {name}: expected a still picture,"
                " or an animated GIF, WebP or PNG."
            )
        with open_source(path, picture, check_stop, options) as source:
            if size is None and info.format not in READ_ONLY_FORMATS:
                return CONVERTERS[new_format](source)
            with working_copy(source, size, eight_bit=new_format is Format.WEBP) as copy:
                return CONVERTERS[new_format](copy)
