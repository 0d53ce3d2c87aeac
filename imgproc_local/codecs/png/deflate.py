"""PNG encoding: chooses the row filter that compresses best, and deflates the filtered rows thoroughly.

libvips applies each row filter, libdeflate compresses the filtered rows at a fast level, and those with the smallest
result are compressed again at a high level. The result depends only on the pixels, not on how they were compressed
before.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence

import deflate
from msgspec import Struct
from PIL import Image

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.picture.decode import evaluate, to_srgb_through
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.domain.errors import CheckStop

FILTERS = ("none", "sub", "up", "avg", "paeth", "all")
"""libvips' row filters: one for all rows, or, with "all", for each row the one with the smallest differences."""

_QUICK_LEVEL, _CAREFUL_LEVEL = 6, 8
"""libdeflate's levels for comparing row filters: the first for grey and RGB, the second for palette indices, for which
the estimate must be more precise.
"""
_LEVELS = ((2_000_000, 12), (8_000_000, 11), (64_000_000, 10))
"""For the final compression: pairs of a maximum size in bytes and libdeflate's level up to it. Level 12 takes four
times as long as level 10 and saves 2 % more.
"""
_LEVEL_ABOVE = 8
"""libdeflate's level for larger data."""

_SLICES, _SLICE_BYTES = 16, 64 * 1024
"""The compressed size of longer data is estimated from this many slices of this size."""

_INDEX_FILTERS = ("none", "sub", "up", "paeth", "all")
"""The row filters to try for palette indices."""
_ZLIB_HEADER_BYTES = 2
_MARK = b"\0\0\0\xff\xff"
"""The mark of a posterised picture: an empty stored block. Source: RFC 1951, 3.2.4."""

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
"""Colour types. Source: PNG, third edition, 11.2.1."""
_COLOUR_TYPES = {1: GREY, 2: GREY_ALPHA, 3: RGB, 4: RGBA}


class Indexed(Struct, frozen=True):
    """An indexed picture: one byte per pixel, its index into at most 256 colours. A colour is four bytes, RGBA."""

    width_px: int
    height_px: int
    indices: bytes
    colours: tuple[bytes, ...]

    def shown(self, profile: bytes | None = None) -> pyvips.Image:
        """The picture as RGBA, converted to sRGB from an ICC profile where one is given."""
        stored = b"".join(self.colours).ljust(1024, b"\0")
        colours = pyvips.Image.new_from_memory(stored, 256, 1, 4, "uchar").copy(interpretation="srgb")
        return self.index_image().maplut(to_srgb_through(colours, profile)).copy(interpretation="srgb")

    def index_image(self) -> pyvips.Image:
        return pyvips.Image.new_from_memory(self.indices, self.width_px, self.height_px, 1, "uchar")


def by_luma(picture: Indexed) -> Indexed:
    """The picture with its colours sorted: those with transparency first, each group from dark to light.

    Unused and duplicate colours are removed. All fully transparent colours count as one. Neighbouring pixels mostly
    have similar luma, so their indices are similar too, and row filters compress them better.
    """
    used = set(picture.indices)
    shown = {index: picture.colours[index] if picture.colours[index][3] else bytes(4) for index in used}
    colours = sorted(set(shown.values()), key=lambda colour: (colour[3] == 255, _luma(colour), colour))
    place = {colour: number for number, colour in enumerate(colours)}
    table = bytes(place[shown[index]] if index in used else 0 for index in range(256))
    return Indexed(picture.width_px, picture.height_px, picture.indices.translate(table), tuple(colours))


def _luma(colour: bytes) -> int:
    return 299 * colour[0] + 587 * colour[1] + 114 * colour[2]


def deflated(data: bytes) -> bytes:
    """The data as a zlib stream, compressed thoroughly."""
    level = next((level for most, level in _LEVELS if len(data) <= most), _LEVEL_ABOVE)
    return bytes(deflate.zlib_compress(data, level))


def estimated_bytes(data: bytes, level: int = _QUICK_LEVEL) -> int:
    """An estimate of the size of `deflated(data)`."""
    if len(data) > _SLICES * _SLICE_BYTES:
        step = len(data) // _SLICES
        part = b"".join(data[start : start + _SLICE_BYTES] for start in range(0, step * _SLICES, step))
        return len(deflate.zlib_compress(part, level)) * len(data) // len(part)
    return len(deflate.zlib_compress(data, level))


class Layout(Struct, frozen=True):
    """A PNG whose rows are filtered but not yet deflated. `chunks` are written between its header and its data."""

    header: bytes
    chunks: tuple[bytes, ...]
    filtered: bytes
    estimated_bytes: int

    def packed(self, *, marked: bool = False) -> bytes:
        """The file. With `marked`, its compressed data begins with the mark of a posterised picture."""
        stream = deflated(self.filtered)
        if marked:
            stream = stream[:_ZLIB_HEADER_BYTES] + _MARK + stream[_ZLIB_HEADER_BYTES:]
        chunks = (
            self.header,
            *self.chunks,
            container.chunk_bytes(b"IDAT", stream),
            container.chunk_bytes(b"IEND", b""),
        )
        return container.SIGNATURE + b"".join(chunks)


def is_marked(data: Data) -> bool:
    """Whether the compressed data begins with the mark of a posterised picture, which must not be posterised again.

    The mark is an empty block. Changes of the metadata do not remove it, and no other known program writes one there.
    """
    first = next((chunk for chunk in container.chunks(data) if chunk.kind == b"IDAT"), None)
    return (
        first is not None
        and data[first.payload + _ZLIB_HEADER_BYTES : first.payload + _ZLIB_HEADER_BYTES + len(_MARK)] == _MARK
    )


def layout(image: pyvips.Image, check_stop: CheckStop) -> Layout:
    """The lossless layout of a picture in memory: 8 or 16 bits, grey or RGB, with or without alpha."""
    bits = 16 if image.format == "ushort" else 8
    header = _header(image.width, image.height, bits, _COLOUR_TYPES[image.bands])
    return Layout(header, (), *_filtered(image, FILTERS, _QUICK_LEVEL, check_stop))


def indexed_layout(picture: Indexed, check_stop: CheckStop) -> Layout:
    """The layout with the smallest estimate, at the lowest possible bit depth or 8."""
    plain = by_luma(picture)
    depths = {8, next(bits for bits in (1, 2, 4, 8) if len(plain.colours) <= 1 << bits)}
    layouts = [_indexed_layout(plain, bits, check_stop) for bits in depths]
    return min(layouts, key=lambda each: each.estimated_bytes)


def _indexed_layout(picture: Indexed, bits: int, check_stop: CheckStop) -> Layout:
    chunks = _palette_chunks(picture.colours)
    header = _header(picture.width_px, picture.height_px, bits, PALETTE)
    filtered, estimated_bytes = _filtered(
        _packed_bits(picture.index_image(), bits), _INDEX_FILTERS, _CAREFUL_LEVEL, check_stop
    )
    return Layout(header, tuple(chunks), filtered, estimated_bytes + sum(map(len, chunks)))


def read_indexed(data: Data) -> Indexed:
    """The pixels and the palette of an indexed PNG. Indices beyond the palette are black, as in browsers."""
    # without its metadata: Pillow refuses pictures with long texts
    with Image.open(io.BytesIO(container.with_blocks(data, Blocks()))) as opened:
        opened.load()
        size, indices = opened.size, opened.tobytes()
    palette, alpha = b"", b""
    for chunk in container.chunks(data):
        if chunk.kind == b"PLTE":
            palette = bytes(data[chunk.payload : chunk.end])
        elif chunk.kind == b"tRNS":
            alpha = bytes(data[chunk.payload : chunk.end])
    palette, alpha = palette.ljust(768, b"\0"), alpha.ljust(256, b"\xff")
    colours = tuple(palette[3 * index : 3 * index + 3] + alpha[index : index + 1] for index in range(256))
    return Indexed(*size, indices, colours)


def _palette_chunks(colours: Sequence[bytes]) -> list[bytes]:
    chunks = [container.chunk_bytes(b"PLTE", b"".join(colour[:3] for colour in colours))]
    alpha = bytes(colour[3] for colour in colours).rstrip(b"\xff")
    return [*chunks, container.chunk_bytes(b"tRNS", alpha)] if alpha else chunks


def _header(width_px: int, height_px: int, bits: int, colour_type: int) -> bytes:
    return container.chunk_bytes(b"IHDR", struct.pack(">IIBBBBB", width_px, height_px, bits, colour_type, 0, 0, 0))


def _filtered(rows: pyvips.Image, filters: tuple[str, ...], level: int, check_stop: CheckStop) -> tuple[bytes, int]:
    """The filtered rows that compress best, and the estimate of their compressed size. `level` is for the estimates."""
    best, best_bytes = b"", 0
    for name in filters:
        saved = evaluate(rows, check_stop, "pngsave_buffer", filter=name, compression=0, keep="none")
        stored = b"".join(
            saved[chunk.payload : chunk.end] for chunk in container.chunks(saved) if chunk.kind == b"IDAT"
        )
        filtered = zlib.decompress(stored)
        size_bytes = estimated_bytes(filtered, level)
        if not best or size_bytes < best_bytes:
            best, best_bytes = filtered, size_bytes
    check_stop()
    return best, best_bytes


def _packed_bits(rows: pyvips.Image, bits: int) -> pyvips.Image:
    """Rows in which each byte holds several pixels of `bits` bits, the leftmost in the highest bits."""
    per_byte = 8 // bits
    if per_byte == 1:
        return rows
    width = -(-rows.width // per_byte)
    rows = rows.embed(0, 0, width * per_byte, rows.height)
    joined = None
    for place in range(per_byte):
        part = rows.crop(place, 0, rows.width - place, rows.height).embed(0, 0, rows.width, rows.height)
        part = part.subsample(per_byte, 1) << (8 - bits * (place + 1))
        joined = part if joined is None else joined | part
    assert joined is not None
    return joined.cast("uchar").copy(interpretation="b-w").copy_memory()
