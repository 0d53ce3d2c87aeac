"""Small pictures for lists, as WebP."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import ImageInfo

MAX_SIDE_PX = 512
QUALITY, EFFORT = 80, 2
"""About 20 KB for a photograph. More effort saves a tenth of the bytes in three times the time."""


class ThumbnailSource(Struct, frozen=True):
    """An uploaded file. Its path is bytes, because the name of a folder need not be valid UTF-8."""

    path: bytes
    info: ImageInfo


class Thumbnail(Struct, frozen=True):
    """A WebP file of at most `MAX_SIDE_PX` on each side, in sRGB, without metadata."""

    webp: bytes


@translate_errors("No thumbnail can be made of this picture")
def make_thumbnail(source: ThumbnailSource, check_stop: CheckStop) -> Thumbnail:
    """The thumbnail of a picture, or of an animation's first frame, with its orientation applied and its alpha.

    Runs in a worker. Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    from imgproc_local.codecs.picture.decode import evaluate, scaled_down
    from imgproc_local.codecs.picture.libvips import of_samples

    image = scaled_down(Path(os.fsdecode(source.path)), source.info, MAX_SIDE_PX, check_stop)
    # built from its samples alone, so that no metadata of the upload remains
    plain = of_samples(image.write_to_memory(), image.width, image.height, image.bands)
    return Thumbnail(bytes(evaluate(plain, check_stop, "webpsave_buffer", keep="none", Q=QUALITY, effort=EFFORT)))
