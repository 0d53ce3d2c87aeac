"""Operations of the codecs on bytes, and on a path with its properties and `check_stop`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import ResultOptions
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.plan import TARGETS, Effort
from tests.codecs import pictures
from tests.support.reading import convert_file, optimize_file, probe

MAX_PIXELS = 10**9


def read_blocks(data: bytes, file_format: Format) -> Blocks:
    """The metadata blocks of a file."""
    return FORMATS[file_format].container.read_blocks(data)


def to_webp(path: Path, info: ImageInfo, *args: Any, **options: Any) -> bytes:
    return convert_file(path, info, Format.WEBP, *args, **options)


def to_avif(path: Path, info: ImageInfo, *args: Any, **options: Any) -> bytes:
    return convert_file(path, info, Format.AVIF, *args, **options)


CONVERT = {"WEBP": to_webp, "AVIF": to_avif}


def optimized(folder: Path, data: bytes, target: float = TARGETS["web"], effort: Effort = "balanced") -> bytes | None:
    """The optimized file of a picture; None where nothing is gained."""
    path = pictures.write(folder, data)
    return optimize_file(path, probe(path, MAX_PIXELS), pictures.never_stop, ResultOptions(target, effort=effort))


def converted(folder: Path, data: bytes, to: str, target: float = TARGETS["web"]) -> bytes:
    """The picture converted to "WEBP" or "AVIF"."""
    path = pictures.write(folder, data)
    return CONVERT[to](path, probe(path, MAX_PIXELS), pictures.never_stop, ResultOptions(target))


def whole(out: bytes | None) -> bytes:
    """A result that must exist."""
    assert out is not None
    return out


def frames_of(data: bytes) -> list[np.ndarray]:
    """The frames of a picture or animation as RGBA."""
    found = []
    with Image.open(io.BytesIO(data)) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            found.append(np.asarray(image.convert("RGBA")))
    return found


def delays_of(data: bytes) -> list[int]:
    """The milliseconds for which each frame of an animation is displayed."""
    delays = []
    with Image.open(io.BytesIO(data)) as image:
        for number in range(image.n_frames):
            image.seek(number)
            image.load()
            delays.append(round(image.info["duration"]))
    return delays
