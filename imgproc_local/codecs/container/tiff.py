"""TIFF and BigTIFF as directories of tags: the header of the first page and the metadata in its tags. Read only.

Source: TIFF 6.0; BigTIFF as described by libtiff; XMP specification part 3, 3.2; IPTC-IIM and Photoshop's resources
in Adobe's TIFF technical notes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from msgspec import Struct

from imgproc_local.codecs.container import Blocks, Data, unpack
from imgproc_local.codecs.metadata import exif, iptc
from imgproc_local.codecs.metadata.bounds import MAX_BLOCK_BYTES, MAX_IFD_ENTRIES

_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_RAW_SIGNATURES = (
    (0, b"FUJIFILMCCD-RAW"), (0, b"IIRO"), (0, b"IIRS"), (0, b"MMOR"), (0, b"IIU\0"), (0, b"FOVb"), (0, b"\0MRM"),
    (4, b"ftypcrx "), (6, b"HEAPCCDR"), (8, b"CR\x02"),
)  # fmt: skip
"""Offset and bytes of raw files that are not TIFFs (RAF, ORF, RW2, X3F, MRW, CR3, CRW), and of CR2, which is one."""
_DNG_VERSION, _SENSOR, _MAX_SUB_DIRECTORIES = 50706, (32803, 34892), 8
"""A tag of DNG; photometric interpretations of DNG: a colour filter array, and linear raw."""

_SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 254, 256, 257, 258, 259, 262
_ORIENTATION, _SAMPLES, _SUB_IFDS, _EXTRA_SAMPLES, _SAMPLE_FORMAT = 274, 277, 330, 338, 339
_XMP, _IPTC, _PHOTOSHOP, _ICC, _EXIF_IFD, _GPS_IFD = 700, 33723, 34377, 34675, 34665, 34853

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8, 129: 1}
"""Bytes per value by field type. 16 to 18 are those of BigTIFF, 129 is UTF-8 of Exif 3.0."""
_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_MAX_NUMBERS = 16

_READABLE = frozenset((1, 2, 3, 4, 5, 7, 8, 32773, 32946))
"""None, CCITT (1D, G3, G4), LZW, JPEG, Deflate and PackBits: what the libtiff in libvips' packages can decompress."""
_COLOUR_SAMPLES = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3, 8: 3}
"""The number of samples of a colour, by photometric interpretation: grey, RGB, palette, CMYK, YCbCr, Lab."""
_YCBCR, _LAB, _JPEG = 6, 8, 7
_UNSIGNED, _SIGNED, _FLOAT, _UNDEFINED = range(1, 5)
_ALPHA = (1, 2)
"""Kinds of extra samples that are transparency: premultiplied and not. Others are masks and spot colours."""

_LAST_TIFF_TAG = 532
"""Fields up to this number are those of TIFF 6.0; they describe the pixels, except for those of `exif.TIFF_TAGS`."""


class Entry(Struct, frozen=True):
    """A field: `count` values of type `kind`, at `offset` of the file."""

    kind: int
    count: int
    offset: int

    @property
    def size_bytes(self) -> int:
        return _SIZES.get(self.kind, 0) * self.count


Directory = Mapping[int, Entry]


class Layout(Struct, frozen=True):
    """How a file stores numbers: the byte order as a `struct` character, and whether it is a BigTIFF."""

    order: str
    is_big: bool


def is_camera_raw(data: Data) -> bool:
    """Whether the first page is what a sensor recorded (DNG), or only the preview that cameras store before it."""
    layout, page = first_directory(data)
    is_reduced = next(iter(numbers(data, layout, page.get(_SUBFILE))), 0) & 1
    return bool(is_reduced) or _DNG_VERSION in page


def has_alpha(data: Data) -> bool:
    """Whether the first extra sample of the first page is transparency. Others are masks and spot colours."""
    layout, page = first_directory(data)
    return next(iter(numbers(data, layout, page.get(_EXTRA_SAMPLES))), 0) in _ALPHA


def _start(data: Data) -> tuple[Layout, int]:
    """The layout and the offset of the first directory."""
    layout = Layout("<" if data[:2] == b"II" else ">", data[2:4] in (b"+\0", b"\0+"))
    return layout, unpack(layout.order + ("Q" if layout.is_big else "I"), data, 8 if layout.is_big else 4, "header")[0]


def first_directory(data: Data) -> tuple[Layout, Directory]:
    """The layout, and the fields of the first page. Raises: BrokenImage."""
    layout, offset = _start(data)
    return layout, directory(data, layout, offset)[0]


def directory(data: Data, layout: Layout, offset: int) -> tuple[Directory, int]:
    """The fields at `offset` by tag, the first of equal tags, and the offset of the next directory, 0 for none.

    Raises: BrokenImage.
    """
    order, where = layout.order, "directory"
    head, each, inline = ("Q", 20, 8) if layout.is_big else ("H", 12, 4)
    count = unpack(order + head, data, offset, where)[0]
    at = offset + struct.calcsize(order + head)
    found: dict[int, Entry] = {}
    for number in range(min(count, MAX_IFD_ENTRIES)):
        start = at + each * number
        tag, kind, values = unpack(order + ("HHQ" if layout.is_big else "HHI"), data, start, where)
        entry = Entry(kind, values, start + each - inline)
        if entry.size_bytes > inline:
            (place,) = unpack(order + ("Q" if layout.is_big else "I"), data, entry.offset, where)
            entry = Entry(kind, values, place)
        found.setdefault(tag, entry)
    end = at + each * count
    if count > MAX_IFD_ENTRIES or end + inline > len(data):
        return found, 0
    return found, unpack(order + ("Q" if layout.is_big else "I"), data, end, where)[0]


def numbers(data: Data, layout: Layout, entry: Entry | None) -> tuple[int, ...]:
    """The first whole numbers of a field, at most 16; empty if there is no such field."""
    if entry is None or entry.kind not in _NUMBERS:
        return ()
    count = min(entry.count, _MAX_NUMBERS)
    return unpack(f"{layout.order}{count}{_NUMBERS[entry.kind]}", data, entry.offset, "directory")


def read_blocks(data: Data) -> Blocks:
    """The metadata of the first page; a block that is too large or lies outside the file counts as absent.

    The fields of EXIF are read from the file itself, except from a BigTIFF.
    """
    layout, page = first_directory(data)
    resources = _bytes(data, page.get(_PHOTOSHOP))
    datasets = _bytes(data, page.get(_IPTC))
    if datasets is not None and datasets[:1] != b"\x1c" and datasets[3:4] == b"\x1c":
        # some programs store the datasets as 32-bit numbers in the byte order of the file
        datasets = b"".join(datasets[at : at + 4][::-1] for at in range(0, len(datasets), 4))
    if datasets is None and resources is not None:
        datasets = iptc.from_photoshop(resources)
    return Blocks(
        xmp=_bytes(data, page.get(_XMP)),
        iptc=datasets,
        icc=_bytes(data, page.get(_ICC)),
        tiff=None if layout.is_big else data,
    )


def photoshop_resources(data: Data) -> bytes | None:
    """Photoshop's image resources; None if there are none or they are too large."""
    return _bytes(data, first_directory(data)[1].get(_PHOTOSHOP))


def has_unknown_fields(data: Data) -> bool:
    """Whether the first page has fields that neither describe its pixels nor are read as metadata."""
    known = exif.TIFF_TAGS | {_XMP, _IPTC, _PHOTOSHOP, _ICC, _EXIF_IFD, _GPS_IFD}
    return any(tag not in known and tag > _LAST_TIFF_TAG for tag in first_directory(data)[1])


def with_blocks(_data: Data, _blocks: Blocks) -> bytes:
    """TIFFs are read only: results are JPEG, PNG, WebP or AVIF."""
    raise NotImplementedError("TIFF files are not written")


def _bytes(data: Data, entry: Entry | None) -> bytes | None:
    if entry is None or not 0 < entry.size_bytes <= MAX_BLOCK_BYTES or entry.offset + entry.size_bytes > len(data):
        return None
    return bytes(data[entry.offset : entry.offset + entry.size_bytes])
