"""Operations of the codecs as functions with the same arguments: a path, its properties, and `check_stop`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from imgproc_local.codecs.convert import convert_file
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.domain.image import Format, ImageInfo


def read_blocks(data: bytes, file_format: Format) -> Blocks:
    """The metadata blocks of a file."""
    return FORMATS[file_format].container.read_blocks(data)


def to_webp(path: Path, info: ImageInfo, *args: Any, **options: Any) -> bytes:
    return convert_file(path, info, Format.WEBP, *args, **options)


def to_avif(path: Path, info: ImageInfo, *args: Any, **options: Any) -> bytes:
    return convert_file(path, info, Format.AVIF, *args, **options)


CONVERT = {"WEBP": to_webp, "AVIF": to_avif}
