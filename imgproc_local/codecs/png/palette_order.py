"""Orders the colours of a palette so that neighbouring pixels have similar indices: row filters then compress better.

The orders depend only on the colours of the pixels, not on the order in the file, so that optimizing a file again gives
the same bytes.
"""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.codecs.picture.decode import to_srgb_through
from imgproc_local.codecs.picture.libvips import pyvips

Counts = list[list[int]]


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

    Unused and duplicate colours are removed. All fully transparent colours count as one.
    """
    used = set(picture.indices)
    shown = {index: picture.colours[index] if picture.colours[index][3] else bytes(4) for index in used}
    colours = sorted(set(shown.values()), key=lambda colour: (colour[3] == 255, _luma(colour), colour))
    place = {colour: number for number, colour in enumerate(colours)}
    table = bytes(place[shown[index]] if index in used else 0 for index in range(256))
    return Indexed(picture.width_px, picture.height_px, picture.indices.translate(table), tuple(colours))


def by_neighbours(picture: Indexed) -> list[Indexed]:
    """The picture in two palette orders that place colours together whose pixels are often adjacent.

    `picture` is a result of `by_luma`, so that the orders do not depend on the one in the file.

    Source: W. Zeng, J. Li, S. Lei, "An efficient color re-indexing scheme for palette-based compression", 2000;
    S. Battiato et al., "A color reindexing algorithm for lossless compression of digital images", 2001.
    """
    counts = _adjacency(picture)
    return [_reordered(picture, order) for order in (_zeng_order(counts), _battiato_order(counts))]


def _luma(colour: bytes) -> int:
    return 299 * colour[0] + 587 * colour[1] + 114 * colour[2]


def _reordered(picture: Indexed, order: list[int]) -> Indexed:
    table = bytearray(256)
    for new, old in enumerate(order):
        table[old] = new
    colours = tuple(picture.colours[old] for old in order)
    return Indexed(picture.width_px, picture.height_px, picture.indices.translate(table), colours)


def _adjacency(picture: Indexed) -> Counts:
    """A symmetric matrix: how often a pixel of one colour is next to a pixel of another, horizontally or vertically."""
    indices = picture.index_image()
    size = len(picture.colours)
    counts = [[0] * size for _ in range(size)]
    for right, down in ((1, 0), (0, 1)):
        width, height = indices.width - right, indices.height - down
        if width < 1 or height < 1:
            continue
        pairs = (indices.crop(right, down, width, height).cast("ushort") << 8) | indices.crop(0, 0, width, height)
        histogram = memoryview(pairs.cast("ushort").hist_find().write_to_memory()).cast("I")
        for pair, count in enumerate(histogram):
            if count:
                counts[pair >> 8][pair & 255] += count
                counts[pair & 255][pair >> 8] += count
    return counts


def _zeng_order(counts: Counts) -> list[int]:
    """Zeng's order: repeatedly adds the colour that is most often adjacent to those placed already.

    A colour is added at the beginning or at the end, whichever is nearer to the colours that it is often adjacent to.
    """
    adjacent_to_placed = [0] * len(counts)
    remaining = set(range(len(counts)))
    order: list[int] = []
    following = max(remaining, key=lambda one: (sum(counts[one]) - counts[one][one], -one))
    while True:
        row = counts[following]
        # positive if most adjacent colours are in the first half of the order
        balance = sum((len(order) - 1 - 2 * place) * row[placed] for place, placed in enumerate(order))
        order.insert(0 if balance > 0 else len(order), following)
        remaining.discard(following)
        if not remaining:
            return order
        for one in remaining:
            adjacent_to_placed[one] += row[one]
        following = max(remaining, key=lambda one: (adjacent_to_placed[one], -one))


def _battiato_order(counts: Counts) -> list[int]:
    """Battiato's order: joins the most frequently adjacent colours into chains and concatenates the chains."""
    pairs = [(-count, one, other) for one, row in enumerate(counts) for other, count in enumerate(row[:one]) if count]
    chain_of = {one: [one] for one in range(len(counts))}
    for _, one, other in sorted(pairs):
        chain, added = chain_of[one], chain_of[other]
        if chain is added or one not in (chain[0], chain[-1]) or other not in (added[0], added[-1]):
            continue
        if chain[-1] != one:
            chain.reverse()
        if added[0] != other:
            added.reverse()
        chain += added
        for each in added:
            chain_of[each] = chain
    order: list[int] = []
    for one in range(len(counts)):
        if one == min(chain_of[one]):
            order += chain_of[one]
    return order
