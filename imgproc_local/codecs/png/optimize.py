"""PNG made smaller: fewer colours where nobody sees it, else the same pixels packed better.

A palette, or fewer levels where a palette can't do, is tried only on pictures of 8 bits that are not indexed yet, and
taken only where it looks as the target asks and saves much. Indexed and low-bit pictures, animations and those whose
colours depend on chunks that encoders drop (gAMA, cHRM, cICP) keep their very samples. An output comes back as it is:
one with a palette is indexed, one with fewer levels carries a mark, and what else is decided depends on the pixels
alone, not on how they were packed.
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
from imgproc_local.codecs.picture.decode import CheckStop, finish, open_upright, to_srgb, without_alpha
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.png import deflate as png_packing
from imgproc_local.codecs.png import palette, posterize
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.quality import Effort

WORTH_A_LOSS = 0.8
MAX_PIXELS_IN_MEMORY = 40_000_000
"""Larger pictures are packed row by row in one pass, without trying a palette."""

_SRGB_GAMMA = 45455


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and smaller encodings. An APNG remains an animation, frame by frame as it was."""
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    clean = source.clean_copy()
    yield clean
    indexed = container.colour_type(data) == png_packing.PALETTE
    if info.frames > 1 or _own_colours(data) or (info.bits_per_sample < 8 and not indexed):
        _decode_through(path, info, check_stop)
        yield _deflated_again(clean, info, check_stop)
    elif indexed:
        _decode_through(path, info, check_stop)
        packed = png_packing.indexed_layout(png_packing.read_indexed(data), check_stop).packed()
        blocks = source.blocks_for(Format.PNG, orientation=info.orientation)
        yield container.with_blocks(_with_density(packed, data, 1), blocks)
        yield _deflated_again(clean, info, check_stop)
    else:
        target = None if png_packing.is_marked(data) else source.target
        packed, profile = _encoded(path, info, source.published.icc, target, source.effort, check_stop)
        blocks = structs.replace(source.blocks_for(Format.PNG), icc=profile)
        yield container.with_blocks(_with_density(packed, data, info.orientation), blocks)


def _own_colours(data: Data) -> bool:
    """Whether chunks other than a profile say what the samples mean, and say something else than sRGB."""
    found = {chunk.kind: data[chunk.payload : chunk.end] for chunk in container.chunks(data) if chunk.kind != b"IDAT"}
    if b"cICP" in found or b"mDCV" in found or b"cLLI" in found:
        return True
    if b"sRGB" in found or b"iCCP" in found:
        return False
    gamma = int.from_bytes(found.get(b"gAMA", b""), "big")
    return bool(gamma) and abs(gamma - _SRGB_GAMMA) > 500


def _encoded(
    path: Path, info: ImageInfo, profile: bytes | None, target: float | None, effort: Effort, check_stop: CheckStop
) -> tuple[bytes, bytes | None]:
    """The smallest encoding of the picture that meets the target, and the profile that it needs.

    `target` is None for a picture that was rounded before: it keeps its samples, and the mark.
    """
    image = open_upright(path, info)
    if info.pixels > MAX_PIXELS_IN_MEMORY:
        options = {"compression": 9, "filter": "all", "keep": "none", "bitdepth": info.bits_per_sample}
        return bytes(finish(image, check_stop, "pngsave_buffer", **options)), profile
    image = finish(image, check_stop, "copy_memory")
    image = _without_the_needless(image, rgb_only=profile is not None)
    lossless = png_packing.layout(image, check_stop)
    if target is None or image.format != "uchar":
        return lossless.packed(marked=target is None), profile
    if profile is not None and colour_space(profile) != "RGB":  # which a palette can't have
        source, palette_profile = _without_the_needless(to_srgb(image), rgb_only=False), None
    else:
        source, palette_profile = image, profile
    found = palette.smallest_palette(source, palette_profile, target, check_stop, palette.SEARCHES[effort])
    if found:
        fewer = png_packing.indexed_layout(found.picture, check_stop)
        worth = 1 if found.exact and source is image else WORTH_A_LOSS
        if fewer.quick_bytes < worth * lossless.quick_bytes:
            return fewer.packed(), palette_profile
    rounded = posterize.posterized(image, profile, target, check_stop)
    layouts = [png_packing.layout(each, check_stop) for each in rounded]
    coarser = min(layouts, key=lambda each: each.quick_bytes, default=lossless)
    if coarser.quick_bytes < WORTH_A_LOSS * lossless.quick_bytes:
        return coarser.packed(marked=True), profile
    return lossless.packed(), profile


def _without_the_needless(image: pyvips.Image, *, rgb_only: bool) -> pyvips.Image:
    """The picture without bits that only repeat others, an alpha that hides nothing, and colour where all is grey.

    What is fully transparent becomes black. `rgb_only` where a profile speaks of RGB.
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
    """The PNG with the pixels per metre, or their shape, that `data` says; the two sides change where it was turned."""
    for chunk in container.chunks(data):
        if chunk.kind == b"pHYs" and chunk.end - chunk.payload == 9:
            across, down, unit = struct.unpack(">IIB", data[chunk.payload : chunk.end])
            if orientation > 4:
                across, down = down, across
            header_end = 33
            density = container.chunk_bytes(b"pHYs", struct.pack(">IIB", across, down, unit))
            return packed[:header_end] + density + packed[header_end:]
    return packed


def _deflated_again(data: bytes, info: ImageInfo, check_stop: CheckStop) -> bytes:
    """The same filtered samples, deflated thoroughly, frame by frame."""
    out = [container.SIGNATURE]
    frame: list[bytes] = []
    pending: bytes | None = None

    def flush() -> None:
        nonlocal pending
        if pending is None:
            return
        check_stop()
        old = b"".join(frame)
        new = _redeflate(old, info)
        payload = new if len(new) < len(old) else old
        out.append(container.chunk_bytes(pending[4:8], pending[8:] + payload))
        frame.clear()
        pending = None

    for chunk in container.chunks(data):
        payload = data[chunk.payload : chunk.end]
        if chunk.kind == b"IDAT":
            pending = pending or b"\0\0\0\0IDAT"
            frame.append(payload)
        elif chunk.kind == b"fdAT":
            # each frame data chunk begins with a sequence number; joining chunks would leave gaps, so they stay single
            flush()
            out.append(container.chunk_bytes(b"fdAT", payload))
        else:
            flush()
            out.append(data[chunk.payload - 8 : chunk.end + 4])
    return b"".join(out)


def _redeflate(stream: bytes, info: ImageInfo) -> bytes:
    # a row has at most 8 bytes per pixel and a filter byte; Adam7 adds a few rows
    limit = (info.width_px * 8 + 8) * (info.height_px + 8) * 2
    inflater = zlib.decompressobj()
    samples = inflater.decompress(stream, limit)
    return png_packing.deflated(samples)


def _decode_through(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Reads the picture to its end: what goes out untouched must be whole, too."""
    finish(open_upright(path, info), check_stop, "avg")
