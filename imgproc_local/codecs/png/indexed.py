"""Pictures with a palette, whose colours are ordered so that optimizing a file again gives the same bytes."""

from __future__ import annotations

from msgspec import Struct

from imgproc_local.codecs.picture.decode import to_srgb_through
from imgproc_local.codecs.picture.libvips import pyvips


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
