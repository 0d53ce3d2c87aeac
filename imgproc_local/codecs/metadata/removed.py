"""Names the kinds of private data in the metadata blocks of a file, and removes nothing: `blocks_for` in `record.py`
makes new blocks without them, and `with_blocks` of the container writes the file with those. Values are never reported.

The name of a field that is not published decides its kind: that of an XMP property, of a PNG text, or of an EXIF field.
Free text in it may add others. Fields that describe only how pixels are stored, and empty ones, have no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from imgproc_local.codecs.metadata import exif, icc, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.domain.image import Disclosure
from imgproc_local.domain.privacy import Removed, clean_text

_KINDS = {
    kind: names.split()
    for kind, names in {
        Removed.GPS: "gps latitude longitude altitude",
        Removed.CONTACT: "email citel phone",
        Removed.SOFTWARE: "history derivedfrom ancestors ingredients pantry software creatortool firmware parameters"
        " prompt workflow hostcomputer crs: camera-raw-settings/ xap/1.0/mm/ gimp.org/",
        Removed.THUMBNAIL: "thumbnail",
        Removed.PERSON: "region faces ownername authornames contributor photographer imageeditor",
        Removed.COMMENT: "usercomment imagedescription label notes caption warning",
        Removed.IDENTIFIER: "serialnumber documentid instanceid uniqueid guid identifier filename transactionid digest"
        " transmissionreference projectreference jobid",
        Removed.LOCATION: "sublocation locationname locationcode contentlocation",
        Removed.DATE: "date timestamp create modify creation subsectime offsettime",
        Removed.CAMERA: "makernote make model lens exif tiff microsoftphoto dji.com photo/1.0/",
    }.items()
}
"""Parts of the names of fields in lower case. The kind of a field is the first with a part that its name contains."""

_IPTC_KINDS = {
    **dict.fromkeys((26, 27), Removed.LOCATION),
    **dict.fromkeys((30, 35, 37, 38, 47, 55, 60, 62, 63), Removed.DATE),
    **dict.fromkeys((65, 70), Removed.SOFTWARE),
    **dict.fromkeys((22, 103), Removed.IDENTIFIER),
    118: Removed.CONTACT,
}
"""By dataset of record 2. Source: IIM 4.2."""
_IPTC_TECHNICAL = frozenset(((1, 0), (1, 20), (1, 22), (1, 90), (2, 0), (2, 135)))
"""Version, file format and encoding; language."""

_TECHNICAL_NAMES = """
bitspersample colormode colorspace componentsconfiguration compressedbitsperpixel compression exifversion exifoffset
exifimageheight exifimagewidth exifinteroperabilityoffset flashpixversion iccprofile imagelength imagewidth
newsubfiletype orientation photometricinterpretation pixelxdimension pixelydimension planarconfiguration
primarychromaticities rating referenceblackwhite resolutionunit rowsperstrip samplesperpixel stripbytecounts
stripoffsets whitepoint xresolution ycbcrcoefficients ycbcrpositioning ycbcrsubsampling yresolution format li alt bag
seq
"""
_TECHNICAL = frozenset(_TECHNICAL_NAMES.split())
"""Fields that describe the stored pixels, arrays, and the rating, which is not private."""
_MAX_TECHNICAL_BYTES = 48
"""The longest of them, ReferenceBlackWhite, has six rational numbers."""
_EXTENDED_XMP, _GUID = "{http://ns.adobe.com/xmp/note/}HasExtendedXMP", re.compile("[0-9A-F]{32}")
_MAX_SCANNED_CHARACTERS = 16 * 1024
"""Characters of removed comments and unknown fields that are searched for further kinds of private data."""
_PADDING, _PADDING_BYTES = 0xEA1C, b"\0\x1c\xea\x08 "
"""A field with which Windows reserves room, and the bytes that fill it. Source: ExifTool's tag names."""
_DISPLAY_SERIAL = re.compile("mmod|serial")
"""In macOS's tag and in the keys of colord's metadata that hold the serial number of a display."""
_FREE_TEXT_KINDS = (Removed.COMMENT, Removed.OTHER)
_KINDS_IN_TEXTS = frozenset((Removed.GPS, Removed.CONTACT, Removed.IDENTIFIER))
"""Fields of the kinds `_FREE_TEXT_KINDS` are also searched for these."""


def kinds_in(blocks: Blocks, packet: xmp.Packet, kept: exif.KeptFields, disclosure: Disclosure) -> frozenset[Removed]:
    """The kinds of private fields in a file's blocks, of which `packet` is the XMP as parsed and `kept` is preserved.

    Those inside texts that are published are found by `clean_text`.
    """
    found = Kinds()
    _add_exif(found, blocks, kept)
    _add_iptc(found, blocks.iptc, disclosure)
    _add_profile(found, blocks.icc or b"")
    if not packet.is_complete:
        found.add(Removed.UNREADABLE)
    for element in packet.properties.values():
        _add_property(found, element, disclosure)
    return frozenset(found.kinds)


class Kinds:
    """Collects the kinds of removed fields, and those in their free text, up to `_MAX_SCANNED_CHARACTERS` of it."""

    def __init__(self) -> None:
        self.kinds: set[Removed] = set()
        self._characters_left = _MAX_SCANNED_CHARACTERS

    def add(self, kind: Removed, text: str = "") -> None:
        self.kinds.add(kind)
        if kind in _FREE_TEXT_KINDS and 0 < len(text) <= self._characters_left:
            self._characters_left -= len(text)
            self.kinds |= clean_text(text).removed & _KINDS_IN_TEXTS


def kind_of(name: str) -> Removed | None:
    """The kind of a field that is not published, by its name: an XMP name, or the keyword of a PNG text, such as
    `Software`, or `exif:GPSLatitude` as ImageMagick writes it. None if it describes how pixels are stored.
    """
    lower = name.lower()
    namespace, _, local = lower.replace("}", ":").rpartition(":")
    if local in _TECHNICAL or namespace in ("icc", "png", xmp.RDF[:-1].lower()):
        return None
    # the namespace counts only where the name itself says nothing
    named = (kind for part in (local, lower) for kind, parts in _KINDS.items() if any(each in part for each in parts))
    return next(named, Removed.OTHER)


def _add_exif(found: Kinds, blocks: Blocks, kept: exif.KeptFields) -> None:
    from PIL.ExifTags import TAGS  # a table of names, without the library that decodes pictures

    tiff = blocks.tiff or blocks.exif or b""
    main, shot, position = (exif.read_ifd(tiff, pointer) for pointer in (None, exif.EXIF_IFD, exif.GPS_IFD))
    about = [("", tag, field) for tag, field in main.fields.items() if not blocks.tiff or tag in exif.TIFF_TAGS]
    for prefix, tag, field in [*about, *(("exif:", *each) for each in shot.fields.items())]:
        if tag in (kept.shot if prefix else kept.main):
            continue
        size, kind = field.end - field.start, kind_of(prefix + TAGS[tag]) if tag in TAGS else Removed.OTHER
        if tag in xmp_fields.EXIF_FIELDS and not 0 <= size <= exif.MAX_TEXT_BYTES:
            found.add(Removed.UNREADABLE)
        if tag in xmp_fields.EXIF_FIELDS or tag == exif.GPS_IFD or (kind is None and size <= _MAX_TECHNICAL_BYTES):
            continue
        raw = tiff[field.start : min(field.end, field.start + exif.MAX_TEXT_BYTES)].removeprefix(b"ASCII\0\0\0")
        is_padding = tag == _PADDING and not raw.strip(_PADDING_BYTES)
        if size < 0 or (raw.strip(b"\0 ") and not is_padding):
            found.add(kind or Removed.OTHER, raw.decode("utf-8", "ignore").replace("\0", ""))
    is_complete = main.is_complete and shot.is_complete and position.is_complete
    if tiff[: exif.MAX_TEXT_BYTES].strip(b"\0 ") and not (main.fields and is_complete):
        found.add(Removed.UNREADABLE)
    if exif.GPS_IFD in main.fields and position.fields.keys() != {0}:  # 0 is the version
        found.add(Removed.GPS)
    if main.has_next and not blocks.tiff:  # the next directory of a file is a page
        found.add(Removed.THUMBNAIL)


def _add_iptc(found: Kinds, block: bytes | None, disclosure: Disclosure) -> None:
    datasets = iptc.read(block)
    if not datasets.is_complete:
        found.add(Removed.UNREADABLE)
    for record, number in datasets.stored - _IPTC_TECHNICAL:
        name = xmp_fields.IPTC_DATASETS.get(number) if record == 2 else None
        if name is not None and not xmp_fields.is_allowed(name, disclosure):
            found.add(Removed.LOCATION)
        elif name is None:
            texts = datasets.texts.get(number, []) if record == 2 else []
            found.add(_IPTC_KINDS.get(number, Removed.OTHER) if record == 2 else Removed.OTHER, "\n".join(texts))


def _add_profile(found: Kinds, profile: bytes) -> None:
    descriptions, others = (part.decode("latin-1").replace("\0", "") for part in icc.left_out(profile))
    texts = (descriptions + others)[:_MAX_SCANNED_CHARACTERS]
    # without positions: they look like measured colours
    found.kinds |= clean_text(texts).removed & {Removed.CONTACT, Removed.IDENTIFIER}
    if others.strip():
        found.add(Removed.IDENTIFIER if _DISPLAY_SERIAL.search(others) else Removed.OTHER)


def _add_property(found: Kinds, element: ET.Element, disclosure: Disclosure) -> None:
    if not xmp_fields.is_published(element.tag, disclosure):
        _add_removed(found, element, kind_of(element.tag))
        return
    for part in element.iter():
        if kind := _removed_kind(part.tag, disclosure):
            _add_removed(found, part, kind)
        for name, value in part.attrib.items():
            is_tag = name == xmp.LANG and xmp_fields.LANGUAGE_TAG.fullmatch(value)
            kind = None if is_tag else _removed_kind(name, disclosure)
            if kind and value.strip():
                found.add(kind, value)


def _removed_kind(name: str, disclosure: Disclosure) -> Removed | None:
    """The kind of a field in a property that is published; None if the field is published, too."""
    if not xmp_fields.is_allowed(name, disclosure):
        return Removed.PERSON if name == xmp.PERSONS else Removed.LOCATION
    if xmp_fields.is_known(name) or name.startswith(xmp.GAIN_MAP_NAMESPACES):
        return None
    return kind_of(name) or Removed.OTHER


def _add_removed(found: Kinds, element: ET.Element, kind: Removed | None) -> None:
    """Adds the `kind` of a property or field that is not published, and the kinds of the fields in it.

    A `kind` of None stands for a description of how pixels are stored: it adds nothing, unless it is too long for that.
    """
    values = [(name, value) for name, value in _values(element) if value.strip() and name not in xmp_fields.MARKS]
    if element.tag == _EXTENDED_XMP and all(_GUID.fullmatch(value) for _, value in values):
        return
    if kind is None and sum(len(value) for _, value in values) <= _MAX_TECHNICAL_BYTES:
        return
    for name, value in values:
        own = kind_of(name)
        found.add((own if own is not Removed.OTHER else None) or kind or Removed.OTHER, value)
        found.add(kind or Removed.OTHER)


def _values(element: ET.Element) -> Iterator[tuple[str, str]]:
    """The names and texts of an element, of all elements in it, and of their attributes."""
    for inner in element.iter():
        yield inner.tag, inner.text or ""
        yield from inner.attrib.items()
