"""Optimizes PNG files: reduces their colours if the target score allows it, else compresses the same pixels better.

Only pictures with 8 bits per sample and no palette are reduced: to a palette or, if 256 colours do not suffice, to
fewer levels per channel (posterisation). A reduced picture is used only if it meets the target and saves much. The
samples of other pictures are preserved exactly: of indexed ones, of those with other bit depths, of animations, and of
those whose colours depend on chunks that encoders drop (such as gAMA and cICP).

Optimizing a result again changes nothing: an indexed picture is not reduced again, nor is a posterised one, which
carries a mark. All other decisions depend on the pixels alone, not on how they were compressed.

Encoding chooses the row filter that compresses best, and deflates the filtered rows thoroughly: libvips applies each
row filter, libdeflate compresses the filtered rows at a fast level, and those with the smallest result are compressed
again at a high level.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import deflate
from msgspec import Struct

from imgproc_local.codecs.container import Data
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.metadata.icc import colour_space
from imgproc_local.codecs.picture.decode import evaluate, open_upright, to_srgb, without_alpha
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source, score_of, with_score
from imgproc_local.codecs.png import palette
from imgproc_local.codecs.quality.search import LARGE_PIXELS
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo

_MAX_LOSSY_SIZE_SHARE = 0.8
"""A picture with changed pixels is used only if it is smaller than this share of the lossless one."""

_FILTERS = ("none", "sub", "up", "paeth", "all")
"""libvips' row filters: one for all rows, or, with "all", for each row the one with the smallest differences."""

_MARK = b"\0\0\0\xff\xff"
"""The mark of a posterised picture: an empty stored block. Source: RFC 1951, 3.2.4."""

_COLOUR_TYPES, _PALETTE = {1: 0, 2: 4, 3: 2, 4: 6}, 3
"""Colour types by the number of bands: grey, grey with alpha, RGB, RGBA. Source: PNG, third edition, 11.2.1."""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and encodings that may be smaller. The frames of an APNG are preserved."""
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    clean = source.clean_copy()
    yield clean
    indexed = container.colour_type(data) == _PALETTE
    if info.frames > 1 or container.has_own_colours(data) or (info.bits_per_sample < 8 and not indexed):
        _check_complete(path, info, check_stop)
        yield deflated_again(clean, info, check_stop)
    elif indexed:
        _check_complete(path, info, check_stop)
        packed = indexed_layout(palette.read_indexed(data), check_stop).packed()
        packed = _with_density(packed, data, 1)
        yield source.finished(packed, Format.PNG, source.record.icc, orientation=info.orientation)
        yield deflated_again(clean, info, check_stop)
    else:
        target = None if is_marked(data) else source.options.target
        packed, profile = _encoded(source, target)
        yield source.finished(_with_density(packed, data, info.orientation), Format.PNG, profile)


def converted(source: Source) -> bytes:
    """The picture of a working copy, which is a PNG, as a PNG with the original's metadata."""
    info, data, profile = source.info, source.data, source.record.icc
    if container.has_own_colours(data):
        packed = deflated_again(bytes(data), info, source.check_stop)
    else:
        packed, profile = _encoded(source, source.options.target)
    return source.finished(packed, Format.PNG, profile)


def _encoded(source: Source, target: float | None) -> tuple[bytes, bytes | None]:
    """The smallest encoding of the picture that meets the target, and the profile to write into it.

    `target` is None for a picture that is already posterised: its samples and its mark are preserved.
    """
    info, profile, check_stop = source.info, source.record.icc, source.check_stop
    image = open_upright(source.path, info)
    if info.pixels >= LARGE_PIXELS:
        options = {"compression": 9, "filter": "all", "keep": "none", "bitdepth": info.bits_per_sample}
        return bytes(evaluate(image, check_stop, "pngsave_buffer", **options)), profile
    image = evaluate(image, check_stop, "copy_memory")
    image = _without_redundancy(image, rgb_only=profile is not None)
    lossless = layout(image, check_stop)
    if target is None or image.format != "uchar":
        return lossless.packed(marked=target is None), profile
    if profile is not None and colour_space(profile) != "RGB":  # a palette needs an RGB profile
        palette_source, palette_profile = _without_redundancy(to_srgb(image), rgb_only=False), None
    else:
        palette_source, palette_profile = image, profile
    search = palette.SEARCHES[source.options.effort]
    reduced = palette.smallest_palette(palette_source, palette_profile, target, check_stop, search)
    if reduced:
        indexed = indexed_layout(reduced.picture, check_stop)
        max_share = 1 if reduced.exact and palette_source is image else _MAX_LOSSY_SIZE_SHARE
        if indexed.estimated_bytes < max_share * lossless.estimated_bytes:
            return with_score(indexed.packed(), reduced.score), palette_profile
    posterized = palette.posterized(image, profile, target, check_stop)
    if posterized is not None:
        rounded = layout(posterized, check_stop)
        if rounded.estimated_bytes < _MAX_LOSSY_SIZE_SHARE * lossless.estimated_bytes:
            return rounded.packed(marked=True), profile
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
            density = container.chunk_bytes(b"pHYs", struct.pack(">IIB", across, down, unit))
            return with_score(container.with_chunks(packed, density), score_of(packed))
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
    again = _deflated(inflater.decompress(stream, limit))
    return min(stream[: len(stream) - len(inflater.unused_data)], again, key=len)


def _check_complete(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Decode the whole picture, so that an incomplete one is refused even if its data is only copied."""
    evaluate(open_upright(path, info), check_stop, "avg")


class _Layout(Struct, frozen=True):
    """A PNG whose rows are filtered but not yet deflated. `chunks` are written between its header and its data."""

    header: bytes
    chunks: tuple[bytes, ...]
    filtered: bytes
    estimated_bytes: int

    def packed(self, *, marked: bool = False) -> bytes:
        """The file. With `marked`, its compressed data begins with the mark of a posterised picture."""
        stream = _deflated(self.filtered)
        if marked:
            stream = stream[:2] + _MARK + stream[2:]
        return container.as_file(self.header, *self.chunks, container.chunk_bytes(b"IDAT", stream))


def is_marked(data: Data) -> bool:
    """Whether the compressed data begins with the mark of a posterised picture, which must not be posterised again.

    The mark is an empty block. Changes of the metadata do not remove it, and no other known program writes one there.
    """
    first = next((chunk for chunk in container.chunks(data) if chunk.kind == b"IDAT"), None)
    return first is not None and data[first.payload + 2 : first.payload + 2 + len(_MARK)] == _MARK


def layout(image: pyvips.Image, check_stop: CheckStop) -> _Layout:
    """The lossless layout of a picture in memory: 8 or 16 bits, grey or RGB, with or without alpha."""
    bits = 16 if image.format == "ushort" else 8
    header = _header(image.width, image.height, bits, _COLOUR_TYPES[image.bands])
    return _Layout(header, (), *_filtered(image, check_stop))


def indexed_layout(picture: palette.Indexed, check_stop: CheckStop) -> _Layout:
    """The layout with the smallest estimate, at the lowest possible bit depth or 8."""
    plain = _by_luma(picture)
    depths = {8, next(bits for bits in (1, 2, 4, 8) if len(plain.colours) <= 1 << bits)}
    layouts = [_indexed_layout(plain, bits, check_stop) for bits in depths]
    return min(layouts, key=lambda each: each.estimated_bytes)


def _indexed_layout(picture: palette.Indexed, bits: int, check_stop: CheckStop) -> _Layout:
    chunks = _palette_chunks(picture.colours)
    header = _header(picture.width_px, picture.height_px, bits, _PALETTE)
    filtered, estimated_bytes = _filtered(picture.index_image(), check_stop, bitdepth=bits)
    return _Layout(header, tuple(chunks), filtered, estimated_bytes + sum(map(len, chunks)))


def _palette_chunks(colours: Sequence[bytes]) -> list[bytes]:
    chunks = [container.chunk_bytes(b"PLTE", b"".join(colour[:3] for colour in colours))]
    alpha = bytes(colour[3] for colour in colours).rstrip(b"\xff")
    return [*chunks, container.chunk_bytes(b"tRNS", alpha)] if alpha else chunks


def _header(width_px: int, height_px: int, bits: int, colour_type: int) -> bytes:
    return container.chunk_bytes(b"IHDR", struct.pack(">IIBBBBB", width_px, height_px, bits, colour_type, 0, 0, 0))


def _filtered(rows: pyvips.Image, check_stop: CheckStop, **options: int) -> tuple[bytes, int]:
    """The filtered rows that compress best, and the estimate of their compressed size."""
    best, best_bytes = b"", 0
    for name in _FILTERS:
        saved = evaluate(rows, check_stop, "pngsave_buffer", filter=name, compression=0, keep="none", **options)
        stored = b"".join(
            saved[chunk.payload : chunk.end] for chunk in container.chunks(saved) if chunk.kind == b"IDAT"
        )
        filtered = zlib.decompress(stored)
        size_bytes = palette.estimated_bytes(filtered)
        if not best or size_bytes < best_bytes:
            best, best_bytes = filtered, size_bytes
    check_stop()
    return best, best_bytes


def _by_luma(picture: palette.Indexed) -> palette.Indexed:
    """The picture with its colours sorted: those with transparency first, each group from dark to light.

    Unused and duplicate colours are removed. All fully transparent colours count as one. Neighbouring pixels mostly
    have similar luma, so their indices are similar too, and row filters compress them better.
    """
    used = set(picture.indices)
    shown = {index: picture.colours[index] if picture.colours[index][3] else bytes(4) for index in used}
    colours = sorted(set(shown.values()), key=lambda colour: (colour[3] == 255, _luma(colour), colour))
    place = {colour: number for number, colour in enumerate(colours)}
    table = bytes(place[shown[index]] if index in used else 0 for index in range(256))
    return palette.Indexed(picture.width_px, picture.height_px, picture.indices.translate(table), tuple(colours))


def _luma(colour: bytes) -> int:
    return 299 * colour[0] + 587 * colour[1] + 114 * colour[2]


def _deflated(data: bytes) -> bytes:
    """The data as a zlib stream, compressed thoroughly. Level 12 takes four times as long as 10 and saves 2 % more."""
    return bytes(deflate.zlib_compress(data, 12 if len(data) <= 2_000_000 else 10))
