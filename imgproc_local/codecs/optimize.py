"""Optimises files: the result is a smaller file of the same format, with the same frames and appearance.

The steps are the same for every format: the metadata is cleaned, the format's module supplies candidates, and the
smallest candidate is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from imgproc_local.codecs import avif, gif, webp
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import Source, open_source
from imgproc_local.codecs.png import optimize as png
from imgproc_local.codecs.quality.sample import TARGET_SCORE
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation
from imgproc_local.domain.quality import Effort

CANDIDATES: dict[Format, Callable[[Source], Iterator[bytes]]] = {
    Format.JPEG: jpeg.candidates,
    Format.PNG: png.candidates,
    Format.GIF: gif.candidates,
    Format.WEBP: webp.candidates,
    Format.AVIF: avif.candidates,
}
"""For each format a function that supplies complete files: a clean copy, and encodings that meet the target."""


def optimize_file(
    path: Path,
    info: ImageInfo,
    check_stop: Callable[[], None],
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
    effort: Effort = "balanced",
) -> bytes | None:
    """A smaller file of the same format, None if none was found. For a file that this function returned, None.

    `target` is the SSIMULACRA 2.1 score that a lossy encoding must reach.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    with (
        translate_errors(f"The {FORMATS[info.format].name} can't be optimised"),
        open_source(path, info, check_stop, target, keep_location, effort) as source,
    ):
        best = min(CANDIDATES[info.format](source), key=len)
        return best if len(best) < len(source.data) else None
