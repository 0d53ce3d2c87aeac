"""Optimizes PNG files: reduces their colours if the target score allows it, else compresses the same pixels better.

Only pictures with 8 bits per sample and no palette are reduced: to a palette or, if 256 colours do not suffice, to
fewer levels per channel (posterisation). A reduced picture is used only if it meets the target and saves much. The
samples of other pictures are preserved exactly: of indexed ones, of those with other bit depths, of animations, and of
those whose colours depend on chunks that encoders drop (such as gAMA and cICP).

Optimizing a result again changes nothing: an indexed picture is not reduced again, nor is a posterised one, which
carries a mark. All other decisions depend on the pixels alone, not on how they were compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Data
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.metadata.icc import colour_space
from imgproc_local.codecs.picture.decode import evaluate, open_upright, to_srgb, without_alpha
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.png import deflate, palette, posterize
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.plan import Effort

MAX_LOSSY_SIZE_SHARE = 0.8
"""A picture with changed pixels is used only if it is smaller than this share of the lossless one."""
MAX_PIXELS_IN_MEMORY = 40_000_000
"""Larger pictures are compressed row by row in one pass, with all their colours."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and encodings that may be smaller. The frames of an APNG are preserved."""
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    clean = source.clean_copy()
    yield clean
    indexed = container.colour_type(data) == deflate.PALETTE
    if info.frames > 1 or container.has_own_colours(data) or (info.bits_per_sample < 8 and not indexed):
        _check_complete(path, info, check_stop)
        yield deflated_again(clean, info, check_stop)
    elif indexed:
        _check_complete(path, info, check_stop)
        packed = deflate.indexed_layout(deflate.read_indexed(data), check_stop).packed()
        blocks = source.blocks_for(Format.PNG, orientation=info.orientation)
        yield container.with_blocks(_with_density(packed, data, 1), blocks)
        yield deflated_again(clean, info, check_stop)
    else:
        target = None if deflate.is_marked(data) else source.options.target
        packed, profile = _encoded(path, info, source.record.icc, target, source.options.effort, check_stop)
        blocks = structs.replace(source.blocks_for(Format.PNG), icc=profile)
        yield container.with_blocks(_with_density(packed, data, info.orientation), blocks)


def converted(source: Source) -> bytes:
    """The picture of a working copy, which is a PNG, as a PNG with the original's metadata."""
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    if container.has_own_colours(data):
        return container.with_blocks(deflated_again(bytes(data), info, check_stop), source.blocks_for(Format.PNG))
    options = source.options
    packed, profile = _encoded(path, info, source.record.icc, options.target, options.effort, check_stop)
    return container.with_blocks(packed, structs.replace(source.blocks_for(Format.PNG), icc=profile))


def _encoded(
    path: Path, info: ImageInfo, profile: bytes | None, target: float | None, effort: Effort, check_stop: CheckStop
) -> tuple[bytes, bytes | None]:
    """The smallest encoding of the picture that meets the target, and the profile to write into it.

    `target` is None for a picture that is already posterised: its samples and its mark are preserved.
    """
    image = open_upright(path, info)
    if info.pixels > MAX_PIXELS_IN_MEMORY:
        options = {"compression": 9, "filter": "all", "keep": "none", "bitdepth": info.bits_per_sample}
        return bytes(evaluate(image, check_stop, "pngsave_buffer", **options)), profile
    image = evaluate(image, check_stop, "copy_memory")
    image = _without_redundancy(image, rgb_only=profile is not None)
    lossless = deflate.layout(image, check_stop)
    if target is None or image.format != "uchar":
        return lossless.packed(marked=target is None), profile
    if profile is not None and colour_space(profile) != "RGB":  # a palette needs an RGB profile
        palette_source, palette_profile = _without_redundancy(to_srgb(image), rgb_only=False), None
    else:
        palette_source, palette_profile = image, profile
    reduced = palette.smallest_palette(palette_source, palette_profile, target, check_stop, palette.SEARCHES[effort])
    if reduced:
        indexed = deflate.indexed_layout(reduced.picture, check_stop)
        max_share = 1 if reduced.exact and palette_source is image else MAX_LOSSY_SIZE_SHARE
        if indexed.estimated_bytes < max_share * lossless.estimated_bytes:
            return indexed.packed(), palette_profile
    pictures = posterize.posterized(image, profile, target, check_stop)
    layouts = [deflate.layout(picture, check_stop) for picture in pictures]
    posterized = min(layouts, key=lambda each: each.estimated_bytes, default=lossless)
    if posterized.estimated_bytes < MAX_LOSSY_SIZE_SHARE * lossless.estimated_bytes:
        return posterized.packed(marked=True), profile
    return lossless.packed(), profile


def _without_redundancy(image: pyvips.Image, *, rgb_only: bool) -> pyvips.Image:
    """The picture without what its pixels do not need: 16 bits, an alpha channel, or colour.

    16 bits are reduced to 8 if the lower bits repeat the upper ones; an alpha channel is removed if every pixel is
    opaque; RGB becomes grey if no pixel has colour, except with `rgb_only`, for a picture with an RGB profile. Fully
    transparent pixels become black.
    """
    if image.format == "ushort" and ((image & 0xFF) - (image >> 8)).abs().max() == 0:
        image = (image >> 8).cast("uchar").copy(interpretation="b-w" if image.bands < 3 else "srgb")
    if image.hasalpha():
        alpha = image[image.bands - 1]
        opaque = 255 if image.format == "uchar" else 65535
        image = without_alpha(image) if alpha.min() == opaque else (alpha == 0).ifthenelse(0, image)
    if image.bands > 2 and not rgb_only and max((image[0] - image[band]).abs().max() for band in (1, 2)) == 0:
        grey = image[0].bandjoin(image[3]) if image.hasalpha() else image[0]
        image = grey.copy(interpretation="b-w" if image.format == "uchar" else "grey16")
    return image.copy_memory()


def _with_density(packed: bytes, data: Data, orientation: int) -> bytes:
    """The PNG with the pixel density (chunk pHYs) of `data`, whose axes are swapped if `orientation` swaps them."""
    for chunk in container.chunks(data):
        if chunk.kind == b"pHYs" and chunk.end - chunk.payload == 9:
            across, down, unit = struct.unpack(">IIB", data[chunk.payload : chunk.end])
            if orientation > 4:
                across, down = down, across
            return container.with_chunks(
                packed, container.chunk_bytes(b"pHYs", struct.pack(">IIB", across, down, unit))
            )
    return packed


def deflated_again(data: bytes, info: ImageInfo, check_stop: CheckStop) -> bytes:
    """The PNG with the same filtered rows deflated thoroughly. Further frames of an APNG are copied."""
    out = [container.SIGNATURE]
    parts: list[bytes] = []
    for chunk in container.chunks(data):
        if chunk.kind == b"IDAT":
            parts.append(data[chunk.payload : chunk.end])
            continue
        if parts:
            check_stop()
            out.append(container.chunk_bytes(b"IDAT", _redeflated(b"".join(parts), info)))
            parts.clear()
        # joining the fdAT chunks of a frame would leave gaps in their sequence numbers, so they are copied
        out.append(container.whole_chunk(data, chunk))
    return b"".join(out)


def _redeflated(stream: bytes, info: ImageInfo) -> bytes:
    """The zlib stream deflated again, or as it was if that is shorter; without bytes after its end."""
    # a row has at most 8 bytes per pixel and a filter byte; Adam7 adds a few rows
    limit = (info.width_px * 8 + 8) * (info.height_px + 8) * 2
    inflater = zlib.decompressobj()
    deflated = deflate.deflated(inflater.decompress(stream, limit))
    return min(stream[: len(stream) - len(inflater.unused_data)], deflated, key=len)


def _check_complete(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    evaluate(open_upright(path, info), check_stop, "avg")
