"""Which boxes of an AVIF or HEIC, and which of their fields, readers need. All others may hold private data.

Source: ISO/IEC 14496-12 (boxes), 23008-12 (items and their properties), AV1-ISOBMFF and AVIF 1.1.
"""

from __future__ import annotations

from imgproc_local.codecs.metadata.icc import rewritten_in_place


def _kinds(names: str) -> frozenset[bytes]:
    return frozenset(name.encode().ljust(4) for name in names.split())


CHILDREN = {
    b"": _kinds("ftyp meta moov mdat"),  # of the file
    b"meta": _kinds("hdlr dinf pitm iloc iinf iref iprp idat grpl"),
    b"iprp": _kinds("ipco ipma"),
    b"moov": _kinds("mvhd trak"),
    b"trak": _kinds("tkhd edts tref mdia meta"),
    b"edts": _kinds("elst"),
    b"tref": _kinds("auxl prem"),
    b"mdia": _kinds("mdhd hdlr minf"),
    b"minf": _kinds("vmhd nmhd dinf stbl"),
    b"dinf": _kinds("dref"),
    b"dref": _kinds("url"),
    b"stbl": _kinds("stsd stts ctts stss stsc stsz stco co64"),
    b"stsd": _kinds("av01"),
    b"av01": _kinds("av1C colr pasp clap auxi ccst btrt clli mdcv"),
}
"""The boxes in a box, by its type."""
REPEATED = _kinds("mdat trak ipma av01 colr")
"""Boxes of which readers use all. Of other boxes of a type they use the first."""

PROPERTIES = _kinds(
    "ispe pixi av1C colr auxC irot imir clap pasp clli mdcv cclv amve a1op a1lx lsel rloc iscl reve ndwt hvcC lhvC"
)
ITEMS = _kinds("av01 grid iden iovl tmap sato hvc1 lhv1")
REFERENCES = _kinds("auxl base cdsc dimg exbl prem tbas thmb")
GROUPS = _kinds("altr ster")
HANDLERS = _kinds("pict auxv vide")
_BRANDS = _kinds(
    "avif avis avio mif1 mif2 miaf MA1A MA1B msf1 tmap 1pic av01 isom mp41 mp42 iso2 iso3 iso4 iso5 iso6 iso7 iso8 iso9"
    " heic heix heim heis hevc hevx MiHB MiHA MiHE"
)
_NAMES = frozenset((b"libavif", b"\x0aAOM Coding", *b"Color Alpha Image Exif XMP GMap SampleTransform".split()))
"""Names that encoders write into every file: of the handler, the compressor and items."""
_AUXILIARY_TYPES = frozenset(
    b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha urn:mpeg:mpegB:cicp:systems:auxiliary:depth"
    b" urn:mpeg:hevc:2015:auxid:1 urn:mpeg:hevc:2015:auxid:2"
    b" urn:com:apple:photo:2020:aux:hdrgainmap urn:com:photo:aux:hdrgainmap".split()
)

_LENGTHS = {
    b"meta": 4, b"iref": 4, b"ipma": 8, b"dref": 8, b"url ": 4, b"vmhd": 12, b"nmhd": 4, b"stsd": 8, b"ccst": 8,
    b"btrt": 12, b"auxl": 4, b"prem": 4, b"ispe": 12, b"irot": 1, b"imir": 1, b"clap": 32, b"pasp": 8, b"clli": 4,
    b"mdcv": 24, b"cclv": 32, b"amve": 8, b"a1op": 1, b"a1lx": 13, b"lsel": 2, b"rloc": 12, b"iscl": 12, b"reve": 28,
    b"ndwt": 8,
}  # fmt: skip
"""Bytes of the fields that are followed by nothing, or by what has its own length."""
_LENGTHS_BY_VERSION = {
    b"iinf": (6, 8), b"pitm": (6, 8), b"mvhd": (100, 112), b"tkhd": (84, 96), b"mdhd": (24, 36),
}  # fmt: skip
_ENTRIES = {
    b"elst": (12, 20), b"stts": (8, 8), b"ctts": (8, 8), b"stss": (4, 4), b"stsc": (12, 12), b"stco": (4, 4),
    b"co64": (8, 8),
}  # fmt: skip
"""Bytes of an entry, by the version of the table. The number of entries follows the version and flags."""
_COMPRESSOR, _SAMPLE_ENTRY_BYTES = slice(42, 74), 78


def fields(kind: bytes, content: bytes) -> bytes | None:
    """The known fields at the beginning of a box's content; None if it is of no use."""
    version, number = content[:1] >= b"\1", int.from_bytes(content[4:8], "big")
    if kind in _LENGTHS_BY_VERSION:
        return content[: _LENGTHS_BY_VERSION[kind][version]]
    if kind in _ENTRIES:
        return content[: 8 + number * _ENTRIES[kind][version]]
    match kind:
        case b"stsz":  # all samples have the same size, or each its own
            return content[: 12 if number else 12 + 4 * int.from_bytes(content[8:12], "big")]
        case b"pixi":  # with flags, three bytes describe a channel
            return content[: 5 + int.from_bytes(content[4:5], "big") * (3 if any(content[1:4]) else 1)]
        case b"colr":
            if content[:4] in (b"prof", b"rICC"):
                return content[:4] + rewritten_in_place(content[4:])
            return content[:11] if content[:4] == b"nclx" else None
        case b"auxC" | b"auxi":  # libheif refuses an auxiliary picture without this box, but not with an empty type
            urn = content[4:].split(b"\0", 1)[0]
            return content[:4] + (urn + b"\0" if urn in _AUXILIARY_TYPES else b"")
        case b"hdlr":
            return bytes(8) + content[8:12] + bytes(12) + name(content[24:])
        case b"ftyp":
            brands = (content[at : at + 4] for at in range(8, len(content) - 3, 4))
            return content[:8] + b"".join(brand if brand in _BRANDS else bytes(4) for brand in brands)
        case b"av01":
            compressor = name(content[_COMPRESSOR]).ljust(32, b"\0")
            return content[: _COMPRESSOR.start] + compressor + content[_COMPRESSOR.stop : _SAMPLE_ENTRY_BYTES]
        case b"av1C" | b"hvcC" | b"lhvC":
            return content
    return content[: _LENGTHS.get(kind, 0)]


def name(stored: bytes) -> bytes:
    """A name up to its end; empty if it is not one that encoders write into every file."""
    name = stored.split(b"\0", 1)[0]
    return name if name in _NAMES else b""
