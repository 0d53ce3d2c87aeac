"""Finds the kinds of private data in a file's metadata blocks, to report what was removed. Values are never reported.

The name of a field that is not published decides its kind; free text in it may add others. Fields that describe only
how pixels are stored, and empty ones, have no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from imgproc_local.codecs.metadata import exif, icc, iptc, xmp, xmp_fields
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.metadata.bounds import MAX_EXIF_TEXT_BYTES, MAX_SCANNED_CHARACTERS
from imgproc_local.domain.image import KeepLocation
from imgproc_local.domain.privacy import Removed, clean_text

_EXIF_KINDS = {
    0x000B: Removed.SOFTWARE,  # ProcessingSoftware
    0x010F: Removed.CAMERA,  # Make
    0x0110: Removed.CAMERA,  # Model
    0x0131: Removed.SOFTWARE,
    0x0132: Removed.DATE,
    0x013C: Removed.SOFTWARE,  # HostComputer
    0x927C: Removed.MAKER_NOTE,
    0x9286: Removed.COMMENT,  # UserComment
    0xA420: Removed.IDENTIFIER,  # ImageUniqueID
    0xA430: Removed.OWNER,  # CameraOwnerName
    0xA431: Removed.SERIAL_NUMBER,
    0xA435: Removed.SERIAL_NUMBER,
    0xA436: Removed.COMMENT,  # ImageTitle
    0xA437: Removed.OWNER,  # Photographer
    0xA438: Removed.OWNER,  # ImageEditor
    0xC614: Removed.CAMERA,  # UniqueCameraModel
    0xC62F: Removed.SERIAL_NUMBER,
    0xC634: Removed.MAKER_NOTE,  # DNGPrivateData
    0xC65D: Removed.IDENTIFIER,  # RawDataUniqueID
    0xC68B: Removed.IDENTIFIER,  # OriginalRawFileName
    **dict.fromkeys((0x9003, 0x9004, *range(0x9010, 0x9013), *range(0x9290, 0x9293)), Removed.DATE),
    **dict.fromkeys(range(0xA439, 0xA43D), Removed.SOFTWARE),  # firmware, developing and editing software
    **dict.fromkeys((0x829A, 0x829D, *range(0x8822, 0x8825), *range(0x8827, 0x8836)), Removed.CAMERA),
    **dict.fromkeys((*range(0x9201, 0x9218), *range(0x9400, 0x9406), *range(0xA20B, 0xA218)), Removed.CAMERA),
    **dict.fromkeys((*range(0xA300, 0xA40D), *range(0xA432, 0xA435), *range(0xA460, 0xA463)), Removed.CAMERA),
}
"""By tag in IFD0 or the Exif IFD. Source: CIPA DC-008 (Exif 3.0); Adobe DNG 1.7."""

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

_IPTC_KINDS = {
    22: Removed.IDENTIFIER,
    **dict.fromkeys((26, 27), Removed.LOCATION),
    **dict.fromkeys((30, 35, 37, 38, 47, 55, 60, 62, 63), Removed.DATE),
    **dict.fromkeys((65, 70, 221), Removed.SOFTWARE),
    **dict.fromkeys((103, 184, 187, 188, 189), Removed.IDENTIFIER),
    118: Removed.CONTACT,
    **dict.fromkeys((121, 230), Removed.COMMENT),
    190: Removed.OWNER,
    **dict.fromkeys((200, 201, 202), Removed.THUMBNAIL),
    231: Removed.HISTORY,
    232: Removed.CAMERA,
}
"""By dataset of record 2. Source: IIM 4.2; ExifTool's tag names for the datasets above 185."""
_IPTC_TECHNICAL = frozenset(((1, 0), (1, 20), (1, 22), (1, 90), (2, 0), (2, 135)))
"""Version, file format and encoding; language."""
_PREVIEW_RECORDS = (7, 8, 9)

_XMP_KINDS = (
    (("gps", "latitude", "longitude", "altitude"), Removed.GPS),
    (("serialnumber",), Removed.SERIAL_NUMBER),
    (("email",), Removed.EMAIL),
    (("citel", "telephone", "phone"), Removed.CONTACT),
    (("history", "derivedfrom", "ancestors", "ingredients", "pantry", "manifest"), Removed.HISTORY),
    (("thumbnail",), Removed.THUMBNAIL),
    (("region", "faces"), Removed.FACES),
    (("ownername", "authornames", "contributor", "photographer", "imageeditor"), Removed.OWNER),
    (("makernote",), Removed.MAKER_NOTE),
    (("provenance",), Removed.CONTENT_CREDENTIALS),
    (("software", "creatortool", "firmware"), Removed.SOFTWARE),
    (("usercomment", "imagedescription", "label", "notes", "caption"), Removed.COMMENT),
    (("documentid", "instanceid", "uniqueid", "guid", "identifier", "filename", "transactionid", "digest"),
     Removed.IDENTIFIER),
    (("transmissionreference", "projectreference", "jobid"), Removed.IDENTIFIER),
    (("location", "sublocation"), Removed.LOCATION),
    (("date", "timestamp"), Removed.DATE),
)  # fmt: skip
"""By a part of the local name in lower case, the first that occurs."""

_XMP_NAMESPACES = {
    "http://ns.adobe.com/exif/1.0/": Removed.CAMERA,
    "http://cipa.jp/exif/1.0/": Removed.CAMERA,
    "http://ns.adobe.com/exif/1.0/aux/": Removed.CAMERA,
    "http://ns.adobe.com/tiff/1.0/": Removed.CAMERA,
    "http://ns.microsoft.com/photo/1.0/": Removed.CAMERA,
    "http://www.dji.com/drone-dji/1.0/": Removed.CAMERA,
    "http://ns.adobe.com/camera-raw-settings/1.0/": Removed.SOFTWARE,
    "http://ns.adobe.com/xap/1.0/mm/": Removed.HISTORY,
    "http://www.gimp.org/xmp/": Removed.SOFTWARE,
}
"""The kind of a property whose name says nothing."""

_XMP_TECHNICAL_NAMES = """
BitsPerSample ColorMode ColorSpace ComponentsConfiguration Compression ExifVersion FlashpixVersion ICCProfile
ImageLength ImageWidth Orientation PhotometricInterpretation PixelXDimension PixelYDimension
PlanarConfiguration PrimaryChromaticities Rating ReferenceBlackWhite ResolutionUnit SamplesPerPixel WhitePoint
XResolution YCbCrCoefficients YCbCrPositioning YCbCrSubSampling YResolution format Format li Alt Bag Seq
"""
_XMP_TECHNICAL = frozenset(_XMP_TECHNICAL_NAMES.split())
"""Local names of fields that describe the stored pixels, of arrays, and of the rating, which is not private."""

_PNG_KINDS = {
    "source": Removed.CAMERA,
    "creation time": Removed.DATE,
    "create": Removed.DATE,
    "modify": Removed.DATE,
    "warning": Removed.COMMENT,
    "parameters": Removed.SOFTWARE,
    "prompt": Removed.SOFTWARE,
    "workflow": Removed.SOFTWARE,
}
"""Keywords of PNG texts in lower case. Source: W3C PNG specification, third edition, 11.3.3.1; ImageMagick."""
_PNG_TECHNICAL = frozenset(name.lower() for name in _XMP_TECHNICAL)
_MAX_TECHNICAL_CHARACTERS = 32
_EXTENDED_XMP, _GUID = "{http://ns.adobe.com/xmp/note/}HasExtendedXMP", re.compile("[0-9A-F]{32}")
_PADDING, _PADDING_BYTES = 0xEA1C, b"\0\x1c\xea\x08 "
"""A field with which Windows reserves room, and the bytes that fill it. Source: ExifTool's tag names."""
_DISPLAY_SERIAL = re.compile("mmod|serial")
"""In macOS's tag and in the keys of colord's metadata that hold the serial number of a display."""
_FREE_TEXT_KINDS = (Removed.COMMENT, Removed.OTHER)
_KINDS_IN_TEXTS = frozenset((Removed.GPS, Removed.EMAIL, Removed.CONTACT, Removed.SERIAL_NUMBER, Removed.IDENTIFIER))
"""Fields of the kinds `_FREE_TEXT_KINDS` are also searched for these."""


def kinds_in(blocks: Blocks, packet: xmp.Packet, keep_location: KeepLocation) -> frozenset[Removed]:
    """The kinds of private fields in a file's blocks, of which `packet` is the XMP as parsed.

    Those inside texts that are published are found by `clean_text`.
    """
    found = Kinds()
    _add_exif(found, blocks.exif or b"")
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


def _add_exif(found: Kinds, tiff: bytes) -> None:
    main, shot, position = (exif.read_ifd(tiff, pointer) for pointer in (None, exif.EXIF_IFD, exif.GPS_IFD))
    for tag, field in [*main.fields.items(), *shot.fields.items()]:
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
    if tiff.strip(b"\0 ") and not (main.fields and is_complete):
        found.add(Removed.UNREADABLE)
    if exif.GPS_IFD in main.fields and (set(position.fields) - {_GPS_VERSION} or not position.fields):
        found.add(Removed.GPS)
    if main.has_next:
        found.add(Removed.THUMBNAIL)


def _add_iptc(found: Kinds, block: bytes | None, keep_location: KeepLocation) -> None:
    stored = iptc.stored_numbers(block)
    if not iptc.is_complete(block):
        found.add(Removed.UNREADABLE)
    for record, number in stored:
        if (record, number) == (2, iptc.SUBLOCATION) and keep_location is not KeepLocation.ALL:
            found.add(Removed.LOCATION)
        if (record, number) in _IPTC_TECHNICAL or (record == 2 and number in iptc.DATASETS):
            continue
        kind = Removed.THUMBNAIL if record in _PREVIEW_RECORDS else Removed.OTHER
        found.add(_IPTC_KINDS.get(number, Removed.OTHER) if record == 2 else kind)
    for number, texts in iptc.read(block).items():
        kind = _IPTC_KINDS.get(number, Removed.OTHER)
        if number not in iptc.DATASETS and (2, number) not in _IPTC_TECHNICAL:
            for text in texts:
                found.add(kind, text)


def _add_profile(found: Kinds, profile: bytes) -> None:
    descriptions, others = (part.decode("latin-1").replace("\0", "") for part in icc.left_out(profile))
    texts = (descriptions + others)[:MAX_SCANNED_CHARACTERS]
    # without positions: they look like measured colours
    found.kinds |= clean_text(texts).removed & {Removed.EMAIL, Removed.SERIAL_NUMBER}
    if others.strip():
        found.add(Removed.SERIAL_NUMBER if _DISPLAY_SERIAL.search(others) else Removed.OTHER)


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
    named = next((kind for parts, kind in _XMP_KINDS if any(part in keyword.lower() for part in parts)), None)
    return named or _PNG_KINDS.get(local) or (Removed.CAMERA if prefix.startswith("exif") else Removed.OTHER)


def _kind_of(name: str) -> Removed | None:
    """The kind of a property or field that is not published; None if it describes how pixels are stored."""
    namespace, _, local = name.rpartition("}")
    if local in _XMP_TECHNICAL or name.startswith(xmp.RDF):
        return None
    lower = local.lower()
    named = next((kind for parts, kind in _XMP_KINDS if any(part in lower for part in parts)), None)
    return named or _XMP_NAMESPACES.get(namespace[1:], Removed.OTHER)
