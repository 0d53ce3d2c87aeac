"""JPEG made smaller: encoded anew at the lowest quality that still looks as asked, else the same pixels packed better.

Which quality that is differs from picture to picture, from 40 to 95, and is searched for each. Re-encoding costs
quality each time, so it must earn its place: it is dropped where it saves less than `WORTH_IT`, and a file whose
quantisation tables are those written here has had its turn. An output therefore comes back as it is.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.decode import (
    CheckStop,
    decode_complete,
    finish,
    open_upright,
    to_srgb,
    to_srgb_if_it_looks_the_same,
)
from imgproc_local.codecs.errors import at_border
from imgproc_local.codecs.jpeg.encoders import encoders, is_ours
from imgproc_local.codecs.jpeg.repack import rescanned
from imgproc_local.codecs.jpeg.search import MARGIN_SAMPLE_ONLY, SKIP_IF_OVER_BUDGET, Source, choose, smallest
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.metadata import strip as metadata
from imgproc_local.codecs.metadata.icc import kept_profile
from imgproc_local.codecs.probe import opened
from imgproc_local.codecs.quality.sample import TARGET_SCORE, Sample
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.privacy import KeepLocation
from imgproc_local.domain.quality import Effort

WORTH_IT = 0.95
LARGE_FROM_PIXELS = 24_000_000
"""From here on the decoded picture is not held in memory while its result is encoded."""

THIN_BITS_PER_PIXEL, THIN_SAVES, SAVES = 0.7, 0.6, 0.1
"""By up to so much a file with the usual codes becomes smaller with its own, by far the most where it holds little."""

SMALL_ENOUGH = 1.02
"""So much larger a file with every pixel as it was is better than one with a loss."""


@at_border("The JPEG can't be optimised")
def optimize(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    target: float = TARGET_SCORE,
    keep_location: KeepLocation = KeepLocation.CITY,
    effort: Effort = "balanced",
) -> bytes | None:
    """A smaller JPEG, None where nothing smaller came out.

    Pixels are turned upright; where they stay untouched the orientation stays as a tag. A gain map (Ultra HDR) stays,
    and with it the pixels. CMYK becomes sRGB through its profile.
    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = container.read_blocks(data)
        gain_map, marks = container.gain_map(data), container.gain_map_marks(data)
        if gain_map is not None and (marks or _tells_of_gain_map(blocks)):
            tail = _cleaned_gain_map(gain_map)
            clean = metadata.cleaned(
                data,
                blocks,
                Format.JPEG,
                lambda new, _: container.with_blocks_and_gain_map(data, new, marks, tail),
                keep_location,
                orientation=info.orientation,
                gain_map_bytes=len(tail),
            )
            _decode_through(path, info, check_stop)
            packed = _rescanned(clean[: -len(tail)], info, check_stop)
            best = clean
            if packed is not None:
                best = container.with_blocks_and_gain_map(packed, container.read_blocks(packed), marks, tail)
            return best if len(best) < len(data) else None
        clean = _cleaned(data, blocks, info, keep_location)
        size_bytes, clean_bytes = len(data), len(clean)
        ours = is_ours(clean) and container.components(data) < 4
    if ours:
        _decode_through(path, info, check_stop)
        return clean if clean_bytes < size_bytes else None
    large = info.pixels >= LARGE_FROM_PIXELS
    if large:
        clean = b""  # it would be held beside what the encoder takes; made again where it is wanted
    most = int(WORTH_IT * clean_bytes)

    def encode(fail_on: str) -> bytes | None:
        return _encoded(path, info, clean, blocks, target, effort, keep_location, most, check_stop, fail_on)

    encoded = decode_complete(path, info, encode)
    if large and encoded is None:
        with opened(path) as data:
            clean = _cleaned(data, blocks, info, keep_location)
    best = encoded or clean
    if not large and (encoded is None or _may_be_packed_as_small(clean, info, encoded)):
        packed = _rescanned(clean, info, check_stop) or clean
        best = packed if len(packed) <= SMALL_ENOUGH * len(best) else best
    return best if len(best) < size_bytes else None


def _cleaned(data: Data, blocks: Blocks, info: ImageInfo, keep_location: KeepLocation) -> bytes:
    return metadata.cleaned(
        data,
        blocks,
        Format.JPEG,
        lambda new, _: container.with_blocks(data, new),
        keep_location,
        orientation=info.orientation,
    )


def _may_be_packed_as_small(clean: bytes, info: ImageInfo, encoded: bytes) -> bool:
    """Whether packing the scans anew may save as much as a loss of quality did."""
    thin = 8 * len(clean) < THIN_BITS_PER_PIXEL * info.pixels
    most = THIN_SAVES if thin else SAVES
    return len(encoded) > (1 - most) * len(clean) and not container.is_progressive(clean)


def _rescanned(clean: bytes, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """The same picture in fewer bytes, None where there is none."""
    if info.pixels >= LARGE_FROM_PIXELS:
        return None
    packed = rescanned(clean, check_stop)
    return None if packed is None else container.with_blocks(packed, container.read_blocks(packed))


def _tells_of_gain_map(blocks: Blocks) -> bool:
    """Whether programs will still learn of the gain map from the words that stay: XMP may be broken."""
    packet = metadata.kept(blocks, Format.JPEG, Format.JPEG, KeepLocation.NONE, gain_map_bytes=0).xmp or b""
    return any(mark in packet for mark in container.GAIN_MAP_MARKS)


def _cleaned_gain_map(gain_map: bytes) -> bytes:
    """The gain map without metadata of its own but what says how it is applied."""
    blocks = container.read_blocks(gain_map)
    kept = metadata.kept(blocks, Format.JPEG, Format.JPEG, KeepLocation.NONE, gain_map_bytes=0)
    clean = container.with_blocks(gain_map, Blocks(xmp=kept.xmp, icc=blocks.icc))
    return clean[:2] + container.gain_map_marks(gain_map) + clean[2:]


def _encoded(
    path: Path,
    info: ImageInfo,
    stored: bytes,
    blocks: Blocks,
    target: float,
    effort: Effort,
    keep_location: KeepLocation,
    most_bytes: int,
    check_stop: CheckStop,
    fail_on: str,
) -> bytes | None:
    """The picture encoded anew, None where that takes more than `most_bytes`."""
    image, profile = _opened(path, info, blocks, fail_on)
    image = finish(image, check_stop, "copy_memory")
    if info.pixels < LARGE_FROM_PIXELS:
        shown, profile = to_srgb_if_it_looks_the_same(image, profile)
        source = Source(stored, info.orientation) if shown is image and container.components(stored) == 3 else None
        encoded = smallest(shown, profile, source, target, most_bytes, check_stop, effort)
    else:
        sample = Sample(image, profile=profile)
        image, _ = _opened(path, info, blocks, fail_on)
        found = choose(encoders(image, large=True), sample, target + MARGIN_SAMPLE_ONLY, check_stop)
        if found is None:
            return None
        part = found.encoder.packed(sample.image, found.quality, b"", check_stop)
        if len(part) > SKIP_IF_OVER_BUDGET * most_bytes * sample.share:
            return None
        del sample  # a tenth of what the encoder takes
        encoded = found.encoder.packed(image, found.quality, b"", check_stop)
    if encoded is None:
        return None
    kept = metadata.kept(blocks, Format.JPEG, Format.JPEG, keep_location)
    encoded = container.with_blocks(encoded, Blocks(kept.exif, kept.xmp, kept.iptc, profile))
    return encoded if len(encoded) <= most_bytes else None


def _opened(path: Path, info: ImageInfo, blocks: Blocks, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    image = open_upright(path, info, fail_on=fail_on)
    return (to_srgb(image), None) if image.interpretation == "cmyk" else (image, kept_profile(blocks.icc))


def _decode_through(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Reads the picture to its end: what goes out untouched must be whole, too."""
    unturned = structs.replace(info, orientation=1)
    shrink = 8 if min(info.width_px, info.height_px) >= 8 else 1
    decode_complete(
        path,
        info,
        lambda fail_on: finish(open_upright(path, unturned, shrink=shrink, fail_on=fail_on), check_stop, "avg"),
    )
