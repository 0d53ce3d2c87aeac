"""Finds the kinds of private data in a file's metadata blocks, to report what was removed. Values are never reported.

The name of a field that is not published decides its kind; free text in it may add others. Fields that describe only
how pixels are stored, and empty ones, have no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from xml.etree import ElementTree as ET

from imgproc_local.codecs.metadata import exif, icc, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.metadata.bounds import MAX_EXIF_TEXT_BYTES, MAX_SCANNED_CHARACTERS
from imgproc_local.domain.image import KeepLocation
from imgproc_local.domain.privacy import Removed, clean_text


def _by_number(numbers: Mapping[Removed, Iterable[int]]) -> dict[int, Removed]:
    return {number: kind for kind, each in numbers.items() for number in each}


_EXIF_KINDS = _by_number({
    Removed.CAMERA: (0x010F, 0x0110, 0x829A, 0x829D, *range(0x8822, 0xA500), 0xC614, 0xC634),
    Removed.SOFTWARE: (0x000B, 0x0131, 0x013C, *range(0xA439, 0xA43D)),
    Removed.DATE: (0x0132, 0x9003, 0x9004, *range(0x9010, 0x9013), *range(0x9290, 0x9293)),
    Removed.IDENTIFIER: (0xA420, 0xA431, 0xA435, 0xC62F, 0xC65D, 0xC68B),
    Removed.PERSON: (0xA430, 0xA437, 0xA438),
    Removed.COMMENT: (0x9286, 0xA436),
})  # fmt: skip
"""By tag in IFD0 or the Exif IFD; most fields of the latter are about the camera.

Source: CIPA DC-008 (Exif 3.0); Adobe DNG 1.7.
"""

_EXIF_TECHNICAL = frozenset(
    (
        0x00FE, 0x0100, 0x0101, 0x0102, 0x0103, 0x0106, 0x0111, 0x0112, 0x0115, 0x0116, 0x0117, 0x011A, 0x011B, 0x011C,
        0x0128, 0x0211, 0x0212, 0x0213, 0x0214, exif.EXIF_IFD, 0x9000, 0x9101, 0x9102, 0xA000, 0xA001, 0xA002, 0xA003,
        0xA005,
    )
)  # fmt: skip
"""Size, resolution, colour encoding, version numbers and offsets of IFDs."""
_MAX_TECHNICAL_BYTES = 48
"""The longest of them, ReferenceBlackWhite, has six rational numbers."""
_GPS_VERSION = 0

_IPTC_KINDS = _by_number({
    Removed.LOCATION: (26, 27),
    Removed.DATE: (30, 35, 37, 38, 47, 55, 60, 62, 63),
    Removed.SOFTWARE: (65, 70, 221, 231),
    Removed.IDENTIFIER: (22, 103, 184, 187, 188, 189),
    Removed.CONTACT: (118,),
    Removed.COMMENT: (121, 230),
    Removed.PERSON: (190,),
    Removed.THUMBNAIL: (200, 201, 202),
})  # fmt: skip
"""By dataset of record 2. Source: IIM 4.2; ExifTool's tag names for the datasets above 185."""
_IPTC_TECHNICAL = frozenset(((1, 0), (1, 20), (1, 22), (1, 90), (2, 0), (2, 135)))
"""Version, file format and encoding; language."""
_PREVIEW_RECORDS = (7, 8, 9)

_NAMED_KINDS = {
    Removed.GPS: ("gps", "latitude", "longitude", "altitude"),
    Removed.CONTACT: ("email", "citel", "phone"),
    Removed.SOFTWARE: (
        "history", "derivedfrom", "ancestors", "ingredients", "pantry", "software", "creatortool", "firmware",
        "parameters", "prompt", "workflow",
    ),
    Removed.THUMBNAIL: ("thumbnail",),
    Removed.PERSON: (
        "region", "faces", "ownername", "authornames", "contributor", "photographer", "imageeditor",
    ),
    Removed.CAMERA: ("makernote",),
    Removed.COMMENT: ("usercomment", "imagedescription", "label", "notes", "caption", "warning"),
    Removed.IDENTIFIER: (
        "serialnumber", "documentid", "instanceid", "uniqueid", "guid", "identifier", "filename", "transactionid",
        "digest", "transmissionreference", "projectreference", "jobid",
    ),
    Removed.LOCATION: ("location",),
    Removed.DATE: ("date", "timestamp", "create", "modify", "creation time"),
}  # fmt: skip
"""By a part of the name of an XMP property or the keyword of a PNG text in lower case, the first that occurs."""

_NAMESPACE_KINDS = {
    Removed.CAMERA: (
        "{http://ns.adobe.com/exif/", "{http://cipa.jp/exif/", xmp.TIFF, "{http://ns.microsoft.com/photo/1.0/",
        "{http://www.dji.com/",
    ),
    Removed.SOFTWARE: (
        "{http://ns.adobe.com/camera-raw-settings/", "{http://ns.adobe.com/xap/1.0/mm/", "{http://www.gimp.org/",
    ),
}  # fmt: skip
"""The kind of a property whose name says nothing, by the beginning of its namespace."""

_XMP_TECHNICAL_NAMES = """
BitsPerSample ColorMode ColorSpace ComponentsConfiguration Compression ExifVersion FlashpixVersion ICCProfile
ImageLength ImageWidth Orientation PhotometricInterpretation PixelXDimension PixelYDimension
PlanarConfiguration PrimaryChromaticities Rating ReferenceBlackWhite ResolutionUnit SamplesPerPixel WhitePoint
XResolution YCbCrCoefficients YCbCrPositioning YCbCrSubSampling YResolution format Format li Alt Bag Seq
"""
_XMP_TECHNICAL = frozenset(_XMP_TECHNICAL_NAMES.split())
"""Local names of fields that describe the stored pixels, of arrays, and of the rating, which is not private."""

_PNG_TECHNICAL = frozenset(name.lower() for name in _XMP_TECHNICAL)
_MAX_TECHNICAL_CHARACTERS = 32
_EXTENDED_XMP, _GUID = "{http://ns.adobe.com/xmp/note/}HasExtendedXMP", re.compile("[0-9A-F]{32}")
_PADDING, _PADDING_BYTES = 0xEA1C, b"\0\x1c\xea\x08 "
"""A field with which Windows reserves room, and the bytes that fill it. Source: ExifTool's tag names."""
_DISPLAY_SERIAL = re.compile("mmod|serial")
"""In macOS's tag and in the keys of colord's metadata that hold the serial number of a display."""
_FREE_TEXT_KINDS = (Removed.COMMENT, Removed.OTHER)
_KINDS_IN_TEXTS = frozenset((Removed.GPS, Removed.CONTACT, Removed.IDENTIFIER))
"""Fields of the kinds `_FREE_TEXT_KINDS` are also searched for these."""


def kinds_in(blocks: Blocks, packet: xmp.Packet, keep_location: KeepLocation) -> frozenset[Removed]:
    """The kinds of private fields in a file's blocks, of which `packet` is the XMP as parsed.

    Those inside texts that are published are found by `clean_text`.
    """
    found = Kinds()
    _add_exif(found, blocks)
    _add_iptc(found, blocks.iptc, keep_location)
    _add_profile(found, blocks.icc or b"")
    if not packet.is_complete:
        found.kinds.add(Removed.UNREADABLE)
    for element in packet.properties.values():
        _add_property(found, element, keep_location)
    return frozenset(found.kinds)


class Kinds:
    """Collects the kinds of removed fields, and those in their free text, up to `MAX_SCANNED_CHARACTERS` of it."""

    def __init__(self) -> None:
        self.kinds: set[Removed] = set()
        self._characters_left = MAX_SCANNED_CHARACTERS

    def add(self, kind: Removed, text: str = "") -> None:
        self.kinds.add(kind)
        if kind in _FREE_TEXT_KINDS and 0 < len(text) <= self._characters_left:
            self._characters_left -= len(text)
            self.kinds |= clean_text(text).removed & _KINDS_IN_TEXTS


def _add_exif(found: Kinds, blocks: Blocks) -> None:
    tiff = blocks.tiff or blocks.exif or b""
    main, shot, position = (exif.read_ifd(tiff, pointer) for pointer in (None, exif.EXIF_IFD, exif.GPS_IFD))
    named = [(tag, field) for tag, field in main.fields.items() if not blocks.tiff or tag in exif.TIFF_TAGS]
    for tag, field in [*named, *shot.fields.items()]:
        size = field.end - field.start
        if tag in exif.FIELDS and not 0 <= size <= MAX_EXIF_TEXT_BYTES:
            found.add(Removed.UNREADABLE)
        if tag in exif.FIELDS or tag == exif.GPS_IFD or (tag in _EXIF_TECHNICAL and size <= _MAX_TECHNICAL_BYTES):
            continue
        raw = tiff[field.start : min(field.end, field.start + MAX_EXIF_TEXT_BYTES)].removeprefix(b"ASCII\0\0\0")
        is_padding = tag == _PADDING and not raw.strip(_PADDING_BYTES)
        if size < 0 or (raw.strip(b"\0 ") and not is_padding):
            found.add(_EXIF_KINDS.get(tag, Removed.OTHER), raw.decode("utf-8", "ignore").replace("\0", ""))
    is_complete = main.is_complete and shot.is_complete and position.is_complete
    if tiff[:MAX_EXIF_TEXT_BYTES].strip(b"\0 ") and not (main.fields and is_complete):
        found.add(Removed.UNREADABLE)
    if exif.GPS_IFD in main.fields and (set(position.fields) - {_GPS_VERSION} or not position.fields):
        found.add(Removed.GPS)
    if main.has_next and not blocks.tiff:  # the next directory of a file is a page
        found.add(Removed.THUMBNAIL)


def _add_iptc(found: Kinds, block: bytes | None, keep_location: KeepLocation) -> None:
    datasets = iptc.read(block)
    if not datasets.is_complete:
        found.add(Removed.UNREADABLE)
    for record, number in datasets.stored:
        if (record, number) == (2, iptc.SUBLOCATION) and keep_location is not KeepLocation.ALL:
            found.add(Removed.LOCATION)
        if (record, number) in _IPTC_TECHNICAL or (record == 2 and number in iptc.DATASETS):
            continue
        kind = Removed.THUMBNAIL if record in _PREVIEW_RECORDS else Removed.OTHER
        found.add(_IPTC_KINDS.get(number, Removed.OTHER) if record == 2 else kind)
    for number, texts in datasets.texts.items():
        kind = _IPTC_KINDS.get(number, Removed.OTHER)
        if number not in iptc.DATASETS and (2, number) not in _IPTC_TECHNICAL:
            for text in texts:
                found.add(kind, text)


def _add_profile(found: Kinds, profile: bytes) -> None:
    descriptions, others = (part.decode("latin-1").replace("\0", "") for part in icc.left_out(profile))
    texts = (descriptions + others)[:MAX_SCANNED_CHARACTERS]
    # without positions: they look like measured colours
    found.kinds |= clean_text(texts).removed & {Removed.CONTACT, Removed.IDENTIFIER}
    if others.strip():
        found.add(Removed.IDENTIFIER if _DISPLAY_SERIAL.search(others) else Removed.OTHER)


def _add_property(found: Kinds, element: ET.Element, keep_location: KeepLocation) -> None:
    if xmp_fields.rank(element.tag) is None:
        _add_removed(found, element, _kind_of(element.tag))
        return
    unvisited = [element]
    while unvisited:
        part = unvisited.pop()
        kind = _removed_kind(part.tag, keep_location)
        if kind is not None:
            _add_removed(found, part, kind)
            continue
        unvisited += part
        for name, value in part.attrib.items():
            if name == xmp.LANG:
                kind = None if xmp_fields.LANGUAGE_TAG.fullmatch(value) else Removed.OTHER
            else:
                kind = _removed_kind(name, keep_location)
            if kind is not None and value.strip():
                found.add(kind, value)


def _removed_kind(name: str, keep_location: KeepLocation) -> Removed | None:
    """The kind of a field in a property that is published; None if the field is published, too."""
    if not xmp_fields.is_allowed_place(name, keep_location):
        return Removed.LOCATION
    if xmp_fields.is_known(name) or name.startswith(xmp.GAIN_MAP_NAMESPACES):
        return None
    return _kind_of(name) or Removed.OTHER


def _add_removed(found: Kinds, element: ET.Element, kind: Removed | None) -> None:
    """Adds the `kind` of a property or field that is not published, and the kinds of the fields in it.

    A `kind` of None stands for a description of how pixels are stored: it adds nothing, unless it is too long for that.
    """
    values = [(name, value) for name, value in _values(element) if value.strip() and name not in xmp_fields.MARKS]
    if element.tag == _EXTENDED_XMP and all(_GUID.fullmatch(value) for _, value in values):
        return
    if kind is None and sum(len(value) for _, value in values) <= _MAX_TECHNICAL_CHARACTERS:
        return
    for name, value in values:
        own = _kind_of(name)
        found.add((own if own is not Removed.OTHER else None) or kind or Removed.OTHER, value)
        found.add(kind or Removed.OTHER)


def _values(element: ET.Element) -> Iterator[tuple[str, str]]:
    """The names and texts of an element, of all elements in it, and of their attributes."""
    for inner in element.iter():
        yield inner.tag, inner.text or ""
        yield from inner.attrib.items()


def kind_of_keyword(keyword: str) -> Removed | None:
    """The kind of a PNG text by its keyword, such as `Software`, or `exif:GPSLatitude` as ImageMagick writes it.

    None if it describes how pixels are stored.
    """
    prefix, _, local = keyword.lower().rpartition(":")
    if prefix in ("icc", "png") or local in _PNG_TECHNICAL:
        return None
    return _named_kind(keyword) or (Removed.CAMERA if prefix.startswith("exif") else Removed.OTHER)


def _kind_of(name: str) -> Removed | None:
    """The kind of a property or field that is not published; None if it describes how pixels are stored."""
    local = name.rpartition("}")[2]
    if local in _XMP_TECHNICAL or name.startswith(xmp.RDF):
        return None
    by_namespace = (kind for kind, starts in _NAMESPACE_KINDS.items() if name.startswith(starts))
    return _named_kind(local) or next(by_namespace, Removed.OTHER)


def _named_kind(name: str) -> Removed | None:
    lower = name.lower()
    return next((kind for kind, parts in _NAMED_KINDS.items() if any(part in lower for part in parts)), None)
