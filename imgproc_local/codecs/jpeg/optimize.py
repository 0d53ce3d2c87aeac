"""Optimizes JPEG files: encodes them again at the lowest quality that meets the target, or compresses them losslessly.

That quality differs from picture to picture and is searched for each. Encoding again loses detail, so its result is
discarded if it saves too little. A file with a quantisation table that this service writes is not encoded again, so
that optimizing a result changes nothing.

The clean copy of a file has the same picture data, and of its metadata only what may be published.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg.encoders import HIGHEST_QUALITY, Original, encoders, was_encoded_here
from imgproc_local.codecs.jpeg.repack import repacked
from imgproc_local.codecs.jpeg.search import SAMPLE_ONLY_MARGIN, SKIP_IF_OVER_BUDGET, choose, smallest
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
from imgproc_local.codecs.quality.sample import Sample
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo, KeepLocation

MAX_SIZE_SHARE = 0.95
"""A lossy encoding must not be larger than this share of the clean copy."""

MIN_LARGE_PIXELS = 24_000_000
"""Pictures with at least this many pixels are decoded a second time while they are encoded, instead of being held in
memory, and their scans are not recompressed.
"""

LOW_BITS_PER_PIXEL = 0.7
MAX_SAVED_BY_REPACKING, MAX_SAVED_BY_REPACKING_LOW = 0.1, 0.6
"""The largest share of a file's bytes that lossless recompression saves, in most files and in files with fewer than
`LOW_BITS_PER_PIXEL`. It is not tried if the lossy encoding saves more than that.
"""

LOSSLESS_SIZE_RATIO = 1.02
"""A lossless result is preferred to a lossy one if its size is at most this multiple of the lossy one's."""


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
    if was_encoded_here(clean) and container.components(source.data) < 4:
        _check_complete(source.path, info, check_stop)
        # what was encoded here is packed already: only bytes that no scan needs can make it shorter
        if (packed := _repacked(clean, check_stop)) is not None:
            yield packed
        return
    max_bytes = int(MAX_SIZE_SHARE * len(clean))
    encoded = decode_complete(source.path, info, lambda fail_on: _encoded(source, clean, max_bytes, fail_on))
    packed = None
    if encoded is None or _repacking_may_save_as_much(clean, info, encoded):
        packed = _repacked_unless_large(clean, info, check_stop)
    if packed is not None and (encoded is None or len(packed) <= LOSSLESS_SIZE_RATIO * len(encoded)):
        yield packed
    elif encoded is not None:
        yield encoded


def _with_gain_map(source: Source, iso_segments: bytes, gain_map: bytes) -> Iterator[bytes]:
    """The clean copy of an Ultra HDR picture, and the same file with its scans compressed better."""
    blocks = blocks_for(source.record, Format.JPEG, orientation=source.info.orientation, gain_map_bytes=len(gain_map))
    clean = container.with_blocks_and_gain_map(source.data, blocks, iso_segments, gain_map)
    yield clean
    _check_complete(source.path, source.info, source.check_stop)
    packed = _repacked_unless_large(clean[: -len(gain_map)], source.info, source.check_stop)
    if packed is not None:
        yield container.with_blocks_and_gain_map(packed, container.read_blocks(packed), iso_segments, gain_map)


def _repacking_may_save_as_much(clean: bytes, info: ImageInfo, encoded: bytes) -> bool:
    """Whether compressing the scans of `clean` losslessly may save as much as the lossy encoding `encoded` saves."""
    is_low = 8 * len(clean) < LOW_BITS_PER_PIXEL * info.pixels
    max_saved = MAX_SAVED_BY_REPACKING_LOW if is_low else MAX_SAVED_BY_REPACKING
    return len(encoded) > (1 - max_saved) * len(clean) and not container.is_progressive(clean)


def _repacked_unless_large(clean: bytes, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """The same pixels in fewer bytes; None if that is not possible, or the picture has `MIN_LARGE_PIXELS` or more."""
    return None if info.pixels >= MIN_LARGE_PIXELS else _repacked(clean, check_stop)


def _repacked(clean: bytes, check_stop: CheckStop) -> bytes | None:
    """The same pixels without unused tables and bytes after a scan's last block; None if that is not shorter."""
    packed = repacked(clean, check_stop)
    # mozjpeg may reorder segments; in the order of a clean copy, optimizing the result again changes nothing
    return None if packed is None else container.with_blocks(packed, container.read_blocks(packed))


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


def converted(source: Source) -> bytes:
    """The picture of a working copy as JPEG; where no quality meets the target, at the highest one in 4:4:4."""
    encoded = decode_complete(source.path, source.info, lambda fail_on: _encoded(source, None, sys.maxsize, fail_on))
    if encoded is not None:
        return encoded
    image, profile = _opened(source, "error")
    finest = encoders(image, large=True)[-1]
    no_draft = b""  # mozjpeg needs none
    encoded = finest.final(image, HIGHEST_QUALITY, no_draft, source.check_stop)
    return container.with_blocks(encoded, structs.replace(source.blocks_for(Format.JPEG), icc=profile))


def _encoded(source: Source, clean: bytes | None, max_bytes: int, fail_on: str) -> bytes | None:
    """The picture encoded again, None if that takes more than `max_bytes` or no quality meets the target.

    `clean` is the clean copy of a JPEG, None for a working copy.
    """
    info, target, check_stop = source.info, source.options.target, source.check_stop
    image, profile = _opened(source, fail_on)
    image = evaluate(image, check_stop, "copy_memory")
    if info.pixels < MIN_LARGE_PIXELS:
        in_srgb, profile = to_srgb_if_visually_lossless(image, profile)
        # chroma can be copied from the original only if its pixels were not converted
        original = None
        if clean is not None and in_srgb is image and container.components(clean) == 3:
            original = Original(clean, info.orientation)
        encoded = smallest(in_srgb, profile, original, target, max_bytes, check_stop, source.options.effort)
    else:
        sample = Sample(image, profile=profile)
        image, _ = _opened(source, fail_on)
        choice = choose(encoders(image, large=True), sample, target + SAMPLE_ONLY_MARGIN, check_stop)
        if choice is None:
            return None
        no_draft = b""  # large pictures are encoded by mozjpeg, which needs none
        encoded_sample = choice.encoder.final(sample.image, choice.quality, no_draft, check_stop)
        if len(encoded_sample) > SKIP_IF_OVER_BUDGET * max_bytes * sample.share:
            return None
        del sample  # frees memory, a tenth of what the encoder takes
        encoded = choice.encoder.final(image, choice.quality, no_draft, check_stop)
    if encoded is None:
        return None
    encoded = container.with_blocks(encoded, structs.replace(source.blocks_for(Format.JPEG), icc=profile))
    return encoded if len(encoded) <= max_bytes else None


def _opened(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = open_upright(source.path, source.info, fail_on=fail_on)
    return (to_srgb(image), None) if image.interpretation == "cmyk" else (image, source.record.icc)


def _check_complete(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    unrotated = structs.replace(info, orientation=1)
    shrink = 8 if min(info.width_px, info.height_px) >= 8 else 1
    decode_complete(
        path,
        info,
        lambda fail_on: evaluate(open_upright(path, unrotated, shrink=shrink, fail_on=fail_on), check_stop, "avg"),
    )
