"""Optimizes JPEG files: encodes them again at the lowest quality that meets the target, or compresses them losslessly.

Encoding again loses detail, so its result is discarded if it saves too little. A file with a quantisation table that
this service writes is not encoded again, so that optimizing a result changes nothing.

The clean copy of a file has the same picture data, and of its metadata only what may be published.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _splice, encoders
from imgproc_local.codecs.metadata.icc import rewritten
from imgproc_local.codecs.metadata.record import Record, blocks_for, read_record
from imgproc_local.codecs.picture.decode import (
    decode_complete,
    evaluate,
    open_upright,
    to_srgb,
    to_srgb_if_visually_lossless,
)
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.quality.score import Sample
from imgproc_local.codecs.quality.search import LARGE_PIXELS
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation

log = logging.getLogger(__name__)

MAX_SIZE_SHARE = 0.95
"""A lossy encoding must not be larger than this share of the clean copy."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and either a lossy encoding that meets the target or the same pixels compressed losslessly.

    A lossy encoding is upright; if the pixels are copied, the orientation remains a tag. The pixels of an Ultra HDR
    picture are copied with its gain map. CMYK is converted to sRGB through its profile.
    """
    info, check_stop = source.info, source.check_stop
    gain_map = container.gain_map(source.data)
    if gain_map is not None:
        iso_segments = container.iso_gain_map_segments(source.data)
        if iso_segments or _describes_gain_map(source.record):
            yield from _with_gain_map(source, iso_segments, _cleaned_gain_map(gain_map))
            return
    clean = source.clean_copy()
    yield clean
    encoded = None
    written_here = container.components(source.data) < 4 and encoders.was_encoded_here(clean, check_stop)
    if written_here:
        _check_complete(source.path, info, check_stop)
    else:
        max_bytes = int(MAX_SIZE_SHARE * len(clean))
        encoded = decode_complete(source.path, info, lambda fail_on: _encoded(source, clean, max_bytes, fail_on))
    # what was encoded here is packed already: only bytes that no scan needs can make it shorter
    encoded = encoded or _repacked(clean, check_stop, is_trusted=written_here)
    if encoded is not None:
        yield encoded


def converted(source: Source) -> bytes:
    """The picture of a working copy as JPEG; where no quality meets the target, at the highest one in 4:4:4."""
    encoded = decode_complete(source.path, source.info, lambda fail_on: _encoded(source, None, sys.maxsize, fail_on))
    if encoded is not None:
        return encoded
    image, profile = _opened(source, "error")
    return _with_profile(encoders.finest(image, source.check_stop), source, profile)


def _encoded(source: Source, clean: bytes | None, max_bytes: int, fail_on: str) -> bytes | None:
    """The picture encoded again, None if that takes more than `max_bytes` or no quality meets the target.

    `clean` is the clean copy of a JPEG, None for a working copy.
    """
    info, check_stop = source.info, source.check_stop
    opened, profile = _opened(source, fail_on)
    image, original = evaluate(opened, check_stop, "copy_memory"), None
    if info.pixels < LARGE_PIXELS:
        in_srgb, profile = to_srgb_if_visually_lossless(image, profile)
        # chroma can be copied from the original only if its pixels were not converted
        if clean is not None and in_srgb is image and container.components(clean) == 3:
            original = encoders.Original(clean, info.orientation)
        image = in_srgb
    sample = Sample(image, profile=profile)
    if info.pixels >= LARGE_PIXELS:  # decoded again while it is encoded, so that it is not held in memory meanwhile
        image, _ = _opened(source, fail_on)
    options = source.options
    encoded = encoders.smallest(image, sample, original, options.target, max_bytes, check_stop, options.effort)
    if encoded is None:
        return None
    encoded = _with_profile(encoded, source, profile)
    return encoded if len(encoded) <= max_bytes else None


def _opened(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = open_upright(source.path, source.info, fail_on=fail_on)
    return (to_srgb(image), None) if image.interpretation == "cmyk" else (image, source.record.icc)


def _with_profile(encoded: bytes, source: Source, profile: bytes | None) -> bytes:
    return container.with_blocks(encoded, structs.replace(source.blocks_for(Format.JPEG), icc=profile))


def _repacked(clean: bytes, check_stop: CheckStop, *, is_trusted: bool = False) -> bytes | None:
    """The same pixels without unused tables and bytes after a scan's last block; None if that is not shorter.

    mozjpeg exits the process on invalid coefficients, which decoders accept, so it only gets what `_splice` checked.
    `is_trusted` is for files that were encoded here: `_splice` refuses the grey and the very detailed ones.
    """
    try:
        checked = _splice.spliced(clean, clean)
    except ValueError as error:
        log.debug("The scans of a JPEG can't be recompressed: %s", error)
        if not is_trusted:
            return None
        checked = clean
    check_stop()
    # in the order of a clean copy, optimizing the result again changes nothing
    packed = container.with_blocks(encoders.with_optimized_scans(checked), container.read_blocks(clean))
    return packed if len(packed) < len(clean) and _same_pixels(clean, packed, check_stop) else None


def _same_pixels(one: bytes, other: bytes, check_stop: CheckStop) -> bool:
    before, after = (pyvips.Image.jpegload_buffer(each, access="sequential") for each in (one, other))
    return bool(evaluate(before != after, check_stop, "max") == 0)


def _check_complete(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    unrotated = structs.replace(info, orientation=1)
    shrink = 8 if min(info.width_px, info.height_px) >= 8 else 1
    decode_complete(
        path,
        info,
        lambda fail_on: evaluate(open_upright(path, unrotated, shrink=shrink, fail_on=fail_on), check_stop, "avg"),
    )


def _with_gain_map(source: Source, iso_segments: bytes, gain_map: bytes) -> Iterator[bytes]:
    """The clean copy of an Ultra HDR picture, and the same file with its scans compressed better."""
    blocks = blocks_for(source.record, Format.JPEG, orientation=source.info.orientation, gain_map_bytes=len(gain_map))
    clean = container.with_blocks(source.data, blocks)
    _check_complete(source.path, source.info, source.check_stop)
    for picture in (clean, _repacked(clean, source.check_stop)):
        if picture is not None:
            yield container.with_blocks_and_gain_map(picture, blocks, iso_segments, gain_map)


def _describes_gain_map(record: Record) -> bool:
    """Whether the XMP still describes a gain map after cleaning, which removes XMP that can't be parsed."""
    packet = blocks_for(record, Format.JPEG, gain_map_bytes=0).xmp or b""
    return any(name in packet for name in container.GAIN_MAP_IDENTIFIERS)


def _cleaned_gain_map(gain_map: bytes) -> bytes:
    """The gain map with only its colour profile and the metadata that says how to apply it."""
    blocks = container.read_blocks(gain_map)
    described = blocks_for(read_record(blocks, KeepLocation.NONE), Format.JPEG, gain_map_bytes=0)
    clean = container.with_blocks(gain_map, Blocks(xmp=described.xmp, icc=rewritten(blocks.icc)))
    return clean[:2] + container.iso_gain_map_segments(gain_map) + clean[2:]
