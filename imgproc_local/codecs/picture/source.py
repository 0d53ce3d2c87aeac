"""A picture file that is being optimized or converted: its bytes, its metadata, and what the result must be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.metadata import record
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.probe import opened
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation
from imgproc_local.domain.plan import TARGETS, Effort


class ResultOptions(Struct, frozen=True):
    """What a result must be: the SSIMULACRA 2.1 score that it reaches if it is lossy (`target`), how exact the place
    names in its metadata may be, and the effort to make it small.
    """

    target: float = TARGETS["web"]
    keep_location: KeepLocation = KeepLocation.CITY
    effort: Effort = "balanced"


DEFAULT_OPTIONS = ResultOptions()


class Source(Struct, frozen=True):
    """An opened picture file: an original or, where results are scaled, a working copy with the original's record.

    `data` is valid inside the `with` block of `open_source`.
    """

    path: Path
    info: ImageInfo
    data: Data
    record: record.Record
    options: ResultOptions
    check_stop: CheckStop

    def blocks_for(self, target: Format, *, orientation: int = 1) -> Blocks:
        """The metadata blocks of a result in format `target`, whose pixels are stored with this EXIF orientation."""
        return record.blocks_for(self.record, target, orientation=orientation)

    def clean_copy(self) -> bytes:
        """The file with its picture data unchanged and only the metadata that may be published."""
        container, is_avif = FORMATS[self.info.format].container, self.info.format is Format.AVIF
        # in an AVIF, the orientation is a property of the item
        blocks = self.blocks_for(self.info.format, orientation=1 if is_avif else self.info.orientation)
        if is_avif:  # metadata is replaced in place, so a block of a kind that the file does not have would enlarge it
            own = container.read_blocks(self.data)
            blocks = structs.replace(blocks, exif=own.exif and blocks.exif, xmp=own.xmp and blocks.xmp)
        return container.with_blocks(self.data, blocks)


@contextmanager
def open_source(path: Path, info: ImageInfo, check_stop: CheckStop, options: ResultOptions) -> Iterator[Source]:
    """Raises: BrokenImage, StageFailed, and what `check_stop` raises."""
    check_stop()
    with opened(path) as data:
        read = record.read_record(FORMATS[info.format].container.read_blocks(data), options.keep_location)
        yield Source(path, info, data, read, options, check_stop)
