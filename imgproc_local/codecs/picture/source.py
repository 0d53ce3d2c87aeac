"""A picture file: read once by `read_picture`, then opened, as often as results are made of it, by `open_source`.

Both touch the bytes of strangers, so they run in worker processes.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from imgproc_local.codecs.container import Blocks, Data, avif, jpeg, jxl, png, tiff
from imgproc_local.codecs.metadata import record
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.codecs.picture import other_decoders
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.libvips import pyvips, translate_errors
from imgproc_local.domain.errors import BrokenImage, CheckStop, StageFailed, TooManyPixels, UnsupportedImage
from imgproc_local.domain.image import CodedColours, Disclosure, Format, ImageInfo
from imgproc_local.domain.plan import TARGETS, Effort
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note

_MAX_FRAMES = 20_000
"""Frames of an animation: thirteen minutes at 25 frames a second. Each costs milliseconds, however small it is."""

_EXPECTED_TIFF = (
    "expected grey, RGB, CMYK or Lab with samples of 1, 2, 4, 8 or 16 bits, or floating-point samples of 32. Save it"
    " again in RGB with 8 or 16 bits."
)


class Picture(Struct, frozen=True):
    """What a picture file says: the properties in its header, and the record of its metadata."""

    info: ImageInfo
    record: record.Record


@translate_errors("The picture can't be read")
def read_picture(path: Path, file_format: Format, max_pixels: int, disclosure: Disclosure) -> Picture:
    """Read the header and the metadata of a file that begins like `file_format`; no pixel is decoded.

    A picture within the limits may be decoded: `max_pixels` limits width × height × frames, `_MAX_FRAMES` the frames.
    `removed` of the record are the kinds of all private data in the file. A metadata block that can't be parsed counts
    as absent.
    Raises: UnsupportedImage, BrokenImage, TooManyPixels; StageFailed if the file can't be read.
    """
    with opened(path) as data:
        info = _read_info(path, file_format, data)
        if info.frames > _MAX_FRAMES:
            raise TooManyPixels(f"The animation may have at most {_MAX_FRAMES:,} frames, but has {info.frames:,}.")
        if info.pixels > max_pixels:
            frames = f" × {info.frames} frames" if info.frames > 1 else ""
            raise TooManyPixels(
                f"The picture may have at most {max_pixels:,} pixels, but has {info.width_px:,} × {info.height_px:,}"
                f"{frames} = {info.pixels:,}."
            )
        dropped = dropped_kinds(file_format, data)
        rebuilt = jpeg_in(data) if file_format is Format.JXL else None
        if rebuilt is None:
            blocks = _read_blocks(path, file_format, data)
        else:
            dropped = dropped - {Removed.UNREADABLE} | dropped_kinds(Format.JPEG, rebuilt)
            blocks = jpeg.read_blocks(rebuilt)
            if jxl.read_blocks(data).exif and not blocks.exif:  # another program added it
                dropped |= {Removed.OTHER}
        read = record.read_record(blocks, disclosure)
        shown_format = file_format if rebuilt is None else Format.JPEG
        if shown_format is Format.JPEG:
            dropped |= _kinds_in_gain_map(rebuilt or data, disclosure)
        info = structs.replace(
            info,
            taken_at=read.taken_at,
            colours=_coded_colours(file_format, data),
            has_gain_map=_has_gain_map(shown_format, rebuilt or data, read),
        )
        return Picture(info, structs.replace(read, removed=read.removed | dropped))


def _read_info(path: Path, file_format: Format, data: Data) -> ImageInfo:
    """What the header says, read by libvips, libheif or libjxl. Raises: UnsupportedImage, BrokenImage."""
    if file_format is Format.HEIC:
        return other_decoders.read_heic_info(path)
    if file_format is Format.JXL:
        return other_decoders.read_jxl_info(data)
    if file_format is Format.TIFF and tiff.is_camera_raw(data):
        raise UnsupportedImage("Expected a picture, but got a camera raw file: export it as JPEG first.")
    try:
        image = getattr(pyvips.Image, FORMATS[file_format].loader)(os.fsencode(path))
    except pyvips.Error as error:
        else_it_is = f"not supported: {_EXPECTED_TIFF}" if file_format is Format.TIFF else "incomplete."
        raise BrokenImage(f"The {FORMATS[file_format].name} can't be read: it is damaged or {else_it_is}") from error
    width_px, height_px, has_alpha = image.width, image.height, bool(image.hasalpha())
    pages = _field(image, "n-pages", 1)
    orientation = _field(image, "orientation", 1)
    frames = pages if file_format in (Format.GIF, Format.WEBP) else 1
    if file_format is Format.PNG:
        frames = png.frame_count(data)
    elif file_format is Format.AVIF:
        frames, orientation = avif.frame_count(data), avif.orientation(data)
        if orientation >= 5:  # libheif tells the size after the rotation
            width_px, height_px = height_px, width_px
    elif file_format is Format.TIFF:
        _require_common_samples(image)
        has_alpha = has_alpha and not tiff.has_mask(data)
    orientation = orientation if 1 <= orientation <= 8 else 1
    bits = 8 if file_format is Format.GIF else _field(image, "bits-per-sample", 8)
    pages = pages if file_format is Format.TIFF else 1
    return ImageInfo(file_format, width_px, height_px, frames, orientation, has_alpha, bits, pages)


def _coded_colours(file_format: Format, data: Data) -> CodedColours | None:
    if file_format is Format.PNG:
        return png.coded_colours(data)
    return avif.coded_colours(data) if file_format in (Format.AVIF, Format.HEIC) else None


def _has_gain_map(file_format: Format, data: Data, read: record.Record) -> bool:
    """Whether the file has a gain map that says how it is applied. One of more pixels than the picture is none."""
    if file_format in (Format.AVIF, Format.HEIC):
        return avif.has_gain_map(data)
    gain_map = jpeg.gain_map(data) if file_format is Format.JPEG else None
    if gain_map is None or not (record.describes_gain_map(read) or jpeg.iso_gain_map_segments(gain_map)):
        return False
    return math.prod(jpeg.size(gain_map)) <= math.prod(jpeg.size(data))


def jpeg_in(data: Data) -> bytes | None:
    """The JPEG that a JPEG XL was made of, with the XMP that another program added to the file; None if there is none.

    Raises: BrokenImage; StageFailed if the XMP is too long for a JPEG.
    """
    rebuilt, added = other_decoders.jpeg_of(data), jxl.read_blocks(data).xmp
    if rebuilt is None or added is None or jpeg.read_blocks(rebuilt).xmp:
        return rebuilt
    return jpeg.with_xmp(rebuilt, added)


def _kinds_in_gain_map(data: Data, disclosure: Disclosure) -> frozenset[Removed]:
    """The kinds of private data in the gain map of a JPEG, which is a JPEG with metadata of its own."""
    gain_map = jpeg.gain_map(data)
    if gain_map is None:
        return frozenset()
    in_blocks = record.read_record(jpeg.read_blocks(gain_map), disclosure).removed
    return in_blocks | dropped_kinds(Format.JPEG, gain_map)


def dropped_kinds(file_format: Format, data: Data) -> frozenset[Removed]:
    """The kinds of what the file holds besides its picture and its blocks. A damaged file is searched up to the damage,
    and reported as `UNREADABLE`.
    """
    found: set[Removed | None] = set()
    try:
        found.update(FORMATS[file_format].container.dropped(data))
    except BrokenImage:
        found.add(Removed.UNREADABLE)
    return frozenset(kind for kind in found if kind)


def _read_blocks(path: Path, file_format: Format, data: Data) -> Blocks:
    is_big_tiff = file_format is Format.TIFF and data[2:4] in (b"+\0", b"\0+")
    return _blocks_of_big_tiff(path) if is_big_tiff else FORMATS[file_format].container.read_blocks(data)


def _blocks_of_big_tiff(path: Path) -> Blocks:
    image = pyvips.Image.tiffload(os.fsencode(path))
    fields = ("xmp-data", "iptc-data", "icc-profile-data")
    found = [bytes(image.get(field)) if image.get_typeof(field) else None for field in fields]
    xmp, iptc, icc = (block if len(block or b"") <= MAX_BLOCK_BYTES else None for block in found)
    return Blocks(xmp=xmp, iptc=iptc, icc=icc)


def _field(image: pyvips.Image, name: str, default: int) -> int:
    value: Any = image.get(name) if image.get_typeof(name) else default
    return int(value)


def _require_common_samples(image: pyvips.Image) -> None:
    """Raises: UnsupportedImage, for a TIFF that `decode.to_common_samples` can't show."""
    if image.format not in ("uchar", "ushort", "float") and image.interpretation not in ("lab", "labs", "labq"):
        raise UnsupportedImage(
            f"The TIFF has samples of a kind that is not supported ({image.format}): {_EXPECTED_TIFF}"
        )


def opened(path: Path) -> mmap.mmap:
    """The file mapped into memory for reading, to be used in a `with` block.

    Raises: UnsupportedImage if it is empty, StageFailed if it can't be read.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise UnsupportedImage("The file is empty.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise StageFailed(f"The picture can't be read from storage: {error.strerror}.") from error


# ---- making results ----


class ResultOptions(Struct, frozen=True):
    """What a result must be: the SSIMULACRA 2.1 score that it reaches if it is lossy (`target`), and the effort to make
    it small.
    """

    target: float = TARGETS["web"]
    effort: Effort = "balanced"


DEFAULT_OPTIONS = ResultOptions()


_GRAPHIC_BYTES_PER_PIXEL = 1.0


class Found(Struct):
    """What searches for the quality of lossy encodings found, for the next one of the same picture at a larger size.

    `quality` is the quality number of the last encoding and `score` its score; `preset` is the encoder's preset that
    suits the picture. Both are None before the first. `largest_pixels` is the number of pixels at the largest size.
    """

    largest_pixels: int = 0
    quality: int | None = None
    score: float = 0.0
    preset: str | None = None


class Source(Struct, frozen=True):
    """An opened picture file: an original or, where results are scaled, a working copy with the original's record.

    `data` is valid inside the `with` block of `open_source`. What makes a result adds to `notes` what that can't carry;
    a working copy adds to those of the original. `is_copy` says that it is one. The conversions of one picture to
    several sizes share `found`.
    """

    path: Path
    info: ImageInfo
    data: Data
    record: record.Record
    options: ResultOptions
    check_stop: CheckStop
    notes: set[Note] = field(default_factory=set)
    is_copy: bool = False
    found: Found = field(default_factory=Found)

    @property
    def is_graphic(self) -> bool:
        """Whether this is a PNG of little data: a screenshot, drawing or the like, not a photograph."""
        return self.info.format is Format.PNG and len(self.data) < _GRAPHIC_BYTES_PER_PIXEL * self.info.pixels

    def blocks_for(self, target: Format, *, orientation: int = 1) -> Blocks:
        """The metadata blocks of a result in format `target`, whose pixels are stored with this EXIF orientation."""
        return record.blocks_for(self.record, target, orientation=orientation)

    def finished(self, encoded: bytes, target: Format, profile: bytes | None, *, orientation: int = 1) -> bytes:
        """An encoding in format `target`, whose score it keeps, with the record's metadata and its own profile."""
        blocks = structs.replace(self.blocks_for(target, orientation=orientation), icc=profile)
        return with_score(FORMATS[target].container.with_blocks(encoded, blocks), score_of(encoded))

    def clean_copy(self) -> bytes:
        """The file with its picture data unchanged and only the metadata that may be published."""
        return with_record(self.data, self.info.format, self.record, self.info.orientation)


def with_record(data: Data, file_format: Format, new: record.Record, orientation: int) -> bytes:
    """The file with its picture data unchanged, without a gain map, and with no metadata but what `new` says."""
    container = FORMATS[file_format].container
    if file_format is not Format.AVIF:
        return container.with_blocks(data, record.blocks_for(new, file_format, orientation=orientation))
    # metadata is replaced in place, and the orientation is a property of the picture: new EXIF would need more room
    has_exif = container.read_blocks(data).exif is not None
    return container.with_blocks(data, record.blocks_for(new, Format.AVIF, can_hold_exif=has_exif))


@contextmanager
def open_source(path: Path, picture: Picture, check_stop: CheckStop, options: ResultOptions) -> Iterator[Source]:
    """The file that was read as `picture`, or the JPEG that this JPEG XL was made of without loss.

    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data, tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        source = Source(path, picture.info, data, picture.record, options, check_stop)
        made_of = jpeg_in(data) if picture.info.format is Format.JXL else None
        if made_of is not None:
            rebuilt = Path(folder) / "picture"
            rebuilt.write_bytes(made_of)
            info = structs.replace(_read_info(rebuilt, Format.JPEG, made_of), has_gain_map=picture.info.has_gain_map)
            source = structs.replace(source, path=rebuilt, info=info, data=made_of)
        yield source


# ---- the scores of results


class _Scored(bytes):
    """An encoded picture whose score was measured."""

    score: float


def with_score(encoded: bytes, score: float | None) -> bytes:
    """The same bytes, of which `score_of` returns this score; bytes that are made of them have none."""
    if score is None:
        return encoded
    scored = _Scored(encoded)
    scored.score = score
    return scored


def score_of(encoded: bytes) -> float | None:
    """The score that the search for this encoding measured, None if it was not scored as a whole or on its sample."""
    return encoded.score if isinstance(encoded, _Scored) else None
