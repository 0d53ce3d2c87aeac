"""Reads the metadata of a picture's file: what may be published, and which kinds of private data it holds."""

from __future__ import annotations

from pathlib import Path

from imgproc_local.codecs.container.dropped import dropped_kinds
from imgproc_local.codecs.metadata.record import embedded, read_record
from imgproc_local.codecs.picture.errors import translate_errors
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.probe import opened
from imgproc_local.domain.image import EmbeddedMetadata, ImageInfo, KeepLocation
from imgproc_local.domain.privacy import Removed


@translate_errors("The picture's metadata can't be read")
def read_embedded(path: Path, info: ImageInfo, keep_location: KeepLocation = KeepLocation.CITY) -> EmbeddedMetadata:
    """The part of the file's metadata that may be published. A block that can't be parsed counts as absent.

    Raises: BrokenImage where the file itself, not only a block of it, is damaged.
    """
    with opened(path) as data:
        return embedded(read_record(FORMATS[info.format].container.read_blocks(data), keep_location))


@translate_errors("The picture's metadata can't be read")
def private_kinds(path: Path, info: ImageInfo, keep_location: KeepLocation = KeepLocation.CITY) -> tuple[Removed, ...]:
    """The kinds of private data in the file that `optimize_file` and `convert_file` remove, sorted.

    Raises: BrokenImage where the file itself, not only a block of it, is damaged.
    """
    with opened(path) as data:
        record = read_record(FORMATS[info.format].container.read_blocks(data), keep_location)
        return tuple(sorted(dropped_kinds(info.format, data) | record.removed))
